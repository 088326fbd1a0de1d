"""Scores of predictions, as the GLUE benchmark defines them; fractions, not percent.

What has no value by its formula, a correlation with a constant, counts as 0: a model that predicts one thing has
learnt nothing, and NaN would compare with no other score.
"""

import numpy as np
from scipy import stats
from sklearn import metrics

from bert_jax.errors import UserError


def accuracy(predicted, labels):
    return float(np.mean(predicted == labels))


def f1(predicted, labels):
    """F1 of the class 1 against class 0: not the higher one of both, nor their mean (MRPC, QQP)."""
    return float(metrics.f1_score(labels, predicted, labels=[0, 1], pos_label=1, average="binary", zero_division=0))


def macro_f1(predicted, labels):
    """The mean of each class's F1, over the classes that occur."""
    return float(metrics.f1_score(labels, predicted, average="macro", zero_division=0))


def matthews(predicted, labels):
    """Matthews' correlation coefficient (CoLA)."""
    if len(np.unique(predicted)) < 2 or len(np.unique(labels)) < 2:
        return 0.0
    return float(metrics.matthews_corrcoef(labels, predicted))


def pearson(predicted, labels):
    return _correlation(stats.pearsonr, predicted, labels)


def spearman(predicted, labels):
    """Spearman's rank correlation; ties have their mean rank."""
    return _correlation(stats.spearmanr, predicted, labels)


def _correlation(function, predicted, labels):
    if len(labels) < 2 or np.ptp(predicted) == 0 or np.ptp(labels) == 0:
        return 0.0
    return float(function(np.asarray(predicted, np.float64), np.asarray(labels, np.float64)).statistic)


METRICS = {function.__name__: function for function in (accuracy, f1, macro_f1, matthews, pearson, spearman)}


def score(names, predicted, labels):
    """The figures called `names` of predictions [n] and labels [n].

    Raises UserError for other shapes, which NumPy would stretch to n x n, for labels below 0, which data sets have
    where they hide the true ones, and for no examples at all.
    """
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    if predicted.shape != labels.shape or predicted.ndim != 1:
        raise UserError(f"scores: predictions {predicted.shape} and labels {labels.shape}: expected [n] and [n]")
    if not len(labels):
        raise UserError("scores: no examples")
    if np.issubdtype(labels.dtype, np.integer) and labels.min() < 0:
        raise UserError(f"scores: {int((labels < 0).sum())} labels are below 0: this split has none to score against")
    return {name: METRICS[name](predicted, labels) for name in names}


def is_degenerate(predicted):
    """Whether a classifier gives every one of several examples the same class."""
    return len(predicted) > 1 and len(np.unique(predicted)) == 1
