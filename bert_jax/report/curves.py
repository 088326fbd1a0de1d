"""The curves of a run as plots."""

from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from bert_jax.report.svg import BAD, HELDOUT, INK, SECOND, TRAIN, canvas, save_svg, short_tick

MOST_POINTS = 400  # of a line: more than a screen shows at this width
MOST_MARKERS = 40  # points of a line that still get a marker each
MOST_BAD_MARKS = 100
SMOOTHED_FROM = 40  # points; fewer are read best as they are
WINDOW_SHARE = 0.04  # of a phase's points, averaged to smooth
LOG_FROM = 20  # the largest value over the median one: beyond this a linear axis shows one spike and nothing else
CUT_FROM = 2  # of a speed, the largest value over a phase's 95th percentile: higher spikes leave the plot


@dataclass(frozen=True)
class Panel:
    """One plot: the figures of metrics.jsonl in it with their names, the label of the y axis with its unit."""

    title: str
    unit: str
    figures: dict[str, str]
    scale: float = 1.0
    reference: str = ""  # what the dashed line is, where the data tell its height
    from_zero: bool = False
    exact: bool = False  # set by the schedule, not measured: nothing to smooth
    spiky: bool = False  # a pause of the machine may dwarf all else


PANELS = (
    Panel("Masked-token loss (MLM)", "nats a masked token", {"mlm_loss": ""}, reference="unigram entropy"),
    Panel("Masked-token accuracy", "% right", {"mlm_accuracy": ""}, 100, from_zero=True),
    Panel("Next-sentence loss (NSP)", "nats a pair", {"nsp_loss": ""}, reference="knowing only the label shares"),
    Panel("Next-sentence accuracy", "% right", {"nsp_accuracy": ""}, 100, reference="always the commoner label"),
    Panel("Sentence-order loss (SOP)", "nats a pair", {"sop_loss": ""}, reference="knowing only the label shares"),
    Panel("Sentence-order accuracy", "% right", {"sop_accuracy": ""}, 100, reference="always the commoner label"),
    Panel("Total loss", "nats, all heads together", {"loss": ""}),
    Panel("Learning rate", "learning rate, no unit", {"learning_rate": ""}, from_zero=True, exact=True),
    Panel(
        "Throughput",
        "tokens a second",
        {"tokens_per_second": "all tokens", "real_tokens_per_second": "without padding"},
        from_zero=True,
        spiky=True,
    ),
    Panel(
        "Time a step",
        "seconds",
        {"step_seconds": "whole step", "data_wait_seconds": "waiting for data"},
        from_zero=True,
        spiky=True,
    ),
    Panel("Gradient norm", "norm before clipping", {"gradient_norm": ""}),
)


def panels(run):
    """(Panel, SVG text) of every plot that the run has figures for; `run` is a report.RunRecord."""
    lines = run.train + run.heldout
    return [(panel, _svg(panel, run)) for panel in PANELS if any(_points(lines, name) for name in panel.figures)]


def histogram(title, edges, counts):
    """The SVG of how many rows have more than edges[i] and at most edges[i + 1] tokens."""
    figure, axes = canvas()
    centres, widths = np.add(edges[1:], edges[:-1]) / 2, np.diff(edges)
    axes.bar(centres, counts, width=widths * 0.9, color=TRAIN, linewidth=0)
    axes.set_xlabel("tokens in a row, special tokens included")
    axes.set_ylabel("rows")
    axes.set_xlim(edges[0], edges[-1])
    return save_svg(figure, title)


def _svg(panel, run):
    figure, axes = canvas()
    lines = run.train + run.heldout
    last = max(line["step"] for line in lines)
    for (name, label), colour in zip(panel.figures.items(), (TRAIN, SECOND), strict=False):
        _draw_train(axes, run.train, name, panel, colour, label or "train", last)
    for name in panel.figures:
        _draw_heldout(axes, run.heldout, name, panel.scale)
        _draw_reference(axes, run, run.references.get(name, {}), panel)
    _set_axes(axes, panel, [v for name in panel.figures for _, v in _by_phase(lines, name, panel.scale)], last)
    _mark_phases(axes, run, last)
    _mark_bad(axes, run.bad)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, frameon=False, fontsize=9, labelcolor=INK,
                borderaxespad=0.2, handlelength=1.6, columnspacing=1.2)  # fmt: skip
    return save_svg(figure, panel.title)


def _points(lines, name):
    return [(line["step"], line[name]) for line in lines if name in line]


def _by_phase(lines, name, scale):
    """(steps, values) of each phase by itself: a line across a change of length or data would mean nothing."""
    for phase in sorted({line["phase"] for line in lines}):
        points = _points([line for line in lines if line["phase"] == phase], name)
        if points:
            steps, values = np.array(points, float).T
            yield steps, values * scale


