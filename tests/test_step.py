"""One update of training and one evaluation: what they depend on, what they leave alone, what cannot leak."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from bert_jax import parallel
from bert_jax import step as steps
from bert_jax.data.storage import SplitReader
from bert_jax.evaluate import compile_eval_step, evaluate
from bert_jax.model import heads
from bert_jax.parallel import MeshConfig
from bert_jax.phases import open_phases
from bert_jax.randomness import Purpose
from tests.e2e.conftest import BATCH, LENGTH, settings

OUTSIDE = 60_000  # an id beyond any table here
ALL_MASKED = {
    f"phases__phase1__masking__{name}": value
    for name, value in {"rate": 1.0, "max_predictions": LENGTH, "mask_share": 1.0, "random_share": 0.0}.items()
}
DETERMINISTIC = {"model__dropout": 0.0, "model__attention_dropout": 0.0}


@functools.cache
def opened(**overrides):
    """(config, mesh, phase) of the tiny recipe."""
    config = settings(**overrides)
    mesh = parallel.make_mesh(MeshConfig())
    return config, mesh, open_phases(config, mesh)[0]


@functools.cache
def compiled(**overrides):
    """The jitted train step; it leaves its arguments alone."""
    config, _, phase = opened(**overrides)
    return jax.jit(steps.make_train_step(config, phase.config, phase.vocabulary))


@functools.cache
def fresh():
    return jax.jit(lambda: steps.init_state(opened()[0]))()


def batch_of(*indices, split="train"):
    columns = SplitReader(opened()[2].data, split).read(np.array(indices))
    return {name: values.astype(np.int32) for name, values in columns.items()}


def at(step, examples, state=None):
    """A state after so many updates and examples."""
    return (state or fresh()) | {"step": jnp.int32(step), "examples": jnp.uint32(examples)}


@functools.partial(jax.jit, static_argnames="purpose")
def masked(batch, first_example=0, purpose=Purpose.TRAIN_MASKS):
    config, _, phase = opened()
    weighted = batch | {"row_weight": jnp.ones(len(batch["input_ids"]))}
    return steps.masked_batch(config, phase.config.masking, phase.vocabulary, weighted, purpose, first_example)


@jax.jit
def sums_of(batch, dropout_key=None):
    return steps.batch_sums(fresh()["params"], opened()[0], batch, dropout_key)


@jax.jit
def logits_of(batch):
    config = opened()[0]
    return heads.pretraining_logits(fresh()["params"], config.model, config.compute, batch)


def assert_same(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def differs(found, expected):
    return any((a != b).any() for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))


# What an update depends on.


def test_an_update_advances_step_and_examples_and_follows_the_schedule():
    """The debug recipe: 2 steps of warmup to 1e-4, then down to 0 at step 6, measured from step 0. Case C1: step 0
    has rate 0 and leaves the parameters alone, but not the moments."""
    state, batch = fresh(), batch_of(*range(BATCH))
    rates, before = [], state["params"]
    for _ in range(6):
        state, metrics = compiled()(state, batch)
        rates.append(float(metrics["learning_rate"]))
        if len(rates) == 1:
            assert_same(state["params"], before)
            assert differs(state["opt_state"]["mu"], fresh()["opt_state"]["mu"])
    np.testing.assert_allclose(rates, np.array([0, 3, 4, 3, 2, 1]) / 6 * 1e-4, rtol=1e-6)
    assert (state["step"], state["examples"], state["opt_state"]["count"]) == (6, 48, 6)
    assert differs(state["params"], before)


def test_the_same_batch_draws_anew_at_each_step_of_training_and_never_in_evaluation():
    """Case C13, at rate 0: by dropout alone, as here every token is masked whatever is drawn; and then by the masks."""
    batch, (config, mesh, phase) = batch_of(*range(BATCH)), opened()
    for step in (compiled(**ALL_MASKED), compiled()):
        (_, first), (_, again), (_, later) = (step(at(0, examples), batch) for examples in (0, 0, BATCH))
        assert_same(first, again)
        assert first["loss"] != later["loss"]
    eval_step = compile_eval_step(config, phase, fresh()["params"], mesh)
    weighted = batch | {"row_weight": np.ones(BATCH, np.float32)}
    assert_same(*(eval_step(fresh()["params"], weighted, np.uint32(0)) for _ in range(2)))


def test_dropout_alone_changes_the_loss():
    """Under the same masks: by the key, and against none."""
    batch = masked(batch_of(*range(BATCH)))
    keys = [jax.random.key(0), jax.random.key(1), None]
    assert len({float(sums_of(batch, key)["mlm_loss"]) for key in keys}) == 3


def test_masks_are_those_of_the_rows_place_in_the_run():
    """The second half of a batch of 16 is masked as the batch of 8 that begins there."""
    whole = masked(batch_of(*range(16)), first_example=40)
    half = masked(batch_of(*range(8, 16)), first_example=48)
    for name in ("input_ids", "positions", "labels", "weights"):
        assert_same(whole[name][8:], half[name])
    assert differs(half["positions"], masked(batch_of(*range(8, 16)), first_example=40)["positions"])


def test_position_rows_beyond_the_length_only_decay():
    """Case C3: rows 32 and up of the table get no gradient, but google-research/bert decays embeddings, so each
    update multiplies them by 1 - rate * 0.01, and the rows in use move otherwise."""
    state, metrics = compiled()(at(1, 8), batch_of(*range(BATCH)))
    before, after = (np.float64(s["params"]["embeddings"]["position"]["embedding"]) for s in (fresh(), state))
    decay = 1 - float(metrics["learning_rate"]) * 0.01
    np.testing.assert_allclose(after[LENGTH:], before[LENGTH:] * decay, rtol=2e-7)
    assert (np.abs(after[:LENGTH] / before[:LENGTH] - decay).max(axis=1) > 1e-5).all()


def test_the_program_holds_no_logits_of_all_positions():
    """Case B13: [8, 5, V] of the gathered positions, never [8, 32, V] or [256, V]."""
    config, text = opened()[0], compiled().lower(fresh(), batch_of(*range(BATCH))).compile().as_text()
    size = config.model.padded_vocab_size
    assert f"[{BATCH},5,{size}]" in text or f"[{BATCH * 5},{size}]" in text
    assert f"[{BATCH},{LENGTH},{size}]" not in text and f"[{BATCH * LENGTH},{size}]" not in text


# Losses.


def test_the_loss_is_that_of_the_masked_positions_alone():
    """Against logits of all positions and scipy's log-softmax, averaged over what the labels say was masked."""
    batch = masked(batch_of(*range(BATCH)))
    everywhere = batch | {"positions": jnp.broadcast_to(jnp.arange(LENGTH), (BATCH, LENGTH))}
    logits, nsp_logits = logits_of(everywhere)
    log_p = scipy.special.log_softmax(np.float64(logits), axis=-1)
    used = [(row, int(p), int(y)) for row in range(BATCH) for p, y, w in zip(*of_row(batch, row)) if w]  # noqa: B905
    sums = sums_of(batch)
    assert len(used) == sums["mlm_weight"] > BATCH
    expected = -sum(log_p[row, position, label] for row, position, label in used)
    np.testing.assert_allclose(sums["mlm_loss"], expected, rtol=1e-6)
    log_q = scipy.special.log_softmax(np.float64(nsp_logits), axis=-1)
    np.testing.assert_allclose(sums["nsp_loss"], -log_q[range(BATCH), batch["next_sentence_label"]].sum(), rtol=1e-6)


