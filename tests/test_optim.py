"""Optimizers against a NumPy transcription of the paper's, optax's own and torch's; decay by name, never by shape."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bert_jax import rules
from bert_jax.errors import UserError
from bert_jax.optim import DECAY_RULES, OptimizerConfig, make_optimizer

N, D, H, K, F, V = 3, 8, 2, 4, 16, 20
DENSE = {"kernel": (N, D, H, K), "bias": (N, H, K)}
NORM = {"scale": (D,), "bias": (D,)}
STACKED_NORM = {"scale": (N, D), "bias": (N, D)}
# An encoder with both heads, by the model's paths, with its layers stacked.
ALL_SHAPES = {
    "embeddings": {name: {"embedding": (V, D)} for name in ("word", "position", "token_type")} | {"norm": NORM},
    "layers": {
        "attention": {"query": DENSE, "key": DENSE, "value": DENSE, "norm": STACKED_NORM}
        | {"out": {"kernel": (N, H, K, D), "bias": (N, D)}},
        "ffn": {"up": {"kernel": (N, D, F), "bias": (N, F)}, "down": {"kernel": (N, F, D), "bias": (N, D)}}
        | {"norm": STACKED_NORM},
    },
    "pooler": {"kernel": (D, D), "bias": (D,)},
    "mlm": {"transform": {"kernel": (D, D), "bias": (D,)}, "norm": NORM, "bias": (V,)},
    "nsp": {"kernel": (D, 2), "bias": (2,)},
}
# Some of it, of every kind, to keep compilation short.
SHAPES = {
    "embeddings": {"word": {"embedding": (V, D)}},
    "layers": {"attention": {"query": DENSE, "norm": STACKED_NORM}},
}


def random_tree(seed, shapes=SHAPES, scale=1.0):
    random = np.random.default_rng(seed)
    draw = lambda shape: np.float32(scale * random.normal(size=shape))  # noqa: E731
    return jax.tree.map(draw, shapes, is_leaf=lambda node: isinstance(node, tuple))


def initial_params():
    return random_tree(0)


def gradients(step, scale=1.0):
    return random_tree(100 + step, scale=scale)


def train(config, params, all_gradients, rates):
    """Parameters after each update, as the train step applies them."""
    optimizer = make_optimizer(config)
    state, history = jax.jit(optimizer.init)(params), []

    @jax.jit
    def step(grads, state, params, rate):
        updates, state = optimizer.update(grads, state, params)
        return jax.tree.map(lambda p, u: p - rate * u, params, updates), state

    for grads, rate in zip(all_gradients, rates, strict=True):
        params, state = step(grads, state, params, rate)
        history.append(params)
    return history


def by_layer(tree):
    """{path: float64 array} with one entry a layer, which is what a model that is not stacked has."""
    tensors = {}
    for name, leaf in zip(rules.path_names(tree), jax.tree.leaves(tree), strict=True):
        layers = np.asarray(leaf, np.float64)
        split = {f"{name}@{i}": layers[i] for i in range(N)} if name.startswith("layers/") else {name: layers}
        tensors |= split
    return tensors


def reference(config, params, all_gradients, rates):
    """AdamWeightDecayOptimizer of google-research/bert and LAMBOptimizer of google-research/albert, in NumPy."""
    params = by_layer(params)
    m = {name: np.zeros_like(p) for name, p in params.items()}
    v = {name: np.zeros_like(p) for name, p in params.items()}
    for t, (grads, rate) in enumerate(zip(all_gradients, rates, strict=True), start=1):
        grads = by_layer(grads)
        global_norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
        clip = config.clip_norm / max(global_norm, config.clip_norm)
        for name, p in params.items():
            g = grads[name] * clip
            m[name] = config.b1 * m[name] + (1 - config.b1) * g
            v[name] = config.b2 * v[name] + (1 - config.b2) * g**2
            m_hat, v_hat = m[name], v[name]
            if config.bias_correction:
                m_hat, v_hat = m_hat / (1 - config.b1**t), v_hat / (1 - config.b2**t)
            update = m_hat / (np.sqrt(v_hat) + config.eps)
            excluded = "bias" in name or "norm/" in name  # their regex: LayerNorm, layer_norm, bias
            if not excluded:
                update = update + config.weight_decay * p
                if config.name == "lamb":
                    update = update * np.sqrt((p**2).sum()) / np.sqrt((update**2).sum())
            params[name] = p - rate * update
    return params


@pytest.mark.parametrize("name", ["adamw", "lamb"])
@pytest.mark.parametrize("bias_correction", [False, True])
def test_five_updates_equal_the_numpy_transcription(name, bias_correction):
    """Case C8. Gradients both above and below the clipping norm; the order clip, Adam, decay, rate."""
    config = OptimizerConfig(name, bias_correction=bias_correction, weight_decay=0.1)
    all_gradients = [gradients(step, scale) for step, scale in enumerate([1.0, 0.001, 30.0, 0.01, 1.0])]
    rates = [0.0, 0.01, 0.02, 0.03, 0.02]
    found = by_layer(train(config, initial_params(), all_gradients, rates)[-1])
    for tensor, expected in reference(config, initial_params(), all_gradients, rates).items():
        np.testing.assert_allclose(found[tensor], expected, rtol=1e-6, atol=1e-6, err_msg=tensor)


@pytest.mark.parametrize(("bias_correction", "factor"), [(False, 0.1 / np.sqrt(0.001)), (True, 1.0)])
def test_the_first_update_is_3_16_or_1_times_the_rate(bias_correction, factor):
    config = OptimizerConfig(bias_correction=bias_correction, weight_decay=0.0, clip_norm=None)
    optimizer = make_optimizer(config)
    params = {"a": {"kernel": jnp.ones((2, 2))}}
    updates, state = optimizer.update({"a": {"kernel": jnp.full((2, 2), -7.0)}}, optimizer.init(params), params)
    np.testing.assert_allclose(updates["a"]["kernel"], -factor, rtol=1e-5)
    assert state["count"] == 1


def test_exactly_kernels_and_embeddings_decay():
    """Case C7: the decay mask on the model's paths, where stacked biases and scales have 2 and 3 axes."""
    params = random_tree(0, ALL_SHAPES)
    decayed = rules.match(DECAY_RULES, params)
    names = [name for name, yes in zip(rules.path_names(params), jax.tree.leaves(decayed), strict=True) if yes]
    attention = [f"layers/attention/{name}/kernel" for name in ("key", "out", "query", "value")]
    embeddings = [f"embeddings/{name}/embedding" for name in ("position", "token_type", "word")]
    ffn = ["layers/ffn/down/kernel", "layers/ffn/up/kernel"]
    assert names == embeddings + attention + ffn + ["mlm/transform/kernel", "nsp/kernel", "pooler/kernel"]