def _draw_train(axes, lines, name, panel, colour, label, last):
    for steps, values in _by_phase(lines, name, panel.scale):
        plain = panel.exact or len(steps) < SMOOTHED_FROM
        marker = "." if len(steps) <= MOST_MARKERS // 4 else None
        # A phase gets the points that its share of the axis can show; more would only paint it solid.
        most = max(SMOOTHED_FROM, int(MOST_POINTS * (steps[-1] - steps[0]) / max(last, 1)))
        raw = {} if plain else {"alpha": 0.3, "linewidth": 0.7}
        axes.plot(*thin(steps, values, most), color=colour, marker=marker, label=label if plain else None, **raw)
        if not plain:
            axes.plot(*smooth(steps, values, most), color=colour, linewidth=1.6, label=label)
        label = "_" + label  # one entry in the legend, however many phases


def _draw_heldout(axes, lines, name, scale):
    label = "held-out"
    for steps, values in _by_phase(lines, name, scale):
        marker = {"marker": "o", "markersize": 3.5} if len(steps) <= MOST_MARKERS else {}
        axes.plot(*thin(steps, values), color=HELDOUT, linewidth=1.4, label=label, zorder=3, **marker)
        label = "_" + label


def _draw_reference(axes, run, heights, panel):
    label = panel.reference
    for phase, first, last in run.spans():
        if phase in heights:
            height = heights[phase] * panel.scale
            axes.plot([first, last], [height, height], color=INK, linewidth=1.1, linestyle="--", label=label)
            label = "_" + label


def _set_axes(axes, panel, phases, last):
    """Limits, scale and labels; phases: the values of each phase and figure."""
    axes.set_xlim(0, max(last, 1) * 1.02)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=[1, 2, 5, 10]))
    values = np.concatenate(phases)
    low, median, high = values.min(), np.median(values), values.max()
    remark = ""
    if panel.from_zero:
        usual = max(np.percentile(phase, 95) for phase in phases)
        cut = panel.spiky and high > CUT_FROM * usual > 0
        remark = ", higher spikes cut off" if cut else ""
        axes.set_ylim(0, CUT_FROM * usual if cut else 1.12 * max(high, axes.dataLim.y1) or 1)
    elif low > 0 and high > LOG_FROM * median:
        remark = ", log scale"
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=8))
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel(panel.unit + remark)
    axes.yaxis.set_major_formatter(FuncFormatter(short_tick))  # a log scale has brought its own


def _mark_phases(axes, run, last):
    for phase, first, _ in run.spans()[1:]:
        axes.axvline(first, color=INK, linewidth=0.9, linestyle=":")
        to_the_left = first > last / 2
        axes.annotate(
            f"phase {phase}", (first, 1), xycoords=("data", "axes fraction"), textcoords="offset points",
            xytext=(-3 if to_the_left else 3, -3), ha="right" if to_the_left else "left", va="top",
            fontsize=8, color=INK,
        )  # fmt: skip


def _mark_bad(axes, lines):
    steps = [line["step"] for line in lines]
    if len(steps) > MOST_BAD_MARKS:
        steps = [steps[i] for i in np.linspace(0, len(steps) - 1, MOST_BAD_MARKS).astype(int)]
    axes.plot(
        steps, np.zeros(len(steps)), transform=axes.get_xaxis_transform(), color=BAD, marker="^", markersize=6,
        linestyle="none", clip_on=False, zorder=4,
    )  # fmt: skip


def thin(steps, values, most=MOST_POINTS):
    """At most about `most` of the points: the lowest and highest of each stretch, so peaks stay; and both ends."""
    if len(steps) <= most:
        return steps, values
    stretches = np.array_split(np.arange(len(steps)), most // 2)
    extremes = [stretch[pick(values[stretch])] for stretch in stretches for pick in (np.argmin, np.argmax)]
    kept = np.unique([0, *extremes, len(steps) - 1])
    return steps[kept], values[kept]


def smooth(steps, values, most=MOST_POINTS):
    """Means over a window about each of at most `most` points.

    At the start the window narrows, for losses fall steeply there; at the end it only loses its right half, as the last
    point alone would be mere noise.
    """
    half = max(1, int(len(steps) * WINDOW_SHARE / 2))
    kept = np.unique(np.linspace(0, len(steps) - 1, most).astype(int))
    reach = np.minimum(half, kept)
    return steps[kept], np.array([values[i - r : i + r + 1].mean() for i, r in zip(kept, reach, strict=True)])