def of_row(batch, row):
    return batch["positions"][row], batch["labels"][row], batch["weights"][row]


def test_a_masked_token_cannot_reach_its_own_prediction():
    """Another word under the mask changes the label and not one bit of the logits; one that was kept does."""
    batch = batch_of(*range(BATCH))
    hidden = masked(batch)
    other = {"input_ids": batch["input_ids"].copy()} | {n: v for n, v in batch.items() if n != "input_ids"}
    kept = 0
    for row in range(BATCH):
        for position, label, weight in zip(*of_row(hidden, row)):  # noqa: B905
            if weight and hidden["input_ids"][row, position] != label:
                other["input_ids"][row, position] = 20 if label != 20 else 21
            else:
                kept += bool(weight)
    hidden_other = masked(other)
    assert differs(hidden["labels"], hidden_other["labels"]) and kept < 10
    logits = logits_of(hidden)
    assert_same(logits_of(hidden_other), logits)
    other["input_ids"][:, 1:-1] = 20  # what is in plain sight does reach them
    assert differs(logits_of(masked(other)), logits)


def unequal_batch():
    """Rows of 3 to 32 tokens, so that microbatches have unequal masks, and one row that cannot be masked at all."""
    batch = batch_of(*range(BATCH))
    pad, (cls, sep) = opened()[2].vocabulary.pad_id, batch["input_ids"][0, [0, -1]]
    for row in range(BATCH):
        batch["input_ids"][row, 3 + 4 * row :] = pad
    batch["input_ids"][0, :3] = cls, sep, sep
    return batch