def test_decay_adds_to_the_update_of_what_decays_and_of_nothing_else():
    params = initial_params()
    after = train(OptimizerConfig(weight_decay=0.5), params, [gradients(0, 0.0)], [0.1])[-1]
    factor = {"embeddings/word/embedding": 0.95, "layers/attention/query/kernel": 0.95}
    for name, new, old in zip(rules.path_names(params), jax.tree.leaves(after), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(new, factor.get(name, 1.0) * old, rtol=1e-6, err_msg=name)


def test_a_parameter_of_unknown_kind_is_refused():
    params = {"layers": {"rotary": {"frequencies": jnp.ones(3)}}}
    optimizer = make_optimizer(OptimizerConfig())
    with pytest.raises(UserError, match="weight decay: parameter layers/rotary/frequencies: none matches"):
        optimizer.update(params, optimizer.init(params), params)


def optax_train(optimizer, params, all_gradients):
    """Parameters after the updates of an optax optimizer, whose updates hold the learning rate."""
    state = jax.jit(optimizer.init)(params)

    @jax.jit
    def step(grads, state, params):
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for grads in all_gradients:
        params, state = step(grads, state, params)
    return params


def test_adamw_with_bias_correction_is_optaxs():
    config = OptimizerConfig(bias_correction=True, weight_decay=0.1, clip_norm=1.0)
    all_gradients = [gradients(step) for step in range(5)]
    found = train(config, initial_params(), all_gradients, [0.01] * 5)[-1]
    mask = rules.match(DECAY_RULES, initial_params())
    theirs = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(0.01, 0.9, 0.999, 1e-6, weight_decay=0.1, mask=mask)
    )
    expected = optax_train(theirs, initial_params(), all_gradients)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), found, expected)


