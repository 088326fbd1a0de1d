"""Losses are sums over the global batch, against SciPy and torch; never NaN, except for an id out of range."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from bert_jax import losses
from bert_jax.losses import contribution, finish, weight_totals

mlm_sums, nsp_sums = jax.jit(losses.mlm_sums), jax.jit(functools.partial(losses.sentence_sums, "nsp"))
B, P, V = 6, 5, 11


@pytest.fixture
def batch():
    """Logits, labels, weights of an MLM batch whose rows have 0 to 5 predictions, and the same for NSP."""
    random = np.random.default_rng(0)
    mlm = (
        random.normal(size=(B, P, V)).astype(np.float32) * 3,
        random.integers(0, V, (B, P)),
        (np.arange(P) < np.arange(B)[:, None]).astype(np.float32),
    )
    nsp = (
        random.normal(size=(B, 2)).astype(np.float32),
        np.array([0, 1, 1, 0, 1, 0]),
        np.array([1, 1, 1, 1, 1, 0], np.float32),
    )
    return mlm, nsp


def reference(logits, labels, weights):
    """Sums of loss, weight and correct, in double precision over the counted entries alone."""
    ce = -np.take_along_axis(log_softmax(logits.astype(np.float64), -1), labels[..., None], -1)[..., 0]
    counted = weights > 0
    correct = logits.argmax(-1) == labels
    return (weights * ce)[counted].sum(), weights.sum(), (weights * correct)[counted].sum()


def add(*all_sums):
    return jax.tree.map(lambda *values: sum(values), *all_sums)


def test_sums_equal_scipys(batch):
    mlm, nsp = batch
    sums = mlm_sums(*mlm) | nsp_sums(*nsp)
    for head, arrays in (("mlm", mlm), ("nsp", nsp)):
        found = [sums[f"{head}_{name}"] for name in ("loss", "weight", "correct")]
        np.testing.assert_allclose(found, reference(*arrays), rtol=1e-6)


def test_metrics_are_those_of_the_sums(batch):
    mlm, nsp = batch
    metrics = finish(mlm_sums(*mlm) | nsp_sums(*nsp))
    mlm_loss, mlm_weight, mlm_correct = reference(*mlm)
    nsp_loss, nsp_weight, nsp_correct = reference(*nsp)
    expected = {
        "mlm_loss": mlm_loss / mlm_weight,
        "mlm_accuracy": mlm_correct / mlm_weight,
        "mlm_perplexity": np.exp(mlm_loss / mlm_weight),
        "nsp_loss": nsp_loss / nsp_weight,
        "nsp_accuracy": nsp_correct / nsp_weight,
        "loss": mlm_loss / mlm_weight + nsp_loss / nsp_weight,
    }
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-6, err_msg=name)
    assert finish(mlm_sums(*mlm)).keys() == {"mlm_loss", "mlm_accuracy", "mlm_perplexity", "loss"}


def test_metrics_of_parts_are_those_of_the_whole(batch):
    """Case B10: parts of unequal weight, where a mean of means would be off by far."""
    mlm, nsp = batch
    rows = [slice(0, 1), slice(1, 2), slice(2, 6)]
    parts = [mlm_sums(*(x[r] for x in mlm)) | nsp_sums(*(x[r] for x in nsp)) for r in rows]
    whole = finish(mlm_sums(*mlm) | nsp_sums(*nsp))
    for name, value in finish(add(*parts)).items():
        np.testing.assert_allclose(value, whole[name], rtol=1e-6, err_msg=name)
    on_the_host = finish(add(*(jax.tree.map(float, part) for part in parts)))
    np.testing.assert_allclose(on_the_host["mlm_perplexity"], whole["mlm_perplexity"], rtol=1e-6)
    mean_of_means = np.mean([float(finish(part)["mlm_loss"]) for part in parts])
    assert abs(mean_of_means / whole["mlm_loss"] - 1) > 0.05


def test_contributions_and_their_gradients_add_up(batch):
    """The parts of a batch divide by the weights of the whole, so their losses and gradients just add."""
    mlm, nsp = batch
    totals = weight_totals({"mlm": mlm[2], "nsp": nsp[2]})
    assert totals == {"mlm_weight": 15, "nsp_weight": 5}

    @jax.jit
    @jax.value_and_grad
    def loss(logits, rows):
        mlm, nsp = jax.tree.map(jnp.asarray, batch)
        sums = mlm_sums(logits[0][rows], mlm[1][rows], mlm[2][rows])
        return contribution(sums | nsp_sums(logits[1][rows], nsp[1][rows], nsp[2][rows]), totals)

    logits = (mlm[0], nsp[0])
    whole, gradient = loss(logits, np.arange(B))
    np.testing.assert_allclose(whole, finish(mlm_sums(*mlm) | nsp_sums(*nsp))["loss"], rtol=1e-6)
    parts = [loss(logits, np.arange(i, i + 2)) for i in range(0, B, 2)]
    np.testing.assert_allclose(sum(part[0] for part in parts), whole, rtol=1e-6)
    for found, expected in zip(add(*(part[1] for part in parts)), gradient, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    assert (gradient[0][0] == 0).all() and (gradient[1][5] == 0).all(), "what has no weight has no gradient"


@pytest.mark.parametrize("unused_label", [-100, 0, V])
def test_nothing_masked_is_a_loss_of_zero_with_a_zero_gradient(batch, unused_label):
    """Cases B9 and B12: 0 / 0 nowhere, also when the unused labels are out of range."""
    logits = jnp.asarray(batch[0][0])
    labels, weights = jnp.full((B, P), unused_label), jnp.zeros((B, P))

    def loss(logits):
        return contribution(mlm_sums(logits, labels, weights), weight_totals({"mlm": weights}))

    value, gradient = jax.value_and_grad(loss)(logits)
    assert value == 0 and (gradient == 0).all()
    metrics = finish(mlm_sums(logits, labels, weights))
    assert metrics == {"mlm_loss": 0, "mlm_accuracy": 0, "mlm_perplexity": 1, "loss": 0}
    by_the_sum = jax.grad(lambda total: contribution({"mlm_loss": total}, {"mlm_weight": jnp.float32(0)}))(0.0)
    assert by_the_sum == 0


def test_unused_labels_do_not_matter_beside_used_ones(batch):
    logits, labels, weights = batch[0]
    assert mlm_sums(logits, np.where(weights > 0, labels, -100), weights) == mlm_sums(logits, labels, weights)


def test_a_label_of_a_padded_row_is_not_finite(batch):
    """Its logit is -inf, as the model gives it; for all others such rows change neither the loss nor the gradient."""
    logits, labels, weights = batch[0]
    padded = jnp.pad(jnp.asarray(logits), ((0, 0), (0, 0), (0, 3)), constant_values=-jnp.inf)
    loss = jax.value_and_grad(lambda x, labels: mlm_sums(x, labels, weights)["mlm_loss"])
    value, gradient = loss(padded, labels)
    expected, expected_gradient = loss(jnp.asarray(logits), labels)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient[..., :V], expected_gradient, rtol=1e-5, atol=1e-7)
    assert (gradient[..., V:] == 0).all()
    value, gradient = loss(padded, np.where(weights > 0, labels, V + 1))
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    assert jnp.isfinite(gradient).all() and (gradient[..., V:] == 0).all()
    labels[5, 4] = V + 1
    assert np.isinf(loss(padded, labels)[0])


@pytest.mark.parametrize("head", ["nsp", "sop"])
def test_pieces_count_like_rows(head, batch):
    """Slots [B, S] give the sums of as many rows, under the name of their head."""
    logits, labels, weights = batch[1]
    rows = losses.sentence_sums(head, logits, labels, weights)
    slots = losses.sentence_sums(head, logits.reshape(2, 3, 2), labels.reshape(2, 3), weights.reshape(2, 3))
    assert rows.keys() == slots.keys() == {f"{head}_loss", f"{head}_weight", f"{head}_correct"}
    for name, value in rows.items():
        np.testing.assert_allclose(slots[name], value, rtol=1e-6)
    metrics = finish(slots)
    assert metrics.keys() == {f"{head}_loss", f"{head}_accuracy", "loss"}
    shown = losses.in_words({name: float(value) for name, value in metrics.items()})
    assert shown == f"{head.upper()} {metrics[f'{head}_loss']:.4f}, accuracy {metrics[f'{head}_accuracy']:.4f}"


@pytest.mark.parametrize("label", [V, V + 1000, -1, -V])
def test_a_label_outside_the_vocabulary_is_not_clamped(batch, label):
    """Case B11: a vocabulary larger than the model's shows at once, and a negative id does not wrap around."""
    logits, labels, weights = batch[0]
    labels[5, 4] = label
    assert np.isnan(mlm_sums(logits, labels, weights)["mlm_loss"])


