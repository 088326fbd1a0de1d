"""The page of a run's report: one HTML file without scripts or outside resources."""

import re

from bert_jax.config import PhaseConfig, PretrainConfig, to_config_dict
from bert_jax.report import curves, data, words
from bert_jax.report.html import document, escape, folded, key_figures, notes_box, table
from bert_jax.report.words import percent, plural

MOST_ROWS = 200  # of a table of steps
MOST_IDS = 8  # example ids shown of a bad step


def make_page(run, mark):
    """The whole page as text; run: a run.RunRecord, mark: an element for the head that names the maker."""
    sections = [
        f"<p class='lead'>{escape(' '.join(words.summary(run)))}</p>",
        key_figures(words.key_figures(run)),
        notes_box(run.notes),
        _curves(run),
        _heldout_table(run),
        _bad_table(run),
        _predictions(run.predictions),
        *data.sections(run),
        _config(run),
    ]
    return document(f"Pretraining report: {run.path}", mark, sections)


def _curves(run):
    plots = curves.panels(run)
    if not plots:
        return ""
    figures = [f"<figure><figcaption>{escape(panel.title)}</figcaption>{svg}</figure>" for panel, svg in plots]
    return (
        f"<section><h2>Curves</h2><p>Drawn from {plural(len(run.train), 'line')} of training and "
        f"{plural(len(run.heldout), 'evaluation')} on held-out text; a step is one optimizer update. Where there are "
        "many lines, the faint curve shows the figures as logged and the strong one smooths them. A dotted vertical "
        "line is a change of phase, a triangle on the axis a step that was skipped because its loss or gradient was "
        f"not finite.</p><div class='plots'>{''.join(figures)}</div></section>"
    )


def _heldout_table(run):
    if not run.heldout:
        return ""
    columns = {
        "loss": "total loss", "mlm_loss": "MLM loss", "mlm_accuracy": "MLM accuracy", "nsp_loss": "NSP loss",
        "nsp_accuracy": "NSP accuracy", "sop_loss": "SOP loss", "sop_accuracy": "SOP accuracy", "examples": "examples",
    }  # fmt: skip
    columns = {name: title for name, title in columns.items() if any(name in line for line in run.heldout)}
    every = -(-len(run.heldout) // MOST_ROWS)
    lines = run.heldout[::-1][::every][::-1]  # counted from the last one, which is looked for
    rows = [
        [f"{line['step']:,}", f"{line['phase']}", *(_heldout_figure(name, line.get(name)) for name in columns)]
        for line in lines
    ]
    which = f" (one in {every})" if every > 1 else ""
    return folded(f"Held-out evaluations in figures{which}", table(rows, ["step", "phase", *columns.values()]))


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
    return folded(f"Skipped steps ({plural(len(run.bad), 'step')}{which})", table(rows, header))


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
        f"{table(changed, ['setting', 'value', 'default'])}{folded('All settings', every)}</section>"
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
