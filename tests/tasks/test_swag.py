"""Multiple choice from SWAG's own columns."""

import json

import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.tasks import swag
from bert_jax.tasks.task import TaskConfig
from bert_jax.text.tokenizer import load_tokenizer

HEADER = "video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
ROWS = [
    'v1,1,"A man sits, smiling. He",A man sits.,He,gold,stands up.,"eats a cat, twice.",is a tree.,flies.,0',
    "v2,2,,Two dogs bark.,,gold,They run.,They read.,They vote.,They melt.,3",
]


@pytest.fixture
def tokenizer(minilm):
    return load_tokenizer(minilm)


def folder(path, rows=ROWS, header=HEADER):
    (path / "train.csv").write_text("\n".join([header, *rows]) + "\n")
    (path / "val.csv").write_text("\n".join([header, *rows[:1]]) + "\n")
    return TaskConfig("swag", str(path))


def test_each_ending_is_a_row_behind_its_context(tmp_path, tokenizer):
    task = swag.load(folder(tmp_path), tokenizer, 32)
    train = task.splits["train"]
    assert (train.rows, len(train), train.labels.tolist()) == (4, 2, [0, 3])
    rows = [tokenizer.decode(train.features.ids[a:b]) for a, b in zip(*_bounds(train.features), strict=True)]
    assert rows[1] == "[CLS] a man sits. [SEP] he eats a cat, twice. [SEP]"
    assert rows[4] == "[CLS] two dogs bark. [SEP] they run. [SEP]"
    outputs = np.array([[0, 1, 0, 0], [0, 0, 0, 2]], np.float32)
    assert task.score(train, outputs) == {"accuracy": 0.5}
    first, second = task.predictions(train, outputs)
    assert (first["choice"], second["choice"]) == (1, 3) and sum(first["probabilities"]) == pytest.approx(1)


def _bounds(features):
    return features.offsets[:-1], features.offsets[1:]


def test_tables_and_test_examples_without_labels(tmp_path, tokenizer):
    rows = [{"sent1": "a", "sent2": "b", "ending0": "c", "ending1": "d"} for _ in range(3)]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps(row | {"label": 1}) for row in rows))
    config = TaskConfig("swag", str(tmp_path / "train.jsonl"), test=str(tmp_path / "test.jsonl"))
    task = swag.load(config, tokenizer, 32)
    assert task.splits["train"].rows == 2 and task.splits["test"].labels is None and task.scored_splits() == []


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([ROWS[0].replace(",0", ",4")], HEADER, "line 2: the label is '4': expected 0 to 3"),
        ([ROWS[0].replace(",0", ",-1")], HEADER, "line 2: the label is '-1': expected 0 to 3"),
        ([ROWS[0]], HEADER.replace("sent2", "other"), "line 2: has no column 'sent2'"),
        (["a,b,0"], "sent1,sent2,label", "line 2: 0 endings (ending0, ending1 ...): expected 2 or more"),
        (ROWS[:1], HEADER.replace("label", "gold"), "line 2: the label is None: expected 0 to 3"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, tokenizer, rows, header, message):
    with pytest.raises(UserError) as told:
        swag.load(folder(tmp_path, rows, header), tokenizer, 32)
    assert message in str(told.value)


def test_a_folder_without_its_files_is_refused(tmp_path, tokenizer):
    with pytest.raises(UserError, match=r"has none of train.csv, val.csv, test.csv"):
        swag.load(TaskConfig("swag", str(tmp_path)), tokenizer, 32)