def test_the_softmax_is_float32_for_bfloat16_logits(batch):
    logits, labels, weights = batch[0]
    rounded = jnp.asarray(logits, jnp.bfloat16)
    sums = mlm_sums(rounded, labels, weights.astype(jnp.bfloat16))
    assert all(value.dtype == jnp.float32 for value in sums.values())
    expected = reference(np.asarray(rounded, np.float32), labels, weights)
    np.testing.assert_allclose(sums["mlm_loss"], expected[0], rtol=1e-6)


def test_large_logits_do_not_overflow():
    logits = jnp.array([[[1e4, -1e4, 0.0], [-3e38, 0.0, 3e38]]])
    labels, weights = jnp.array([[0, 1]]), jnp.ones((1, 2))
    value, gradient = jax.value_and_grad(lambda x: mlm_sums(x, labels, weights)["mlm_loss"])(logits)
    np.testing.assert_allclose(value, 3e38, rtol=1e-6)
    assert jnp.isfinite(gradient).all()


@pytest.mark.parity
def test_loss_and_gradient_equal_torchs(batch):
    torch = pytest.importorskip("torch")
    logits, labels, weights = batch[0]
    theirs = torch.tensor(logits, requires_grad=True)
    ignored = torch.tensor(np.where(weights > 0, labels, -100))
    loss = torch.nn.functional.cross_entropy(theirs.reshape(-1, V), ignored.reshape(-1))
    loss.backward()
    ours = jax.value_and_grad(lambda x: finish(mlm_sums(x, labels, weights))["mlm_loss"])
    value, gradient = ours(jnp.asarray(logits))
    np.testing.assert_allclose(value, loss.item(), rtol=1e-6)
    np.testing.assert_allclose(gradient, theirs.grad.numpy(), rtol=1e-5, atol=1e-8)
