"""GLUE as TFDS prepares it: written with TFDS's own features; and once by its own builder."""

import importlib.util
import json
from unittest import mock

import numpy as np
import pytest
import tensorflow_datasets as tfds

from bert_jax.errors import UserError
from bert_jax.tasks import glue
from bert_jax.tasks.task import TaskConfig
from bert_jax.text.tokenizer import load_tokenizer
from tests.text.sources.test_tfds import write_data_set

ENTAILMENT = ["entailment", "neutral", "contradiction"]


@pytest.fixture
def tokenizer(minilm):
    return load_tokenizer(minilm)


def prepared(folder, columns, labels, splits, file_format="array_record"):
    """A data set as TFDS lays it out; splits: name -> rows of texts and a label."""
    text = dict.fromkeys(columns, tfds.features.Text())
    label = tfds.features.ClassLabel(names=labels) if labels else np.float32
    features = tfds.features.FeaturesDict(text | {"label": label, "idx": np.int32})

    def serialized(rows):
        examples = (dict(zip([*columns, "label", "idx"], row, strict=True)) for row in rows)
        return [features.serialize_example(example) for example in examples]

    write_data_set(folder, "glue", file_format, splits=splits, features=features, write=serialized)
    info = json.loads((folder / "dataset_info.json").read_text()) | {"configName": folder.parent.name}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return folder


def rows_of(split):
    ends = zip(split.features.offsets[:-1], split.features.offsets[1:], strict=True)
    return [split.features.ids[start:end].tolist() for start, end in ends]


def test_mnli_has_its_splits_and_the_diagnostic_examples(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    examples = [("A man eats.", "Someone \u4e2d eats.", 0, 7), ("It rains.", "It is dry.", 2, 5)]
    hidden = [(*example[:2], -1, n) for n, example in enumerate(examples)]
    splits = {"train": examples, "validation_matched": examples[:1], "validation_mismatched": examples[1:]}
    splits |= {"test_matched": hidden, "test_mismatched": hidden}
    columns = ["premise", "hypothesis"]
    prepared(tmp_path / "glue" / "mnli" / "2.0.0", columns, ENTAILMENT, splits)
    prepared(tmp_path / "glue" / "ax" / "2.0.0", columns, ENTAILMENT, {"test": hidden})
    task = glue.load(TaskConfig("mnli", "tfds:glue"), tokenizer, 32)
    assert task.scored_splits() == ["validation_matched", "validation_mismatched"]
    assert task.splits["train"].labels.tolist() == [0, 2] and list(task.splits["train"].indices) == [7, 5]
    assert task.splits["ax"].labels is None and task.splits["test_matched"].labels is None
    expected = tokenizer.encode([examples[0][0]])[0].tolist(), tokenizer.encode([examples[0][1]])[0].tolist()
    row = [tokenizer.cls_id, *expected[0], tokenizer.sep_id, *expected[1], tokenizer.sep_id]
    assert rows_of(task.splits["train"])[0] == row


@pytest.mark.parametrize(
    ("name", "columns", "labels", "row"),
    [
        ("cola", ["sentence"], ["unacceptable", "acceptable"], ("A text.", 1, 0)),
        ("mrpc", ["sentence1", "sentence2"], ["not_equivalent", "equivalent"], ("a", "b", 1, 0)),
        ("qqp", ["question1", "question2"], ["not_duplicate", "duplicate"], ("a", "b", 1, 0)),
        ("stsb", ["sentence1", "sentence2"], None, ("a", "b", 2.5, 0)),
        ("qnli", ["question", "sentence"], ["entailment", "not_entailment"], ("a", "b", 1, 0)),
        ("wnli", ["sentence1", "sentence2"], ["not_entailment", "entailment"], ("a", "b", 1, 0)),
    ],
)
def test_each_layout_is_read_from_its_folder(tmp_path, tokenizer, name, columns, labels, row):
    folder = prepared(tmp_path / "glue" / name / "2.0.0", columns, labels, {"train": [row, row]})
    task = glue.load(TaskConfig(name, str(folder)), tokenizer, 32)
    assert task.splits["train"].labels.tolist() == [row[-2]] * 2


def test_what_is_not_prepared_or_of_another_task_is_refused(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    for data, message in (
        ("tfds:glue/rte", "prepare it with `tfds build glue/rte`"),
        ("tfds:glue/mrpc", "expected tfds:glue or tfds:glue/rte"),
        ("tfds:squad", "expected tfds:glue or tfds:glue/rte"),
    ):
        with pytest.raises(UserError, match=message):
            glue.load(TaskConfig("rte", data), tokenizer, 32)
    row = ("a", "b", 0, 0)
    folder = prepared(
        tmp_path / "glue" / "wnli" / "2.0.0", ["sentence1", "sentence2"], ENTAILMENT[:2], {"train": [row]}
    )
    with pytest.raises(UserError, match="has the labels entailment, neutral: expected entailment, not_entailment"):
        glue.load(TaskConfig("rte", str(folder)), tokenizer, 32)
    labels = ["entailment", "not_entailment"]
    columns, splits = ["sentence1", "sentence2"], {"train": [row]}
    other = prepared(tmp_path / "glue" / "rte" / "1.0.0", columns, labels, splits, "tfrecord")
    with pytest.raises(UserError, match="is written as tfrecord, expected array_record: build it with `tfds build"):
        glue.load(TaskConfig("rte", str(other)), tokenizer, 32)
    with pytest.raises(UserError, match="is no cola of TFDS's glue: it has no sentence"):
        glue.load(TaskConfig("cola", str(folder)), tokenizer, 32)


@pytest.mark.nightly
def test_rte_as_the_builder_of_tfds_makes_it(tmp_path, tokenizer, shared_data, monkeypatch):
    """With the extra [tfds], which CI does not install; the download is the folder of real files."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs TensorFlow: pip install 'bert-jax[tfds]'")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    download = "tensorflow_datasets.core.download.DownloadManager.download_and_extract"
    with mock.patch(download, lambda self, urls: str(shared_data / "glue")):
        builder = tfds.builder("glue/rte", data_dir=str(tmp_path), file_format="array_record")
        builder.download_and_prepare()
    ours, theirs = (
        glue.load(TaskConfig("rte", data), tokenizer, 128) for data in ("tfds:glue/rte", str(shared_data / "glue"))
    )
    for name in ("train", "validation", "test"):
        a, b = (
            sorted(zip(map(int, t.splits[name].indices), rows_of(t.splits[name]), strict=True)) for t in (ours, theirs)
        )
        assert a == b
