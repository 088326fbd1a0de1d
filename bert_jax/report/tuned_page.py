"""The page of a fine-tuning run, or of a sweep: one HTML file without scripts or outside resources."""

from bert_jax.config import to_config_dict
from bert_jax.report import tuned_plots as plots
from bert_jax.report.html import document, escape, folded, key_figures, notes_box, table
from bert_jax.report.page import flatten
from bert_jax.report.read import is_figure, mapping_at
from bert_jax.report.tuned_run import calibration, confusion, scores_by
from bert_jax.report.words import duration, plural
from bert_jax.tasks.config import FinetuneConfig
from bert_jax.tasks.sweep import SWEPT, cells, summarize

NAMES = {
    "learning_rate": "learning rate", "epochs": "epochs", "train_examples": "labelled examples", "seed": "seed",
}  # fmt: skip


def make_page(run, mark):
    """The whole page as text; run: a TunedRun, mark: an element for the head that names the maker."""
    task = mapping_at(run.settings, "task").get("name", "")
    if run.runs:
        return document(f"Sweep: {task}, {run.path}", mark, [notes_box(run.notes), *_sweep(run), _settings(run)])
    sections = [
        f"<p class='lead'>{escape(_lead(run, task))}</p>",
        key_figures(_key_figures(run)),
        notes_box(run.notes + _flags(run)),
        _section("Learning curves", _curves(run)),
        _section("Held-out predictions", _predictions(run)),
        _scores(run),
        _settings(run),
    ]
    return document(f"Fine-tuning report: {task}, {run.path}", mark, sections)


def _lead(run, task):
    summary = run.summary
    if not summary:
        return f"Fine-tuning on {task}, not finished yet."
    examples, updates = plural(summary["train_examples"], "example"), plural(summary["steps"], "update")
    return (
        f"Fine-tuned on {examples} of {task} in {updates}; the best weights by {summary['main']} on the first held-out "
        f"split are those after update {summary['best_step']:,}, and all scores are theirs."
    )


def _key_figures(run):
    boxes = [
        (name, f"{value:.4f}", split.replace("_", " "))
        for split, figures in mapping_at(run.summary, "scores").items()
        for name, value in figures.items()
        if is_figure(value)
    ]
    seconds = run.summary.get("seconds")
    return boxes + ([("time", duration(seconds), "training and evaluations")] if is_figure(seconds) else [])


def _flags(run):
    return [f"Degenerate: every example of {split} gets the same label." for split in run.summary.get("degenerate", [])]


def _section(title, figures, text=""):
    if not figures:
        return ""
    drawn = "".join(f"<figure><figcaption>{escape(name)}</figcaption>{svg}</figure>" for name, svg in figures)
    return f"<section><h2>{title}</h2>{text}<div class='plots'>{drawn}</div></section>"


def _curves(run):
    """(title, SVG) of the training loss and of each score by step."""
    train = [line for line in run.lines.get("train", []) if is_figure(line.get("loss"))]
    drawn = []
    if train:
        drawn.append(("Training loss", plots.learning_curve("Training loss", train, "loss", "loss of a batch")))
    heldout = {split: lines for split, lines in run.lines.items() if split != "train"}
    names = dict.fromkeys(name for lines in heldout.values() for line in lines for name in line)
    for name in names:
        with_it = {split: [line for line in lines if is_figure(line.get(name))] for split, lines in heldout.items()}
        with_it = {split: lines for split, lines in with_it.items() if lines}
        if name not in ("split", "step") and with_it:
            drawn.append((f"Held-out {name}", plots.score_curves(f"Held-out {_plain(name)}", with_it, name)))
    return drawn


def _predictions(run):
    drawn = []
    for split, lines in run.predictions.items():
        shown, counted = split.replace("_", " "), confusion(lines)
        if counted:
            title = f"{shown}: confusion, {plural(len(lines), 'example')}"
            drawn.append((title, plots.confusion_matrix(f"Confusion {_plain(split)}", *counted)))
            means, shares, counts, error = calibration(lines)
            title = f"{shown}: calibration, expected error {error:.3f}"
            drawn.append((title, plots.reliability(f"Calibration {_plain(split)}", means, shares, counts)))
        elif all(is_figure(line.get("score")) and is_figure(line["expected"]) for line in lines):
            pairs = [(line["expected"], line["score"]) for line in lines]
            drawn.append((f"{shown}: numbers", plots.scatter(f"Numbers {_plain(split)}", *zip(*pairs, strict=True))))
    return drawn


def _plain(name):
    """A name without what an attribute of HTML cannot hold."""
    return "".join(character if character.isalnum() else " " for character in str(name))


def _scores(run):
    rows = [
        [split.replace("_", " "), name, f"{value:.4f}" if isinstance(value, float) else f"{value:,}"]
        for split, figures in mapping_at(run.summary, "scores").items()
        for name, value in figures.items()
        if is_figure(value)
    ]
    return f"<section><h2>Scores</h2>{table(rows, ['split', 'metric', 'value'])}</section>" if rows else ""


def _sweep(run):
    """A plot of each setting that has several values, and the table."""
    main, drawn = run.runs[0]["main"], []
    for name in SWEPT.values():
        values, means, deviations, counts = scores_by(run.runs, name)
        if name != "seed" and len(values) > 1:
            title, runs = f"{main} by {NAMES[name]}", plural(int(counts.max()), "run")
            svg = plots.by_setting(_plain(title), values, means, deviations, NAMES[name], main)
            drawn.append((f"{title} (mean and deviation of up to {runs} each)", svg))
    rows = summarize(run.runs)
    every = table(list(map(cells, rows)), [NAMES.get(name, name) for name in rows[0]])
    lead = f"{plural(len(run.runs), 'run')}; the best mean comes first, deviations are over seeds."
    return [
        f"<p class='lead'>{escape(lead)}</p>",
        _section("Scores by setting", drawn),
        f"<section><h2>All settings</h2>{every}</section>",
    ]


def _settings(run):
    defaults = dict(flatten(to_config_dict(FinetuneConfig()).to_dict()))
    rows = [(name, tuple(value) if isinstance(value, list) else value) for name, value in flatten(run.settings)]
    changed = [[name, str(value), str(defaults.get(name, ""))] for name, value in rows if value != defaults.get(name)]
    every = table([[name, str(value)] for name, value in rows], ["setting", "value"])
    if not rows:
        return ""
    return (
        f"<section><h2>Config</h2>{table(changed, ['setting', 'value', 'default'])}"
        f"{folded('All settings', every)}</section>"
    )
