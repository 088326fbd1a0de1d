"""Predictions as the GLUE benchmark takes them: a zip with a file a task."""

import json
import zipfile
from pathlib import Path

import numpy as np

from bert_jax.errors import UserError
from bert_jax.tasks.glue import LAYOUTS

# Of each task: the file of each split of predictions, and how many lines the benchmark expects.
FILES = {
    "cola": {"test": ("CoLA.tsv", 1063)},
    "sst2": {"test": ("SST-2.tsv", 1821)},
    "mrpc": {"test": ("MRPC.tsv", 1725)},
    "stsb": {"test": ("STS-B.tsv", 1379)},
    "qqp": {"test": ("QQP.tsv", 390_965)},
    "mnli": {"test_matched": ("MNLI-m.tsv", 9796), "test_mismatched": ("MNLI-mm.tsv", 9847), "ax": ("AX.tsv", 1104)},
    "qnli": {"test": ("QNLI.tsv", 5463)},
    "rte": {"test": ("RTE.tsv", 3000)},
    "wnli": {"test": ("WNLI.tsv", 146)},
}


def add_run(workdir, task, path):
    """Adds the test predictions of a fine-tuning run to the zip at `path`, in place of those of an earlier run.

    Returns a line that says what the zip holds and what is missing. Raises UserError for a task that is none of GLUE's,
    and for predictions that are not those of the whole test set.
    """
    if task not in FILES:
        raise UserError(f"--submission: {task} is no task of GLUE: expected one of {', '.join(FILES)}")
    made = {}
    for split, (name, count) in FILES[task].items():
        file = Path(workdir) / "predictions" / f"{split}.jsonl"
        if not file.is_file():
            raise UserError(f"--submission: {file} is missing: the data has no {split} examples")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        if len(lines) != count:
            raise UserError(f"--submission: {file} has {len(lines)} predictions: the benchmark expects {count}")
        made[name] = "index\tprediction\n" + "".join(f"{n}\t{_shown(task, line)}\n" for n, line in enumerate(lines))
    path, content = Path(path), {}
    if path.exists():
        with zipfile.ZipFile(path) as archive:
            content = {name: archive.read(name).decode() for name in archive.namelist()}
    content |= made
    partial = path.with_name(path.name + ".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(content):
            archive.writestr(name, content[name])
    partial.replace(path)
    missing = [name for files in FILES.values() for name, _ in files.values() if name not in content]
    return f"{path}: {', '.join(sorted(content))}" + (f"; not there yet: {', '.join(missing)}" if missing else "")


def _shown(task, line):
    """One prediction in the benchmark's words: a score within 0 to 5, the word of an inference, else 0 or 1."""
    layout = LAYOUTS[task]
    if not layout.labels:
        return f"{float(np.clip(line['score'], 0, 5)):.3f}"
    return str(layout.labels.index(line["label"])) if layout.coded else line["label"]
