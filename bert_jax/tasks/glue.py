"""The tasks of the GLUE benchmark (Wang et al. 2019) from the folders of its download, or from TFDS.

Files are tab-separated, and a quote is a character like any other. Columns and splits: the download's own headers;
label words and their order: TFDS (text/glue.py), which Hugging Face's data sets share; metrics: gluebenchmark.com.
"""

import dataclasses
from pathlib import Path

from bert_jax.errors import UserError
from bert_jax.tasks import glue_tfds
from bert_jax.tasks.text_tasks import Texts, classify_task, regress_task

ENTAILMENT = ("entailment", "not_entailment")


@dataclasses.dataclass(frozen=True)
class Layout:
    """A task's folder, its columns, and its words; labels of none are scores from 0 to 5.

    coded: files hold the place of a label among `labels`, not its word. dev, test: names of the held-out files, without
    their ending, by the name of the split.
    """

    folder: str
    first: str
    second: str | None
    label: str
    labels: tuple[str, ...]
    figures: tuple[str, ...] = ("accuracy",)
    coded: bool = True
    dev: tuple[tuple[str, str], ...] = (("validation", "dev"),)
    test: tuple[tuple[str, str], ...] = (("test", "test"),)
    index: str = "index"
    # Rows with too few columns are skipped and counted, as each reader of QQP does: its own files have some.
    ragged: bool = False


LAYOUTS = {
    "cola": Layout("CoLA", "sentence", None, "label", ("unacceptable", "acceptable"), ("matthews",)),
    "sst2": Layout("SST-2", "sentence", None, "label", ("negative", "positive")),
    "mrpc": Layout(
        *("MRPC", "#1 String", "#2 String", "Quality", ("not_equivalent", "equivalent"), ("f1", "accuracy"))
    ),
    "stsb": Layout("STS-B", "sentence1", "sentence2", "score", (), ("spearman", "pearson")),
    "qqp": Layout(
        *("QQP", "question1", "question2", "is_duplicate", ("not_duplicate", "duplicate"), ("f1", "accuracy")),
        index="id",
        ragged=True,
    ),
    "mnli": Layout(
        *("MNLI", "sentence1", "sentence2", "gold_label", ("entailment", "neutral", "contradiction")),
        coded=False,
        dev=(("validation_matched", "dev_matched"), ("validation_mismatched", "dev_mismatched")),
        test=(("test_matched", "test_matched"), ("test_mismatched", "test_mismatched")),
    ),
    "qnli": Layout("QNLI", "question", "sentence", "label", ENTAILMENT, coded=False),
    "rte": Layout("RTE", "sentence1", "sentence2", "label", ENTAILMENT, coded=False),
    "wnli": Layout("WNLI", "sentence1", "sentence2", "label", tuple(reversed(ENTAILMENT))),
}
NAMES = tuple(LAYOUTS)
SETTINGS = ()
DIAGNOSTIC = "diagnostic/diagnostic.tsv"  # AX, which a model of MNLI predicts
COLA_HEADER = ["source", "label", "mark", "sentence"]  # its train and dev files have none


def load(config, tokenizer, length, head=None):
    """The Task of a TaskConfig that names one of NAMES; config.data is the folder of the download, or the task's own,
    or what TFDS has prepared (glue_tfds.py).

    Files that are absent are left out. Labels of `head`, a tuned model's, are matched by word, whatever their order
    (MNLI models have several); LABEL_0, LABEL_1 ... stand for the benchmark's order, which is told.
    """
    layout, remarks = LAYOUTS[config.name], []
    if glue_tfds.is_tfds(config.data):
        texts = glue_tfds.read_splits(config.name, layout, config.data)
    else:
        texts = _read_download(config, layout, remarks)
    if not layout.labels:
        return regress_task(config.name, texts, tokenizer, length, layout.figures, head, tuple(remarks))
    if head is not None and head.kind == "classify":
        head = _with_our_words(head, layout, remarks)
    return classify_task(config.name, texts, tokenizer, length, layout.labels, layout.figures, head, tuple(remarks))


