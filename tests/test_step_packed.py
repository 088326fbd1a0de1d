"""The step on packed rows: sums and gradients are those of the pieces in rows of their own, on any devices."""

import dataclasses
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax import parallel
from bert_jax import step as steps
from bert_jax.config import PhaseConfig, PretrainConfig
from bert_jax.data.masking import MaskingConfig
from bert_jax.model import heads
from bert_jax.model.presets import EncoderConfig
from bert_jax.optim import OptimizerConfig
from bert_jax.randomness import Purpose
from bert_jax.schedules import ScheduleConfig
from tests.model import packed

MODEL = EncoderConfig(
    vocab_size=90, hidden=32, layers=2, heads=4, ffn=48, max_positions=24, dropout=0.0, attention_dropout=0.0
)
MASK = 3
VOCABULARY = steps.Vocabulary(0, MASK, (0, 1, 2, MASK), tuple(range(5, MODEL.vocab_size)))
ALL_MASKED = MaskingConfig(packed.LENGTH, rate=1.0, mask_share=1.0, random_share=0.0)
USUAL = MaskingConfig(12)
LENGTHS = packed.ROWS * 2  # eight rows
LABELS = {"nsp": "next_sentence_label", "sop": "sentence_order_label"}


def settings(masking=USUAL, accumulation=1, rows=8, **model):
    """A config of one phase, without dropout and clipping."""
    phase = PhaseConfig(
        length=packed.LENGTH, batch_size=rows, steps=4, masking=masking, eval_masking=masking, accumulation=accumulation
    )
    return PretrainConfig(
        model=dataclasses.replace(MODEL, **model),
        optimizer=OptimizerConfig(clip_norm=None),
        schedule=ScheduleConfig("constant", peak=1e-3, warmup_steps=0, total_steps=4),
        phases=(phase,),
    )


@functools.cache
def compiled(config):
    return jax.jit(steps.make_train_step(config, config.phases[0], VOCABULARY))


def packed_batch(pieces_and_rows=None):
    return packed.pack(*(pieces_and_rows or packed.random_pieces(MODEL.vocab_size, LENGTHS)))


def assert_close(found, expected, rtol=1e-4, atol=1e-7):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), found, expected)


@pytest.mark.parametrize("head", ["nsp", "sop", "none"])
def test_packed_rows_train_as_their_pieces_do_alone(head):
    """All words masked, so that the masks are the same: loss, accuracy and each gradient (0.1 of it is the first
    moment). Pieces of a label alone in a row weigh as much as those of full rows: the mean is over pieces."""
    members, rows = packed.random_pieces(MODEL.vocab_size, LENGTHS)
    batches = packed.pack(members, rows), packed.alone(members)
    for batch in batches:
        label = batch.pop("next_sentence_label")
        batch |= {} if head == "none" else {LABELS[head]: label}
    states, metrics = [], []
    for batch in batches:
        config = settings(ALL_MASKED, rows=len(batch["input_ids"]), sentence_head=head)
        state, found = compiled(config)(steps.init_state(config), batch)
        states.append(state["opt_state"]["mu"])
        metrics.append({name: float(value) for name, value in found.items()})
    assert metrics[0].keys() == metrics[1].keys() and (f"{head}_loss" in metrics[0]) == (head != "none")
    for name in metrics[0]:
        np.testing.assert_allclose(metrics[0][name], metrics[1][name], rtol=1e-5, err_msg=name)
    assert_close(*states, atol=2e-7)
    assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(states[0]["layers"]["ffn"]))


@jax.jit
def sums_and_gradient(params, batch):
    def total(params):
        sums = steps.batch_sums(params, settings(), batch)
        return sums["mlm_loss"] + sums["nsp_loss"], sums

    (_, sums), gradient = jax.value_and_grad(total, has_aux=True)(params)
    return sums, gradient


def given_masks(members, rows, seed=0):
    """(masked batch of the packed rows, that of the pieces alone), with the same predictions, two a piece."""
    rng = np.random.default_rng(seed)
    chosen = [np.sort(rng.permutation(len(piece["input_ids"]))[:2]) for piece in members]
    batches = packed.pack(members, rows), packed.alone(members)
    masked = []
    for batch, members_of in zip(batches, (rows, [[n] for n in range(len(members))]), strict=True):
        n_rows = len(members_of)
        taken = dict(row_weight=np.ones(n_rows, np.float32)) | batch
        drawn = steps.masked_batch(settings(), USUAL, VOCABULARY, taken, Purpose.TRAIN_MASKS, 0)
        drawn["input_ids"] = batch["input_ids"].copy()
        for name in ("positions", "labels", "weights"):
            drawn[name] = np.zeros((n_rows, 12), np.float32 if name == "weights" else np.int32)
        for row, of_row in enumerate(members_of):
            start, slot = 0, 0
            for n in of_row:
                for place in chosen[n] + start:
                    drawn["positions"][row, slot], drawn["weights"][row, slot] = place, 1
                    drawn["labels"][row, slot] = batch["input_ids"][row, place]
                    drawn["input_ids"][row, place] = MASK
                    slot += 1
                start += len(members[n]["input_ids"])
        masked.append(drawn)
    return masked


def test_loss_sums_and_gradients_with_masks_given():
    members, rows = packed.random_pieces(MODEL.vocab_size, LENGTHS)
    together, alone = given_masks(members, rows)
    params = steps.init_state(settings())["params"]
    sums, gradient = sums_and_gradient(params, together)
    sums_alone, gradient_alone = sums_and_gradient(params, alone)
    assert sums["mlm_weight"] == 2 * len(members) and sums["nsp_weight"] == len(members)
    assert_close(sums, sums_alone, rtol=1e-5)
    assert_close(gradient, gradient_alone, atol=1e-5)


