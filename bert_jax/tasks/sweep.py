"""Many fine-tuning runs in one process, compiled once: learning rates x epochs x numbers of examples x seeds."""

import dataclasses
import itertools
import json
import shutil
import statistics
import threading

from etils import epath

from bert_jax import parallel
from bert_jax.checkpoint import BEST
from bert_jax.errors import UserError
from bert_jax.tasks.finetune import Programs, Run
from bert_jax.tasks.load import load_task

LINES = "sweep.jsonl"  # one line a finished run
TABLE = "sweep.md"
ASIDE = BEST + ".old"
SWEPT = {"learning_rates": "learning_rate", "epochs": "epochs", "train_examples": "train_examples", "seeds": "seed"}


def sweep(config, model, workdir, *, stop=None):
    """Makes each run of `config.sweep` that workdir/sweep.jsonl does not hold yet; returns the rows of the table.

    The best weights of all runs are in workdir/best; each run's metrics and predictions below workdir/runs. Raises
    UserError where the folder holds the runs of other settings.
    """
    workdir, stop = epath.Path(workdir), stop or threading.Event()
    parallel.check_platform(config.platform)
    programs = Programs(config, model, load_task(config.task, model.tokenizer, config.length))
    if not programs.task.scored_splits():
        raise UserError(f"{config.task.data}: no held-out examples with labels: a sweep has nothing to choose by")
    workdir.mkdir(parents=True, exist_ok=True)
    _check_same_sweep(workdir, config, model)
    _restore_best(workdir)
    finished = read_lines(workdir)
    for setting in combinations(config):
        if any(line["setting"] == setting for line in finished):
            continue
        folder = workdir / "runs" / ",".join(f"{name}={value}" for name, value in setting.items())
        run = Run(dataclasses.replace(config, **setting), programs, folder, stop, keeps_state=False)
        try:
            summary = run.to_the_end()
        finally:
            run.close()
        best = max((height(line) for line in finished), default=float("-inf"))
        finished.append({"setting": setting} | summary)
        _keep_best(workdir, folder, height(finished[-1]) > best)
        with open(workdir / LINES, "a") as file:
            file.write(json.dumps(finished[-1]) + "\n")
        (workdir / TABLE).write_text(in_markdown(summarize(finished)))
    return summarize(finished)


def combinations(config):
    """The settings of each run as dicts; of what is not swept, the config's own value."""
    values = [getattr(config.sweep, name) or (getattr(config, setting),) for name, setting in SWEPT.items()]
    return [dict(zip(SWEPT.values(), combination, strict=True)) for combination in itertools.product(*values)]


def height(line):
    """What a run is chosen by: its main figure on the first held-out split."""
    return next(iter(line["scores"].values()))[line["main"]]


def read_lines(workdir):
    """The finished runs; a line that a kill cut off is left out, as its run has to be made again."""
    path = epath.Path(workdir) / LINES
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        path.write_text("".join(whole))
    return [json.loads(line) for line in whole]


def summarize(lines):
    """A row for each combination but the seed: its setting, and of the main figure over the seeds mean, sample
    deviation (0 of one run), least and most; `runs`, and how many were `degenerate`. The best mean comes first."""
    groups = {}
    for line in lines:
        setting = {name: value for name, value in line["setting"].items() if name != "seed"}
        groups.setdefault(json.dumps(setting), []).append(line)
    rows = []
    for setting, group in groups.items():
        heights = [height(line) for line in group]
        figures = {
            "main": group[0]["main"],
            "mean": statistics.mean(heights),
            "deviation": statistics.stdev(heights) if len(heights) > 1 else 0.0,
            "least": min(heights),
            "most": max(heights),
            "runs": len(group),
            "degenerate": sum(bool(line["degenerate"]) for line in group),
        }
        rows.append(json.loads(setting) | figures)
    return sorted(rows, key=lambda row: -row["mean"])


def in_markdown(rows):
    """The rows of `summarize` as a table in Markdown."""
    names = list(rows[0])
    shown = [names, ["---"] * len(names), *map(cells, rows)]
    return "\n".join("| " + " | ".join(texts) + " |" for texts in shown) + "\n"


def cells(row):
    """The values of a row of `summarize` as texts."""
    return [f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()]


def _check_same_sweep(workdir, config, model):
    path = workdir / "config.json"
    swept = dict.fromkeys(("sweep", *SWEPT.values()))
    settings = {"checkpoint": model.path, "finetune": dataclasses.asdict(config) | swept}
    settings = json.loads(json.dumps(settings))
    if path.exists() and json.loads(path.read_text()) != settings:
        raise UserError(f"{workdir} holds runs of other settings ({path}): use a new --workdir")
    path.write_text(json.dumps(settings, indent=1) + "\n")


def _keep_best(workdir, folder, is_best):
    """Moves the weights of a run to workdir/best, or removes them."""
    if is_best:
        _restore_best(workdir)
        if (workdir / BEST).exists():
            (workdir / BEST).rename(workdir / ASIDE)
        (folder / BEST).rename(workdir / BEST)
        shutil.rmtree(workdir / ASIDE, ignore_errors=True)
    else:
        shutil.rmtree(folder / BEST)


def _restore_best(workdir):
    """Puts the earlier best weights back where a kill came before the new ones were in their place."""
    if (workdir / ASIDE).exists() and not (workdir / BEST).exists():
        (workdir / ASIDE).rename(workdir / BEST)
