"""The plots of a fine-tuning run, or of a sweep."""

import numpy as np
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from bert_jax.report.curves import smooth
from bert_jax.report.svg import HELDOUT, INK, SECOND, TRAIN, canvas, drawable, save_svg

SMOOTHED_FROM = 40  # points
COLOURS = (HELDOUT, SECOND, TRAIN)


def learning_curve(title, lines, name, ylabel):
    """The SVG of a figure of the training steps."""
    figure, axes = canvas()
    steps, values = np.array([(line["step"], line[name]) for line in lines], float).T
    if len(steps) >= SMOOTHED_FROM:
        axes.plot(steps, values, color=TRAIN, alpha=0.3, linewidth=0.7)
        axes.plot(*smooth(steps, values), color=TRAIN, linewidth=1.6)
    else:
        axes.plot(steps, values, color=TRAIN, marker=".")
    return _finished(figure, axes, title, "step", ylabel)


def score_curves(title, lines_by_split, name):
    """The SVG of a score by step, a line a held-out split."""
    figure, axes = canvas()
    for (split, lines), colour in zip(lines_by_split.items(), COLOURS, strict=False):
        steps, values = np.array([(line["step"], line[name]) for line in lines], float).T
        axes.plot(steps, values, color=colour, marker="o", markersize=3.5, label=drawable(split.replace("_", " ")))
    if len(lines_by_split) > 1:
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    return _finished(figure, axes, title, "step", name)


def confusion_matrix(title, labels, counts):
    """The SVG of a confusion matrix: rows are the right labels; shade is the share of the row."""
    figure, axes = canvas()
    figure.subplots_adjust(left=0.3, bottom=0.3, top=0.97)
    axes.grid(visible=False)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for row, column in np.ndindex(*counts.shape):
        right = row == column
        axes.fill_between(
            [column - 0.5, column + 0.5], row - 0.5, row + 0.5, color=TRAIN if right else HELDOUT, linewidth=0,
            alpha=0.6 * shares[row, column],
        )  # fmt: skip
        if len(labels) <= 10:
            axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", fontsize=9, color=INK)
    places = range(len(labels))
    axes.set_xticks(places, [drawable(label) for label in labels], rotation=30, ha="right")
    axes.set_yticks(places, [drawable(label) for label in labels])
    axes.set(xlim=(-0.5, len(labels) - 0.5), ylim=(len(labels) - 0.5, -0.5))
    axes.set_xlabel("predicted")
    axes.set_ylabel("right")
    return save_svg(figure, title)


def reliability(title, means, shares, counts):
    """The SVG of how often predictions of a confidence are right; the diagonal is perfect calibration."""
    figure, axes = canvas()
    axes.plot([0, 1], [0, 1], color=INK, alpha=0.4, linewidth=1, linestyle="--")
    sizes = 20 + 160 * counts / counts.max()
    axes.scatter(means, shares, s=sizes, color=TRAIN, alpha=0.75, linewidths=0)
    axes.plot(means, shares, color=TRAIN, linewidth=1)
    axes.set(xlim=(max(0, means.min() - 0.08), 1.02), ylim=(-0.03, 1.03))
    return _finished(figure, axes, title, "probability of the predicted label", "share that is right", integers=False)


def scatter(title, expected, predicted):
    """The SVG of predicted against right numbers."""
    figure, axes = canvas()
    ends = [min(*expected, *predicted), max(*expected, *predicted)]
    axes.plot(ends, ends, color=INK, alpha=0.4, linewidth=1, linestyle="--")
    axes.scatter(expected, predicted, s=8, color=TRAIN, alpha=0.4, linewidths=0)
    return _finished(figure, axes, title, "right", "predicted", integers=False)


def by_setting(title, values, means, deviations, xlabel, ylabel):
    """The SVG of mean scores by a swept setting, bars of one deviation; values that span much on a log scale."""
    figure, axes = canvas()
    axes.errorbar(values, means, yerr=deviations, color=HELDOUT, marker="o", markersize=4, capsize=3, linewidth=1.4)
    if values[0] > 0 and values[-1] >= 4 * values[0]:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.set_xticks(values, [f"{value:,.6g}" for value in values])
    axes.set_xlabel(xlabel)
    axes.set_ylabel(drawable(ylabel))
    return save_svg(figure, title)


def _finished(figure, axes, title, xlabel, ylabel, integers=True):
    axes.set_xlabel(xlabel)
    axes.set_ylabel(drawable(ylabel))
    if integers:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    return save_svg(figure, title)
