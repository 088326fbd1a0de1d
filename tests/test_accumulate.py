"""Accumulated gradients are the whole batch's, however its weights fall on the microbatches, at their memory."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bert_jax.accumulate import accumulate_gradients, split_microbatches
from bert_jax.errors import UserError
from bert_jax.losses import contribution, mlm_sums, sentence_sums, weight_totals

V, D = 50, 16


def toy_params(width=D):
    random = np.random.default_rng(0)
    draw = lambda *shape: np.float32(random.normal(size=shape) * 0.3)  # noqa: E731
    return {"embedding": draw(V, width), "kernel": draw(width, width), "nsp": draw(width, 2)}


def toy_batch(rows, length=6):
    """Rows whose masked weight goes from 0 to all, so that equal microbatches weigh very differently."""
    random = np.random.default_rng(1)
    weights = (np.arange(length) < np.linspace(0, length, rows)[:, None]).astype(np.float32)
    return {
        "input_ids": random.integers(0, V, (rows, length)),
        "labels": random.integers(0, V, (rows, length)),
        "weights": weights,
        "nsp_labels": random.integers(0, 2, rows),
        "row_weights": (np.arange(rows) < rows - 3).astype(np.float32),
    }


def toy_loss(params, batch, totals):
    hidden = jnp.tanh(jnp.asarray(params["embedding"])[batch["input_ids"]] @ params["kernel"])
    sums = mlm_sums(hidden @ params["embedding"].T, batch["labels"], batch["weights"])
    sums |= sentence_sums("nsp", hidden[:, 0] @ params["nsp"], batch["nsp_labels"], batch["row_weights"])
    return contribution(sums, totals), sums


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def totals_of(batch):
    return weight_totals({"mlm": batch["weights"], "nsp": batch["row_weights"]})


@jax.jit
def whole(params, batch):
    (loss, sums), gradients = jax.value_and_grad(toy_loss, has_aux=True)(params, batch, totals_of(batch))
    return loss, sums, gradients


@jax.jit
def accumulated(params, batch, microbatches):
    return accumulate_gradients(toy_loss, params, microbatches, totals_of(batch))


@pytest.mark.parametrize("count", [1, 3, 24])
def test_any_split_gives_the_whole_batchs_gradient(count):
    """Cases B10 and C5, with consecutive rows too: there the first microbatch has next to no weight."""
    params, batch = toy_params(), toy_batch(24)
    consecutive = jax.tree.map(lambda x: x.reshape(count, 24 // count, *x.shape[1:]), batch)
    for microbatches in (split_microbatches(batch, count), consecutive):
        found = accumulated(params, batch, microbatches)
        jax.tree.map(assert_close, found, whole(params, batch))


def test_a_mean_of_means_would_fail_that_test():
    params, batch = toy_params(), toy_batch(24)
    halves = [jax.tree.map(lambda x: x[rows], batch) for rows in (slice(0, 12), slice(12, 24))]
    gradients = [whole(params, half)[2]["kernel"] for half in halves]
    off = np.abs(np.mean(gradients, 0) - whole(params, batch)[2]["kernel"]).max()
    assert off > 1e-3


def test_a_batch_without_weight_has_no_gradient():
    params, batch = toy_params(), toy_batch(24)
    batch |= {"weights": 0 * batch["weights"], "row_weights": 0 * batch["row_weights"]}
    loss, _, gradients = accumulated(params, batch, split_microbatches(batch, 3))
    assert loss == 0 and all((g == 0).all() for g in jax.tree.leaves(gradients))


def test_bfloat16_gradients_are_added_in_float32():
    """512 gradients of 1.0078125 / 512: added up in bfloat16 they would stall at half of their sum."""
    params = {"w": jnp.ones((), jnp.bfloat16)}

    def loss_fn(params, x, totals):
        return (params["w"] * x).sum() / totals, {"rows": x.shape[0] * jnp.ones((), jnp.bfloat16)}

    x = jnp.full((512, 1), 1.0078125, jnp.bfloat16)
    _, sums, gradients = jax.jit(accumulate_gradients, static_argnums=0)(loss_fn, params, x, jnp.float32(512))
    assert gradients["w"].dtype == jnp.float32 and gradients["w"] == 1.0078125
    assert sums["rows"] == 512


def test_memory_is_that_of_a_microbatch():
    """Case C5: below 1.3 times that of a batch as small; the whole batch's logits and their gradient take more."""
    params, batch, small = toy_params(width=64), toy_batch(512, length=64), toy_batch(64, length=64)
    accumulating = accumulated.lower(params, batch, split_microbatches(batch, 8)).compile().memory_analysis()
    alone = whole.lower(params, small).compile().memory_analysis()
    assert accumulating.temp_size_in_bytes < 1.3 * alone.temp_size_in_bytes < 2 * 512 * 64 * V * 4


def test_microbatches_partition_the_batch():
    split = split_microbatches({"a": np.arange(12), "b": np.arange(24).reshape(12, 2)}, 3)
    assert split["a"].tolist() == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    assert split["b"].shape == (3, 4, 2) and split["b"][1, 0].tolist() == [2, 3]


def test_a_count_that_does_not_divide_the_batch_is_refused():
    with pytest.raises(UserError, match="found 5 microbatches, expected a divisor of the batch of 12 rows"):
        split_microbatches({"a": np.arange(12)}, 5)


EIGHT_DEVICES = """
import sys, jax, numpy as np
from bert_jax.accumulate import split_microbatches
from tests.test_accumulate import accumulated, toy_batch, toy_params
assert len(jax.devices()) == 8
mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "fsdp"))
rows = jax.NamedSharding(mesh, jax.P(("data", "fsdp")))
batch = jax.device_put(toy_batch(64), rows)
split = jax.jit(lambda batch: split_microbatches(batch, 4)).lower(batch).compile()
moves = [c for c in ("all-gather", "all-to-all", "collective-permute", "all-reduce") if c in split.as_text()]
assert not moves, moves
params = toy_params()
params["kernel"] = jax.device_put(params["kernel"], jax.NamedSharding(mesh, jax.P("fsdp")))
params["embedding"] = jax.device_put(params["embedding"], jax.NamedSharding(mesh, jax.P(None, "fsdp")))
params["nsp"] = jax.device_put(params["nsp"], jax.NamedSharding(mesh, jax.P()))
result = accumulated(params, batch, split(batch))
assert result[2]["kernel"].sharding.is_equivalent_to(params["kernel"].sharding, 2), "accumulators stay sharded"
np.savez(sys.argv[1], *(np.asarray(x) for x in jax.tree.leaves(result)))
"""


def test_eight_devices_split_in_place_and_give_the_same_gradient(tmp_path):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    command = [sys.executable, "-c", EIGHT_DEVICES, tmp_path / "result.npz"]
    subprocess.run(command, env=environment, cwd=Path(__file__).parents[1], check=True, timeout=120)
    expected = jax.tree.leaves(whole(toy_params(), toy_batch(64)))
    with np.load(tmp_path / "result.npz") as found:
        for name, array in zip(found.files, expected, strict=True):
            assert_close(found[name], array)
