"""The tasks of the GLUE benchmark from TFDS's prepared `glue/...`, read without TensorFlow."""

from pathlib import Path

from bert_jax.errors import UserError
from bert_jax.tasks.text_tasks import Texts
from bert_jax.text.sources.source import TFDS_PREFIX, Source
from bert_jax.text.sources.tfds import find_prepared, is_prepared

# Columns of TFDS that are not called as those of the download.
COLUMNS = {"mrpc": ("sentence1", "sentence2"), "mnli": ("premise", "hypothesis")}
ARRAY_RECORD = "array_record"
ROWS = 1000  # read at a time


def is_tfds(data):
    """Whether a TaskConfig's data names TFDS's glue, or a folder that TFDS has prepared."""
    return data.startswith(TFDS_PREFIX) or is_prepared(data)


def read_splits(name, layout, data):
    """The Texts of a task by split; layout: its glue.Layout; data: `tfds:glue`, `tfds:glue/NAME[:VERSION]`, or the
    prepared folder.

    The splits are those of the download (of mnli also ax, where that is prepared), hidden labels of -1 are none. Raises
    UserError where nothing is prepared, and for a data set of another task.
    """
    folder = _folder(name, data)
    splits = _read(name, layout, folder)
    if name == "mnli":
        diagnostic = Path(folder).parents[1] / "ax" / Path(folder).name
        if is_prepared(str(diagnostic)):
            splits["ax"] = _read(name, layout, diagnostic)["test"]
    return splits


def _folder(name, data):
    if not data.startswith(TFDS_PREFIX):
        return data
    wanted, _, version = data.removeprefix(TFDS_PREFIX).partition(":")
    if wanted not in ("glue", f"glue/{name}"):
        raise UserError(f"config.task.data {data!r}: expected tfds:glue or tfds:glue/{name}")
    return find_prepared(Source(f"{TFDS_PREFIX}glue/{name}" + (f":{version}" if version else "")))


def _read(name, layout, folder):
    import tensorflow_datasets as tfds  # imported here: it takes a while, and few need it

    builder = tfds.builder_from_directory(str(folder))
    columns = COLUMNS.get(name, tuple(filter(None, (layout.first, layout.second))))
    missing = {*columns, "label", "idx"} - set(builder.info.features)
    if missing:
        raise UserError(f"{folder}: is no {name} of TFDS's glue: it has no {', '.join(sorted(missing))}")
    if layout.labels and tuple(builder.info.features["label"].names) != layout.labels:
        found = ", ".join(builder.info.features["label"].names)
        raise UserError(f"{folder}: has the labels {found}: expected {', '.join(layout.labels)}")
    written = builder.info.file_format.value
    if written != ARRAY_RECORD:  # TFDS reads the others through TensorFlow alone
        command = f"tfds build glue/{name} --file_format={ARRAY_RECORD}"
        raise UserError(f"{folder}: is written as {written}, expected {ARRAY_RECORD}: build it with `{command}`")
    return {split: _texts(builder.as_data_source(split), columns, layout) for split in builder.info.splits}


def _texts(source, columns, layout):
    texts, labels, indices = [[] for _ in columns], [], []
    for start in range(0, len(source), ROWS):
        for example in source.__getitems__(list(range(start, min(start + ROWS, len(source))))):
            for column, name in zip(texts, columns, strict=True):
                column.append(example[name].decode())
            labels.append(float(example["label"]))
            indices.append(int(example["idx"]))
    hidden = all(label == -1 for label in labels)
    if not hidden and layout.labels:
        labels = [layout.labels[int(label)] for label in labels]
    return Texts(texts[0], texts[1] if layout.second else None, None if hidden else labels, indices)