@pytest.mark.slow  # of the arithmetic alone there are quick tests in test_accumulate.py
@pytest.mark.parametrize("accumulation", [2, 4])
def test_accumulation_changes_nothing_but_memory(accumulation):
    """Cases B10 and C5, dropout off: loss, gradient (0.1 of it is the first moment) and parameters."""
    batch = unequal_batch()
    whole, metrics = compiled(**DETERMINISTIC)(at(1, 0), batch)
    parts, metrics_of_parts = compiled(**DETERMINISTIC, phases__phase1__accumulation=accumulation)(at(1, 0), batch)
    weights = np.asarray(masked(batch)["weights"].sum(axis=1))
    assert weights[0] == 0 and len({weights[m::accumulation].sum() for m in range(accumulation)}) > 1
    for name in ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "gradient_norm", "parameter_norm", "learning_rate"):
        np.testing.assert_allclose(metrics_of_parts[name], metrics[name], rtol=2e-6, err_msg=name)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-7)  # noqa: E731
    jax.tree.map(close, parts["opt_state"]["mu"], whole["opt_state"]["mu"])
    assert parts["step"] == whole["step"] == 2 and parts["examples"] == whole["examples"] == BATCH


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["elementwise", "dots", "full"])
def test_recomputation_changes_nothing(policy):
    """Case C12: with dropout on, the bits drawn again for the backward pass are those of the forward pass."""
    batch = batch_of(*range(BATCH))
    (plain, metrics), (remat, metrics_of_remat) = (
        compiled(compute__remat=p)(at(1, 0), batch) for p in ("none", policy)
    )
    for name in ("loss", "gradient_norm"):
        np.testing.assert_allclose(metrics_of_remat[name], metrics[name], rtol=1e-6)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)  # noqa: E731
    jax.tree.map(close, remat["opt_state"]["mu"], plain["opt_state"]["mu"])


# Steps that are not finite.


def test_a_bad_step_leaves_parameters_and_moments_and_goes_on():
    """Case C11, with an id beyond the table: its embedding is NaN and not the clamped last row (case B11)."""
    good, _ = compiled()(at(1, 0), batch_of(*range(BATCH)))
    batch = batch_of(*range(BATCH))
    batch["input_ids"][3, 5] = OUTSIDE
    after, metrics = compiled()(good, batch)
    assert metrics["bad"] == 1 and np.isnan(metrics["loss"])
    assert_same((after["params"], after["opt_state"]), (good["params"], good["opt_state"]))
    assert (after["step"], after["examples"]) == (good["step"] + 1, good["examples"] + BATCH)
    again, metrics = compiled()(after, batch_of(*range(BATCH)))
    assert metrics["bad"] == 0 and differs(again["params"], after["params"])


def test_a_gradient_that_overflows_is_bad_too():
    state = at(1, 0)
    huge = jax.tree.map(lambda x: x, state["params"])
    huge["nsp"]["dense"]["kernel"] = huge["nsp"]["dense"]["kernel"] * 1e36
    after, metrics = compiled()(state | {"params": huge}, batch_of(*range(BATCH)))
    assert metrics["bad"] == 1 and not np.isfinite(metrics["gradient_norm"])
    assert_same(after["params"], huge)


# Evaluation.


def score(size, n_examples=0):
    config, mesh, phase = opened(eval_batch_size=size, eval_examples=n_examples)
    return evaluate(config, phase, fresh()["params"], mesh, compile_eval_step(config, phase, fresh()["params"], mesh))


def test_evaluation_counts_every_example_once():
    """Case F8 for pretraining: a split that the batch does not divide gives the mean over each by itself."""
    size = opened()[2].data.size("validation")
    assert size % BATCH
    sums = []
    for index in range(size):
        row = masked(batch_of(index, split="validation"), index, Purpose.EVAL_MASKS)
        sums.append(jax.device_get(sums_of(row)))
    total = {name: sum(float(s[name]) for s in sums) for name in sums[0]}
    found = score(BATCH)
    for head in ("mlm", "nsp"):
        np.testing.assert_allclose(found[f"{head}_loss"], total[f"{head}_loss"] / total[f"{head}_weight"], rtol=1e-6)
        np.testing.assert_allclose(found[f"{head}_accuracy"], total[f"{head}_correct"] / total[f"{head}_weight"])
    assert total["nsp_weight"] == size
    np.testing.assert_allclose(found["mlm_perplexity"], np.exp(found["mlm_loss"]), rtol=1e-5)


def test_evaluation_masks_never_change():
    """Case B14: at each evaluation the same, whatever the batch size, as a row's mask is that of its place."""
    assert score(BATCH) == score(BATCH)
    other = score(16)
    for name, value in score(BATCH).items():
        np.testing.assert_allclose(other[name], value, rtol=1e-6, err_msg=name)


def test_a_part_of_the_split_can_be_scored():
    assert score(BATCH, n_examples=10) != score(BATCH)
    few = score(16, n_examples=10)
    assert few["nsp_accuracy"] * 10 == pytest.approx(round(few["nsp_accuracy"] * 10))
