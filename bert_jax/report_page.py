"""The HTML of a run's report: one page without scripts or outside resources, and with everything escaped.

Text of a corpus, a path or a JSON file may hold anything: it gets into the page through `escape` alone.
"""

import html
import re
import time

from bert_jax import report_curves, report_words
from bert_jax.config import PhaseConfig, PretrainConfig, to_config_dict
from bert_jax.report_style import STYLE
from bert_jax.report_words import percent, plural

MOST_ROWS = 200  # of a table of steps
MOST_IDS = 8  # example ids shown of a bad step

# Names of report.json whose words alone would not do.
DATA_NAMES = {
    "bytes_a_token": "bytes of text a token",
    "duplicate_sentence_share": "sentences that repeat an earlier one",
    "duplicate_sentences_are_of": "counted among",
    "unknown_token_share": "tokens unknown to the vocabulary",
    "one_sentence_document_share": "documents of one sentence",
    "seconds": "seconds to prepare",
    "megabytes_a_second": "megabytes a second",
    "next": "pairs labelled next",
    "random": "pairs labelled random",
    "random_share": "random among pairs (NSP balance)",
    "fill_rate": "fill rate (not padding)",
    "unigram_entropy": "unigram entropy (nats)",
    "tokens_in_rows": "tokens that may be masked",
    "borrowed": "+ borrowed for random second segments",
    "tokens_in": "tokens in",
    "tokens_out": "= tokens in rows",
    "truncated": "+ cut off at the row's end",
    "without_partner": "+ dropped for want of a second segment",
    "chunks_without_partner": "pieces of text so dropped",
}
ACCOUNT_ORDER = ("tokens_in", "borrowed", "tokens_out", "truncated", "without_partner", "chunks_without_partner")


