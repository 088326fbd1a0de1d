"""The update of fine-tuning: rates by depth, what is frozen, and torch's own losses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.model.task_heads import HeadConfig
from bert_jax.models import load_model
from bert_jax.tasks import glue
from bert_jax.tasks import step as steps
from bert_jax.tasks.batches import Packer, epoch_batch
from bert_jax.tasks.config import FinetuneConfig
from bert_jax.tasks.task import TaskConfig
from tests.model.test_encoder import COMPUTE, CONFIG, perturbed_params
from tests.model.test_task_heads import both_batches

HEAD = HeadConfig("classify", ("a", "b"))


def started(config, head=HEAD):
    params, fresh = steps.init_params(CONFIG, COMPUTE, head, perturbed_params(CONFIG), seed=0)
    return steps.init_state(config, params), fresh


def batch(labels=(0, 1, 1, 0, 1), weights=(1, 1, 1, 1, 1)):
    _, packed = both_batches()
    return packed | {"labels": jnp.array(labels), "row_weight": jnp.array(weights, jnp.float32)}


def updated(config, examples=None, head=HEAD, rate=1e-2):
    """(state before, state after one update, metrics)."""
    state, _ = started(config, head)
    model = dataclasses.replace(CONFIG, dropout=0.0, attention_dropout=0.0)
    step = steps.make_train_step(config, model, head, steps.rate_factors(config, state["params"]))
    after, metrics = jax.jit(step)(state, examples or batch(), jnp.float32(rate), jax.random.key(0))
    return state, after, metrics


def moved(before, after):
    return jax.tree.map(lambda a, b: bool((a != b).any()), before["params"], after["params"])


def test_rates_fall_from_layer_to_layer():
    config = FinetuneConfig(layer_decay=0.5)
    factors = steps.rate_factors(config, started(config)[0]["params"])
    assert factors["task"]["dense"]["kernel"] == factors["pooler"]["dense"]["bias"] == 1
    assert factors["layers"]["ffn"]["up"]["kernel"].ravel().tolist() == [0.125, 0.25, 0.5]
    assert factors["embeddings"]["word"]["embedding"] == 0.0625
    (before, plain, _), (_, decayed, _) = (updated(dataclasses.replace(config, layer_decay=d)) for d in (1.0, 0.5))
    for path, factor in ((("layers", "ffn", "up", "bias"), 0.125), (("embeddings", "norm", "bias"), 0.0625)):
        change = [jax.tree.reduce(lambda tree, key: tree[key], path, s["params"]) for s in (before, plain, decayed)]
        first = (lambda leaf: leaf[0]) if path[0] == "layers" else (lambda leaf: leaf)
        np.testing.assert_allclose(first(change[2] - change[0]), factor * first(change[1] - change[0]), atol=2e-7)


def test_what_is_frozen_stays_and_counts_in_no_norm():
    before, after, metrics = updated(FinetuneConfig(frozen_layers=2))
    changed = moved(before, after)
    assert not any(jax.tree.leaves(changed["embeddings"])) and changed["task"]["dense"]["kernel"]
    up = after["params"]["layers"]["ffn"]["up"]["kernel"] != before["params"]["layers"]["ffn"]["up"]["kernel"]
    assert [bool(layer.any()) for layer in up] == [False, False, True]
    assert metrics["gradient_norm"] < updated(FinetuneConfig())[2]["gradient_norm"]
    before, after, _ = updated(FinetuneConfig(frozen="layers/.*|pooler/.*"))
    changed = moved(before, after)
    assert not any(jax.tree.leaves([changed["layers"], changed["pooler"]])) and changed["embeddings"]["norm"]["bias"]


def test_filling_changes_nothing():
    # Of a text of weight 0 the label may be anything.
    states = [updated(FinetuneConfig(), batch((0, 1, 1, 0, label), (1, 1, 1, 1, 0)))[1] for label in (0, 1)]
    jax.tree.map(np.testing.assert_array_equal, *states)
    assert states[0]["examples"] == 4


def test_a_bad_step_changes_no_weight():
    labels = jnp.array([0.0, 1, np.nan, 0, 1])
    before, after, metrics = updated(FinetuneConfig(), batch(labels), HeadConfig("regress"))
    assert metrics["bad"] == 1 and not any(jax.tree.leaves(moved(before, after))) and after["step"] == 1


def test_the_pooler_is_drawn_where_there_is_none_and_the_head_always():
    params = perturbed_params(CONFIG)
    kept, fresh = steps.init_params(CONFIG, COMPUTE, HEAD, params, seed=0)
    assert fresh == ["task"] and sorted(kept) == ["embeddings", "layers", "pooler", "task"]
    del params["pooler"]
    assert steps.init_params(CONFIG, COMPUTE, HEAD, params, seed=0)[1] == ["task", "pooler"]


def test_settings_that_fit_no_model_are_refused():
    params = started(FinetuneConfig())[0]["params"]
    with pytest.raises(UserError, match="frozen_layers is 4, but the model has 3 layers"):
        steps.rate_factors(FinetuneConfig(frozen_layers=4), params)
    with pytest.raises(UserError, match="frozen 'layer/' matches no parameter; they are embeddings/norm/bias"):
        steps.rate_factors(FinetuneConfig(frozen="layer/"), params)
    with pytest.raises(UserError, match="is no regular expression"):
        FinetuneConfig(frozen="(")


@pytest.mark.parity
@pytest.mark.slow
def test_fifty_steps_have_the_losses_of_transformers_and_torch(shared_data, minilm):
    """The same weights, batches and rates, without dropout: MRPC from MiniLM's weights."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = load_model(minilm)
    task = glue.load(TaskConfig("mrpc", str(shared_data / "glue")), model.tokenizer, 128)
    config, train = FinetuneConfig(dropout=0.0), task.splits["train"]
    architecture = dataclasses.replace(model.config, dropout=0.0, attention_dropout=0.0)
    params, _ = steps.init_params(model.config, config.compute, task.head, model.params, 0)
    state = jax.tree.map(jnp.copy, steps.init_state(config, params))
    step = jax.jit(steps.make_train_step(config, architecture, task.head, steps.rate_factors(config, params)))
    packer, rate = Packer(train, 16, 1, model.tokenizer.pad_id, 512), 5e-5

    reference = transformers.BertForSequenceClassification.from_pretrained(
        minilm, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    ).train()
    with torch.no_grad():
        reference.classifier.weight.copy_(torch.tensor(np.array(params["task"]["dense"]["kernel"]).T))
        reference.classifier.bias.copy_(torch.tensor(np.array(params["task"]["dense"]["bias"])))
    decayed, plain = [], []
    for name, parameter in reference.named_parameters():
        (plain if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, eps=1e-6)
    ours, theirs = [], []
    for number in range(50):
        examples = epoch_batch(np.arange(len(train)), 16 * number, 16, seed=0)
        state, metrics = step(state, packer(examples), jnp.float32(rate), jax.random.key(0))
        ours.append(float(metrics["loss"]))
        rows = [train.features.select([example]) for example in examples]
        width = max(len(row.ids) for row in rows)
        ids, types, mask = (torch.zeros(16, width, dtype=torch.long) for _ in range(3))
        for n, row in enumerate(rows):
            size = len(row.ids)
            ids[n, :size], mask[n, :size] = torch.tensor(row.ids).long(), 1
            types[n, int(row.second[0]) : size] = 1
        labels = torch.tensor(train.labels[examples]).long()
        loss = reference(input_ids=ids, token_type_ids=types, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        theirs.append(loss.item())
    np.testing.assert_allclose(ours[:10], theirs[:10], atol=1e-4)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
