"""The elements of a run's report as HTML text, and its style sheet.

Text of a corpus, a path or a JSON file may hold anything: it gets into the page through `escape` alone.
"""

import html
import re
import time

from bert_jax.report.read import is_figure
from bert_jax.report.words import percent

# Lines: Okabe and Ito's colours, told apart with any colour vision; the dark theme takes their lighter forms.
_LIGHT = """
  color-scheme: light; --paper: #ffffff; --ink: #22262b; --soft: #5b636d; --grid: #e3e6ea; --box: #f5f6f8;
  --train: #0072b2; --heldout: #d55e00; --second: #00805e; --bad: #b0357f; --note: #8a5a00; --mark: #ffe9b0;
  --swapped: #f9d3e8; --kept: #cdeedd;
"""
_DARK = """
  color-scheme: dark; --paper: #14171b; --ink: #e4e7eb; --soft: #a3abb5; --grid: #30363d; --box: #1e2329;
  --train: #56b4e9; --heldout: #ff9248; --second: #2fc79b; --bad: #f08cc6; --note: #e8b65a; --mark: #5c4a14;
  --swapped: #632a4c; --kept: #1d4d3a;
"""
_RULES = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 78rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1.25rem; margin: 2.25rem 0 .5rem; border-bottom: 1px solid var(--grid); padding-bottom: .25rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .5rem 0; max-width: 52rem; }
.lead { font-size: 1.05rem; }
code { font: .95em ui-monospace, "DejaVu Sans Mono", monospace; }
.key { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem; margin: 1.25rem 0; }
.key div { background: var(--box); border-radius: 6px; padding: .6rem .8rem; }
.key dt { color: var(--soft); font-size: .85rem; }
.key dd { margin: 0; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.key small { display: block; color: var(--soft); font-size: .75rem; }
.notes { border-left: 4px solid var(--note); background: var(--box); padding: .5rem .9rem; margin: 1rem 0; }
.notes strong { color: var(--note); }
.notes ul { margin: .25rem 0; padding-left: 1.2rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1.25rem 1rem; }
figure { margin: 0; break-inside: avoid; }
figcaption { font-weight: 600; font-size: .95rem; margin-bottom: .2rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit; fill: var(--ink); }
.small { max-width: 22rem; flex: 1 1 16rem; }
.wide { overflow-x: auto; }
.tables { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; align-items: flex-start; }
table { border-collapse: collapse; font-size: .88rem; margin: .25rem 0; }
caption { text-align: left; font-weight: 600; padding-bottom: .2rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
th[scope=row] { font-weight: 400; }
thead th { color: var(--soft); font-weight: 600; }
.number, thead .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details { margin: .75rem 0; }
summary { cursor: pointer; color: var(--train); }
mark { background: var(--mark); color: inherit; border-radius: 3px; padding: 0 .15em; }
.predictions { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
.prediction { background: var(--box); border-radius: 6px; padding: .6rem .8rem; break-inside: avoid; }
.prediction p { font-size: 1.05rem; margin: 0 0 .4rem; }
.prediction table { width: 100%; }
.prediction th { overflow-wrap: break-word; min-width: 4.5rem; }
.guesses { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .25rem 1.25rem; }
.bar { width: 40%; vertical-align: middle; }
.bar div { background: var(--train); height: .6rem; min-width: 1px; border-radius: 2px; print-color-adjust: exact; }
.example { background: var(--box); border-radius: 6px; padding: .6rem .9rem; margin: 1rem 0; }
.example .head { font-weight: 600; font-size: .95rem; margin: 0 0 .3rem; }
.example p { max-width: none; }
.piece p { line-height: 2.5; margin: .1rem 0; }
.piece-1, .piece-2, .piece-3 { border-left: 4px solid var(--train); padding-left: .7rem; margin: .5rem 0; }
.piece-2 { border-color: var(--heldout); }
.piece-3 { border-color: var(--second); }
.about, .special { color: var(--soft); font-size: .85em; }
.tag { border: 1px solid; border-radius: 3px; padding: 0 .35em; font-size: .8em; color: var(--soft); }
.tag.seg-a { color: var(--train); }
.tag.seg-b { color: var(--heldout); }
span.seg-a { text-decoration: underline solid 2px var(--train); text-underline-offset: .3em; }
span.seg-b { text-decoration: underline dotted 2px var(--heldout); text-underline-offset: .3em; }
.piece mark { white-space: nowrap; overflow-wrap: normal; }
mark.random { background: var(--swapped); }
mark.kept { background: var(--kept); }
rt { font-size: .62em; color: var(--ink); user-select: auto; }
footer { color: var(--soft); font-size: .8rem; margin-top: 2.5rem; }
@media print {
  html { font-size: 11px; }
  body { font-size: 1rem; }
  h2, h3, caption, figcaption { break-after: avoid; }
  tr { break-inside: avoid; }
  main { max-width: none; padding: 0; }
  .plots { grid-template-columns: 1fr 1fr; }
  .key, .notes, .prediction, .example, mark { print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
# Paper is light, whatever the screen.
STYLE = f":root {{{_LIGHT}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{_DARK}}} }}{_RULES}"


def document(title, mark, sections):
    """A whole page of `sections`, HTML texts of which some may be empty; mark: an element for the head."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{mark}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{chr(10).join(section for section in sections if section)}
<footer>Written by bert-jax report on {time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}.</footer>
</main>
</body>
</html>
"""


def key_figures(figures):
    """Boxes of (name, value, remark), all texts."""
    boxes = [
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>"
        for name, value, remark in figures
    ]
    return f"<dl class='key'>{''.join(boxes)}</dl>" if boxes else ""


def escape(value):
    """Any value as text that HTML shows as it is; characters that no page may hold show as U+FFFD."""
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", str(value))
    return html.escape(text)


def shown(name, value):
    """A figure of JSON as text: thousands apart, shares as percentages."""
    if not is_figure(value):
        return str(value)
    if name.endswith(("_share", "_rate")):
        return percent(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def table(rows, header=(), caption=""):
    """A table; each row is a name and texts. Columns under a header of numbers only, or under none, stand right."""
    columns = list(zip(*rows, strict=True))
    kinds = [" class=number" if n and (not header or all(map(_is_number, c))) else "" for n, c in enumerate(columns)]
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    if header:
        cells = (f"<th scope=col{kind}>{escape(name)}</th>" for kind, name in zip(kinds, header, strict=True))
        lines.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
    lines.append("<tbody>")
    for name, *texts in rows:
        cells = (f"<td{kind}>{escape(text)}</td>" for kind, text in zip(kinds[1:], texts, strict=True))
        lines.append(f"<tr><th scope=row>{escape(name)}</th>{''.join(cells)}</tr>")
    return "<div class=wide><table>" + "\n".join([*lines, "</tbody>"]) + "</table></div>"


def _is_number(text):
    return re.fullmatch(r"-?[\d.,]+(e[-+]?\d+)?( %)?|nan|-?inf|", text)


def folded(summary, content):
    return f"<details><summary>{escape(summary)}</summary>\n{content}\n</details>"


def notes_box(notes, title="Notes"):
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<div class='notes'><strong>{escape(title)}</strong><ul>{items}</ul></div>"
