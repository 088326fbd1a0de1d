"""Plots as inline SVG: drawn by matplotlib, coloured by the page, so that they follow its theme."""

import re
from io import StringIO

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

# What matplotlib draws in a colour on the left gets the page's CSS variable on the right.
INK, GRID, TRAIN, HELDOUT, SECOND, BAD = "#010203", "#040506", "#0072b2", "#d55e00", "#009e73", "#cc79a7"
VARIABLES = {INK: "ink", GRID: "grid", TRAIN: "train", HELDOUT: "heldout", SECOND: "second", BAD: "bad"}
SIZE_INCHES = (4.8, 3.0)


def tick(value, _=None):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def short_tick(value, _=None):
    """As `tick`, in the room that is left of the axis."""
    return f"{value / 1e6:,.4g} M" if abs(value) >= 1e6 else tick(value)


def canvas():
    """An empty (Figure, Axes)."""
    figure = Figure(figsize=SIZE_INCHES)
    # A layout fitted to each plot's labels takes half of the time, and leaves the axes of neighbours unaligned.
    figure.subplots_adjust(left=0.155, right=0.985, bottom=0.15, top=0.85)
    axes = figure.add_subplot()
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9, length=3)
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=INK, linewidth=0.8)
    for axis, formatter in ((axes.xaxis, tick), (axes.yaxis, short_tick)):
        axis.label.set(color=INK, fontsize=9)
        axis.set_major_formatter(FuncFormatter(formatter))
    return figure, axes


def drawable(text, most=18):
    """Any text as a label: cut, without what matplotlib refuses; a `$` is itself, not the start of a formula."""
    text = text if len(text) <= most else text[: most - 1] + "\u2026"
    return re.sub("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text).replace("$", r"\$")


def save_svg(figure, title):
    """The figure as an <svg> element for a page: colours by CSS variable, the page's font, ids after its title."""
    text = StringIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # they would differ, and name outside addresses
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "DejaVu Sans"}):
        figure.savefig(text, format="svg", transparent=True, metadata=metadata)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r'<svg width="[^"]*" height="[^"]*"', f'<svg role="img" aria-label="{title}"', svg)
    prefix = re.sub(r"\W+", "-", title.lower())
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return svg