def test_stacked_lamb_is_optaxs_lamb_on_each_layer():
    """Also when the layers' norms differ by far; one norm over the stack would give another result."""
    config = OptimizerConfig("lamb", bias_correction=True, weight_decay=0.1, clip_norm=None)
    params, all_gradients = initial_params(), [gradients(step) for step in range(4)]
    for leaf in jax.tree.leaves(params["layers"]):
        leaf[1] *= 10
        leaf[2] *= 100
    found = by_layer(train(config, params, all_gradients, [0.01] * 4)[-1])
    unstacked, *unstacked_gradients = (
        {name: np.float32(tensor) for name, tensor in by_layer(tree).items()} for tree in (params, *all_gradients)
    )
    adapted = {name: "kernel" in name or "embedding" in name.split("/")[-1] for name in unstacked}
    lamb = optax_train(optax.lamb(0.01, 0.9, 0.999, 1e-6, weight_decay=0.1), unstacked, unstacked_gradients)
    adam = optax_train(optax.adam(0.01, 0.9, 0.999, 1e-6), unstacked, unstacked_gradients)
    for name in unstacked:
        expected = lamb[name] if adapted[name] else adam[name]
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_lamb_moves_a_parameter_that_is_zero():
    params = {"a": {"kernel": jnp.zeros((2, 2))}}
    optimizer = make_optimizer(OptimizerConfig("lamb"))
    for gradient, moves in ((1.0, True), (0.0, False)):
        updates, _ = optimizer.update({"a": {"kernel": jnp.full((2, 2), gradient)}}, optimizer.init(params), params)
        assert jnp.isfinite(updates["a"]["kernel"]).all() and (updates["a"]["kernel"] != 0).all() == moves


def test_clipping_is_by_the_global_norm():
    """Case C10: gradients of norm 100 are applied with norm 1, small ones as they are, and None turns it off."""
    params = {"a": {"kernel": np.ones((2, 2), np.float32), "bias": np.ones(3, np.float32)}}
    direction = {"a": {"kernel": np.full((2, 2), 0.3, np.float32), "bias": np.float32([0, 0.48, 0.64])}}  # norm 1
    for clip_norm, cases in ((1.0, [(100.0, 1.0), (0.5, 0.5)]), (None, [(100.0, 100.0)]), (3.0, [(100.0, 3.0)])):
        optimizer = make_optimizer(OptimizerConfig(clip_norm=clip_norm))
        update = jax.jit(optimizer.update)
        for given, applied in cases:
            grads = jax.tree.map(lambda g: g * np.float32(given), direction)
            _, state = update(grads, optimizer.init(params), params)
            moments = jax.tree.map(lambda g: 0.1 * applied * g, direction)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), state["mu"], moments)


