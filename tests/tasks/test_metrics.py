"""Metrics by their definitions, and what must never be scored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.tasks.metrics import is_degenerate, score

ANY = ("accuracy", "f1", "macro_f1", "matthews")
LABELS = np.array([1, 1, 1, 0, 0, 1, 0, 1, 1, 0])


def test_f1_is_that_of_class_1_and_not_the_higher_one():
    """Case F6: 3 of 7 right positives; class 0 has F1 0.714 where class 1 has 0.333."""
    predicted, labels = np.array([0, 0, 0, 0, 0, 1, 0]), np.array([0, 0, 0, 0, 1, 1, 1])
    figures = score(("f1", "macro_f1", "accuracy"), predicted, labels)
    assert figures["f1"] == pytest.approx(2 / 4) and figures["accuracy"] == pytest.approx(5 / 7)
    assert figures["macro_f1"] == pytest.approx((2 / 4 + 8 / 10) / 2)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30))
def test_matthews_by_its_formula(pairs):
    predicted, labels = (np.array(side) for side in zip(*pairs, strict=True))
    counts = [int(((predicted == p) & (labels == t)).sum()) for p, t in ((1, 1), (0, 0), (1, 0), (0, 1))]
    tp, tn, fp, fn = counts
    below = np.sqrt(float((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    expected = (tp * tn - fp * fn) / below if below else 0.0
    assert score(("matthews",), predicted, labels)["matthews"] == pytest.approx(expected, abs=1e-12)


def test_a_constant_prediction_scores_0_and_is_flagged():
    """Case F9: not NaN."""
    constant = np.zeros(10, int)
    assert score(("matthews",), constant, LABELS)["matthews"] == 0
    assert score(("pearson", "spearman"), constant.astype(float), LABELS.astype(float)) == {"pearson": 0, "spearman": 0}
    assert is_degenerate(constant) and not is_degenerate(LABELS) and not is_degenerate(constant[:1])


def test_ranks_of_ties_are_their_mean():
    """By hand: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4."""
    figures = score(("spearman", "pearson"), np.array([1.0, 5.0, 5.0, 9.0]), np.array([0.0, 1.0, 2.0, 3.0]))
    assert figures["spearman"] == pytest.approx(4.5 / np.sqrt(4.5 * 5))


def test_what_cannot_be_scored_is_refused():
    """Cases F2 and F5: [n] against [n, 1] would become [n, n], and hidden labels are no labels."""
    with pytest.raises(UserError, match=r"predictions \(10, 1\) and labels \(10,\)"):
        score(ANY, LABELS[:, None], LABELS)
    with pytest.raises(UserError, match="2 labels are below 0: this split has none"):
        score(ANY, LABELS, np.where(np.arange(10) < 2, -1, LABELS))
    with pytest.raises(UserError, match="no examples"):
        score(ANY, LABELS[:0], LABELS[:0])