def _read_download(config, layout, remarks):
    """The Texts of a task by split."""
    folder, texts = _folder(Path(config.data), layout), {}
    for split, name in (("train", "train"), *layout.dev, *layout.test):
        if (folder / f"{name}.tsv").is_file():
            has_labels = (split, name) not in layout.test
            header = COLA_HEADER if config.name == "cola" and has_labels else None
            texts[split] = read_tsv(folder / f"{name}.tsv", layout, has_labels, header, remarks)
    if config.name == "mnli" and (folder.parent / DIAGNOSTIC).is_file():
        texts["ax"] = read_tsv(folder.parent / DIAGNOSTIC, layout, False, None, remarks)
    if not texts:
        raise UserError(f"{folder}: has none of train.tsv, {', '.join(f'{name}.tsv' for _, name in layout.dev)}")
    return texts


def _folder(path, layout):
    for folder in (path / layout.folder, path):
        if folder.is_dir() and (folder.name == layout.folder or any(folder.glob("*.tsv"))):
            return folder
    raise UserError(f"{path}: expected the folder of the GLUE download, with {layout.folder}/, or that folder itself")


def _with_our_words(head, layout, remarks):
    """The head with its labels in the benchmark's spelling, each at its place."""
    given = [label.lower().replace("-", "_").replace(" ", "_") for label in head.labels]
    if sorted(given) == sorted(layout.labels):
        return dataclasses.replace(head, labels=tuple(given))
    unnamed = all(label == f"label_{index}" for index, label in enumerate(given))
    if unnamed and len(given) == len(layout.labels):
        remarks.append(f"the model's labels have no names: taken as {', '.join(layout.labels)}")
        return dataclasses.replace(head, labels=layout.labels)
    raise UserError(
        f"{layout.folder} has the labels {', '.join(layout.labels)}: the model has {', '.join(head.labels)}"
    )


def read_tsv(path, layout, has_labels, header, remarks):
    """The Texts of a file. header: the names of its columns where it has no line of them.

    Raises UserError, naming the line, for another number of columns and for a label that the task has not; `remarks`
    gets a line for what was skipped.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 (offset {error.start})") from error
    rows = [(n, line.rstrip("\r").split("\t")) for n, line in enumerate(lines, 1) if line.strip("\r")]
    if header is None:
        header = rows.pop(0)[1] if rows else []
    wanted = [layout.first, layout.second, layout.label if has_labels else None]
    places = []
    for column in filter(None, wanted):
        if column not in header:
            raise UserError(f"{path}: has no column {column!r}: found {', '.join(header)}")
        places.append(header.index(column))
    texts, kept, skipped = [], [], 0
    for line, cells in rows:
        if len(cells) != len(header):
            if layout.ragged and len(cells) < len(header):
                skipped += 1
                continue
            raise UserError(f"{path}, line {line}: {len(cells)} columns: expected {len(header)}")
        texts.append([cells[place] for place in places])
        kept.append((line, cells))
    if skipped:
        remarks.append(f"{path.name}: {skipped} rows with too few columns are skipped")
    columns = [list(column) for column in zip(*texts, strict=True)] or [[] for _ in places]
    labels = None
    if has_labels:
        labels = [_label(path, line, layout, value) for (line, _), value in zip(kept, columns.pop(), strict=True)]
    indices = [cells[header.index(layout.index)] for _, cells in kept] if layout.index in header else None
    return Texts(columns[0], columns[1] if layout.second else None, labels, indices)


def _label(path, line, layout, value):
    """The word of a label, or the number of a score."""
    if not layout.labels:
        try:
            return float(value)
        except ValueError as error:
            raise UserError(f"{path}, line {line}: the score is {value!r}: expected a number") from error
    known = [str(index) for index in range(len(layout.labels))] if layout.coded else layout.labels
    if value not in known:
        raise UserError(f"{path}, line {line}: the label is {value!r}: expected one of {', '.join(known)}")
    return layout.labels[int(value)] if layout.coded else value