def make_page(run, mark):
    """The whole page as text; run: a report_run.RunRecord, mark: an element for the head that names the maker."""
    title = f"Pretraining report: {run.path}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f"<p class='lead'>{escape(' '.join(report_words.summary(run)))}</p>",
        _key_figures(run),
        _notes(run.notes),
        _curves(run),
        _heldout_table(run),
        _bad_table(run),
        _predictions(run.predictions),
        *_data(run),
        _config(run),
        f"<footer>Written by bert-jax report on {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}.</footer>",
    ]
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
{chr(10).join(section for section in sections if section)}
</main>
</body>
</html>
"""


def escape(value):
    """Any value as text that HTML shows as it is; characters that no page may hold show as U+FFFD."""
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", str(value))
    return html.escape(text)


def shown(name, value):
    """A figure of JSON as text: thousands apart, shares as percentages."""
    if isinstance(value, bool) or not isinstance(value, int | float):
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


def _folded(summary, content):
    return f"<details><summary>{escape(summary)}</summary>\n{content}\n</details>"


def _key_figures(run):
    boxes = [
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>"
        for name, value, remark in report_words.key_figures(run)
    ]
    return f"<dl class='key'>{''.join(boxes)}</dl>"


def _notes(notes, title="Notes"):
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<div class='notes'><strong>{escape(title)}</strong><ul>{items}</ul></div>"


def _curves(run):
    plots = report_curves.panels(run)
    if not plots:
        return ""
    figures = [f"<figure><figcaption>{escape(panel.title)}</figcaption>{svg}</figure>" for panel, svg in plots]
    return (
        f"<section><h2>Curves</h2><p>Drawn from {plural(len(run.train), 'line')} of training and "
        f"{plural(len(run.heldout), 'evaluation')} on held-out text; a step is one optimizer update. Where there are "
        "many lines, the light curve is the figures as logged and the dark one smooths them. A dotted vertical line is "
        "a change of phase, a triangle on the axis a step that was skipped because its loss or gradient was not finite."
        f"</p><div class='plots'>{''.join(figures)}</div></section>"
    )


def _heldout_table(run):
    if not run.heldout:
        return ""
    columns = {
        "loss": "total loss", "mlm_loss": "MLM loss", "mlm_accuracy": "MLM accuracy", "nsp_loss": "NSP loss",
        "nsp_accuracy": "NSP accuracy", "examples": "examples",
    }  # fmt: skip
    columns = {name: title for name, title in columns.items() if any(name in line for line in run.heldout)}
    every = -(-len(run.heldout) // MOST_ROWS)
    lines = run.heldout[::-1][::every][::-1]  # counted from the last one, which is looked for
    rows = [
        [f"{line['step']:,}", f"{line['phase']}", *(_heldout_figure(name, line.get(name)) for name in columns)]
        for line in lines
    ]
    which = f" (one in {every})" if every > 1 else ""
    return _folded(f"Held-out evaluations in figures{which}", table(rows, ["step", "phase", *columns.values()]))


def _heldout_figure(name, value):
    if value is None:
        return ""
    if name == "examples":
        return f"{value:,}"
    return percent(value) if name.endswith("accuracy") else f"{value:.4f}"


def _bad_table(run):
    if not run.bad:
        return ""
    rows = []
    for line in run.bad[:MOST_ROWS]:
        ids = line.get("example_ids")
        ids = ids if isinstance(ids, list) else []
        more = f" and {len(ids) - MOST_IDS:,} more" if len(ids) > MOST_IDS else ""
        examples = ", ".join(map(str, ids[:MOST_IDS])) + more
        rows.append([f"{line['step']:,}", str(line.get("loss", "")), str(line.get("gradient_norm", "")), examples])
    which = f", the first {MOST_ROWS} of {len(run.bad):,}" if len(run.bad) > MOST_ROWS else ""
    header = ["step", "loss", "gradient norm", "train examples in the batch"]
    return _folded(f"Skipped steps ({plural(len(run.bad), 'step')}{which})", table(rows, header))


def _predictions(predictions):
    if not predictions:
        return ""
    blocks = []
    for text, masks in predictions:
        marked = escape(text).replace("[MASK]", "<mark>[MASK]</mark>")
        guesses = "".join(_guesses(n, mask, len(masks) > 1) for n, mask in enumerate(masks, 1))
        blocks.append(f"<div class='prediction'><p dir='auto'>{marked}</p><div class='guesses'>{guesses}</div></div>")
    return (
        "<section><h2>Sample predictions</h2><p>What the model puts in place of each [MASK], with its "
        f"probabilities.</p><div class='predictions'>{''.join(blocks)}</div></section>"
    )


def _guesses(number, mask, several):
    rows = [
        f"<tr><th scope=row dir=auto>{escape(token)}</th><td class='bar'><div style='width:"
        f"{100 * min(max(share, 0), 1):.1f}%'></div></td><td class='number'>{percent(share)}</td></tr>"
        for token, share in mask
    ]
    caption = f"<caption>{number}. [MASK]</caption>" if several else ""
    return f"<table>{caption}<tbody>{''.join(rows)}</tbody></table>"


def _data(run):
    if run.data:
        yield "<h2>Data</h2>"
    seen = {}
    for number, (folder, report) in enumerate(run.data, 1):
        if folder in seen:
            yield f"<h3>Phase {number}: the data of phase {seen[folder]} again</h3>"
            continue
        seen[folder] = number
        yield f"<h3>Phase {number}: <code>{escape(folder)}</code></h3>"
        if report is None:
            yield _notes([f"There is no report.json in {folder} any more: the data were moved or removed."], "Gone")
        else:
            yield _data_report(report)


def _data_report(report):
    """Any report.json of `prepare`: known names in words, others as they are."""
    parts = [_notes(_list(report, "warnings"), "Warnings")]
    rules = [f"{rule[:1].upper()}{rule[1:]}." for rule in map(str, _list(report, "rules"))]
    parts.append(f"<p>{escape(' '.join(rules))}</p>")
    tables = []
    splits = {name: split for name, split in _mapping(report, "splits").items() if isinstance(split, dict)}
    if splits:
        tables.append(_splits_table(splits))
    account = _mapping(report, "token_account")
    if account:
        names = [n for n in ACCOUNT_ORDER if n in account] + [n for n in account if n not in ACCOUNT_ORDER]
        tables.append(table(_rows({name: account[name] for name in names}), caption="Account of the tokens"))
    tables.append(table(_rows(_plain(report)), caption="Text"))
    dropped = _mapping(report, "dropped")
    if dropped:
        tables.append(table(_rows(dropped), caption="Dropped"))
    lengths = _mapping(_mapping(splits, "train"), "lengths")
    parts.append(f"<div class='tables'>{''.join(tables)}{_lengths(lengths)}</div>")
    return "".join(parts)


def _splits_table(splits):
    columns = [_plain(split) | _balance(split) for split in splits.values()]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[_data_name(name), *(shown(name, column.get(name, "")) for column in columns)] for name in names]
    return table(rows, ["", *splits], caption="Examples")


def _balance(split):
    pairs = [split.get("next"), split.get("random")]
    known = all(type(number) is int and number >= 0 for number in pairs) and sum(pairs)
    return {"random_share": pairs[1] / sum(pairs)} if known else {}


def _plain(mapping):
    return {name: value for name, value in mapping.items() if not isinstance(value, dict | list)}


def _lengths(lengths):
    edges, counts = _list(lengths, "edges"), _list(lengths, "examples")
    if len(edges) < 2 or len(counts) != len(edges) - 1 or not all(type(n) is int for n in edges + counts):
        return ""
    return (
        "<figure class='small'><figcaption>Lengths of the rows (train)</figcaption>"
        f"{report_curves.histogram(edges, counts)}</figure>"
    )


def _rows(mapping):
    return [[_data_name(name), shown(name, value)] for name, value in mapping.items()]


def _data_name(name):
    return DATA_NAMES.get(name, str(name).replace("_", " "))


def _mapping(mapping, name):
    value = mapping.get(name)
    return value if isinstance(value, dict) else {}


def _list(mapping, name):
    value = mapping.get(name)
    return value if isinstance(value, list) else []


def _config(run):
    settings = dict(flatten(run.raw_config))
    if not settings:
        return ""
    defaults = dict(flatten(to_config_dict(PretrainConfig()).to_dict()))
    phase = dict(flatten(to_config_dict(PhaseConfig()).to_dict()))
    rows = []
    for name, value in settings.items():
        of_phase = re.fullmatch(r"phases\.phase\d+\.(.*)", name)
        default = phase.get(of_phase[1]) if of_phase else defaults.get(name)
        rows.append((name, value, default))
    changed = [[name, _setting(value), _setting(default)] for name, value, default in rows if value != default]
    every = table([[name, _setting(value)] for name, value, _ in rows], ["setting", "value"])
    return (
        f"<section><h2>Config</h2><p>{plural(len(changed), 'setting')} of {len(rows)} differ from the defaults; each "
        "is given as --config.NAME=VALUE.</p>"
        f"{table(changed, ['setting', 'value', 'default'])}{_folded('All settings', every)}</section>"
    )


def _setting(value):
    """As one writes it after --config.NAME=, so without thousands apart."""
    return "(empty)" if value == "" else str(value)


def flatten(value, path=""):
    """(dotted name, plain value) of a nested config; the items of a list of phases are phase1, phase2, ..."""
    if isinstance(value, list) and path == "phases":
        value = {f"phase{n}": item for n, item in enumerate(value, 1)}
    if not isinstance(value, dict):
        yield path, value
        return
    for name, item in value.items():
        yield from flatten(item, f"{path}.{name}" if path else str(name))