def test_what_a_row_has_not_does_not_count():
    """Labels of slots beyond the pieces may be anything; rows of weight 0 count with none of their pieces."""
    together, _ = given_masks(*packed.random_pieces(MODEL.vocab_size, LENGTHS))
    params = steps.init_state(settings())["params"]
    expected = sums_and_gradient(params, together)
    other = dict(together)
    other["sentence_labels"] = np.where(together["sentence_weights"] > 0, together["sentence_labels"], 77)
    jax.tree.map(np.testing.assert_array_equal, sums_and_gradient(params, other), expected)

    batch = packed_batch()
    first_alone = {name: values[:1] for name, values in batch.items()} | {"row_weight": np.ones(1, np.float32)}
    weighted = batch | {"row_weight": np.eye(8, dtype=np.float32)[0]}
    config = settings()
    eval_step = jax.jit(steps.make_eval_step(config, config.phases[0], VOCABULARY))
    found, expected = (eval_step(params, rows, np.uint32(0)) for rows in (weighted, first_alone))
    assert_close(found, expected, rtol=1e-5)
    assert found["nsp_weight"] == len(LENGTHS[0])


def test_a_neighbours_label_changes_only_its_own_share():
    """The sum of the sentence head's losses moves by that piece's two logits, and nothing else does."""
    members, rows = packed.random_pieces(MODEL.vocab_size, [(9, 5, 10)])
    params = steps.init_state(settings())["params"]
    found = []
    for label in (0, 1):
        members[1]["label"] = label
        together, _ = given_masks(members, rows)
        found.append(sums_and_gradient(params, together)[0])
    forward = jax.jit(lambda params, batch: heads.pretraining_logits(params, MODEL, settings().compute, batch))
    _, logits = forward(params, together)
    assert found[0]["mlm_loss"] == found[1]["mlm_loss"]
    moved = found[1]["nsp_loss"] - found[0]["nsp_loss"]
    np.testing.assert_allclose(moved, logits[0, 1, 0] - logits[0, 1, 1], rtol=1e-3, atol=1e-6)


def test_masks_of_packed_rows_fall_into_each_piece():
    """segment_ids reach the masking: every piece has its own share, and one of a piece is a word."""
    batch = packed_batch() | {"row_weight": np.ones(8, np.float32)}
    drawn = steps.masked_batch(settings(), USUAL, VOCABULARY, batch, Purpose.TRAIN_MASKS, 0)
    counts = {}
    for row in range(8):
        for position, weight in zip(drawn["positions"][row], drawn["weights"][row], strict=True):
            if weight:
                key = row, int(batch["segment_ids"][row, position])
                counts[key] = counts.get(key, 0) + 1
                assert batch["input_ids"][row, position] >= 5
    expected = {
        (row, number + 1): max(1, round(0.15 * length))
        for row, lengths in enumerate(LENGTHS)
        for number, length in enumerate(lengths)
        if length > 2
    }
    assert counts == expected


DEVICES = 8


def figures(devices, accumulation):
    """Metrics of two updates and the first moments of a packed batch on so many devices, masks drawn as usual."""
    config = settings(accumulation=accumulation, rows=16)
    shape = dict(data=2, fsdp=2, tensor=2) if devices == DEVICES else dict(data=1)
    mesh = parallel.make_mesh(parallel.MeshConfig(**shape), jax.devices()[:devices])
    state = steps.init_state(config)
    shardings = parallel.state_shardings(state, mesh)
    batch = packed_batch(packed.random_pieces(MODEL.vocab_size, LENGTHS * 2))
    step = jax.jit(
        steps.make_train_step(config, config.phases[0], VOCABULARY),
        in_shardings=(shardings, parallel.batch_sharding(mesh)),
        out_shardings=(shardings, parallel.replicated(mesh)),
    )
    lines = []
    for _ in range(2):
        state, metrics = step(state, batch)
        lines.append({name: float(value) for name, value in metrics.items()})
    return lines, [np.asarray(leaf) for leaf in jax.tree.leaves(state["opt_state"]["mu"])]


def test_accumulation_and_eight_devices_agree(tmp_path):
    """Against one device without accumulation; the means are over the pieces of the whole global batch."""
    expected, expected_moments = figures(1, 1)
    code = (
        "import sys, json, numpy as np\nfrom tests.test_step_packed import figures\n"
        "lines, moments = figures(8, 2)\njson.dump(lines, open(sys.argv[1] + '/lines.json', 'w'))\n"
        "np.savez(sys.argv[1] + '/moments.npz', *moments)\n"
    )
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, env=environment, cwd=Path(__file__).parents[1], check=True, timeout=300)
    found = [json.loads((tmp_path / "lines.json").read_text())]
    with np.load(tmp_path / "moments.npz") as moments:
        found.append([moments[name] for name in moments.files])
    for lines, moments in (found, figures(1, 4)):
        for line, other in zip(lines, expected, strict=True):
            for name, value in other.items():
                np.testing.assert_allclose(line[name], value, rtol=1e-5, err_msg=name)
        assert_close(moments, expected_moments, rtol=1e-3, atol=1e-6)


def test_rows_without_types_or_label_are_read():
    """Packed documents hold ids and segments alone; rows of full sentences only ids."""
    config, batch = settings(sentence_head="none"), packed_batch()
    for columns in (("input_ids", "segment_ids"), ("input_ids",)):
        rows = {name: jnp.asarray(batch[name]) for name in columns}
        _, metrics = compiled(config)(steps.init_state(config), rows)
        assert np.isfinite(metrics["mlm_loss"]) and metrics["bad"] == 0
        assert not {"nsp_loss", "sop_loss"} & metrics.keys() and metrics["loss"] == metrics["mlm_loss"]