SHARDED_UPDATE = """
import sys, jax, numpy as np
from bert_jax.optim import OptimizerConfig, make_optimizer
from tests.test_optim import gradients, initial_params
assert len(jax.devices()) == 8
mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "fsdp"))

def shard(tree):
    def put(x):
        axis = next(i for i, size in enumerate(x.shape) if size % 4 == 0)
        return jax.device_put(x, jax.NamedSharding(mesh, jax.P(*[None] * axis, "fsdp")))
    return jax.tree.map(put, tree)

optimizer = make_optimizer(OptimizerConfig("lamb"))
params = shard(initial_params())
state = jax.jit(optimizer.init)(params)
updates, state = jax.jit(optimizer.update)(shard(gradients(0, 100.0)), state, params)
np.savez(sys.argv[1], *(np.asarray(x) for x in jax.tree.leaves((updates, state))))
"""


def test_the_norms_are_global_on_eight_devices(tmp_path):
    """Case C10 with sharded gradients, and LAMB's norms with sharded parameters: as on one device."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    command = [sys.executable, "-c", SHARDED_UPDATE, tmp_path / "updates.npz"]
    subprocess.run(command, env=environment, cwd=Path(__file__).parents[1], check=True, timeout=120)
    optimizer, params = make_optimizer(OptimizerConfig("lamb")), initial_params()
    expected = jax.tree.leaves(jax.jit(optimizer.update)(gradients(0, 100.0), optimizer.init(params), params))
    with np.load(tmp_path / "updates.npz") as found:
        assert len(found.files) == len(expected)
        for name, array in zip(found.files, expected, strict=True):
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-7)


def test_the_state_is_float32_and_the_same_for_every_config():
    params = {"a": {"kernel": jnp.ones((2, 2), jnp.bfloat16), "bias": jnp.ones(2, jnp.bfloat16)}}
    configs = [OptimizerConfig(), OptimizerConfig("lamb"), OptimizerConfig(bias_correction=True, clip_norm=None)]
    states = [make_optimizer(config).init(params) for config in configs]
    assert all(jax.tree.structure(state) == jax.tree.structure(states[0]) for state in states)
    assert states[0].keys() == {"count", "mu", "nu"} and states[0]["count"].dtype == jnp.int32
    updates, state = jax.jit(make_optimizer(configs[0]).update)(params, states[0], params)
    for leaf in jax.tree.leaves((states[0]["mu"], states[0]["nu"], updates, state["mu"], state["nu"])):
        assert leaf.dtype == jnp.float32


def test_the_state_survives_orbax(tmp_path):
    checkpoint = pytest.importorskip("orbax.checkpoint")
    optimizer, params = make_optimizer(OptimizerConfig()), initial_params()
    _, state = jax.jit(optimizer.update)(gradients(0), optimizer.init(params), params)
    with checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", state)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "state", jax.eval_shape(optimizer.init, params))
    assert jax.tree.structure(restored) == jax.tree.structure(state)
    jax.tree.map(np.testing.assert_array_equal, restored, state)


@pytest.mark.parity
def test_adamw_equals_torchs():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    start, grads = random.normal(size=(4, 3)).astype(np.float32), random.normal(size=(6, 4, 3)).astype(np.float32)
    config = OptimizerConfig(b2=0.95, eps=1e-8, bias_correction=True, weight_decay=0.1, clip_norm=None)
    ours = train(config, {"a": {"kernel": start}}, [{"a": {"kernel": g}} for g in grads], [0.01] * 6)
    theirs = torch.nn.Parameter(torch.tensor(start))
    optimizer = torch.optim.AdamW([theirs], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for params, gradient in zip(ours, grads, strict=True):
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
        np.testing.assert_allclose(params["a"]["kernel"], theirs.detach().numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "adam"}, "optimizer: found 'adam', expected one of adamw, lamb .nearest: adamw"),
        ({"b1": 1.0}, "b1: found 1.0"),
        ({"b2": -0.1}, "b2: found -0.1"),
        ({"eps": 0.0}, "eps: found 0.0"),
        ({"weight_decay": -1.0}, "weight_decay: found -1.0"),
        ({"clip_norm": 0.0}, "clip_norm: found 0.0, expected above 0, or None"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        OptimizerConfig(**settings)
