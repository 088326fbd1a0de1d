"""GLUE's files: published counts on the real ones, and every fault in one line."""

import dataclasses

import numpy as np
import pytest

from bert_jax.errors import UserError
from bert_jax.model.task_heads import HeadConfig
from bert_jax.tasks.glue import LAYOUTS, load, read_tsv
from bert_jax.tasks.load import load_task
from bert_jax.tasks.submission import FILES
from bert_jax.tasks.task import TaskConfig
from bert_jax.text.tokenizer import load_tokenizer
from tests.e2e.conftest import vocabulary

# Published sizes (Wang et al. 2019, and the data sets' own pages), where the real files are here.
COUNTS = {
    "cola": {"train": 8551, "validation": 1043, "test": 1063},
    "sst2": {"train": 67349, "validation": 872, "test": 1821},
    "mrpc": {"train": 3668, "validation": 408, "test": 1725},
    "stsb": {"train": 5749, "validation": 1500, "test": 1379},
    "qnli": {"validation": 5463, "test": 5463},
    "rte": {"train": 2490, "validation": 277, "test": 3000},
    "wnli": {"train": 635, "validation": 71, "test": 146},
}


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(vocabulary())


@pytest.mark.parametrize("name", COUNTS)
def test_the_real_files_have_the_published_sizes(shared_data, tokenizer, name):
    task = load(TaskConfig(name, str(shared_data / "glue")), tokenizer, 16)
    assert {split: len(part) for split, part in task.splits.items()} == COUNTS[name]
    for split, part in task.splits.items():
        assert (part.labels is None) == (split == "test")
    assert task.scored_splits() == ["validation"] and len(task.splits["test"]) == FILES[name]["test"][1]
    if name == "stsb":
        assert task.head.kind == "regress" and 0 <= task.splits["train"].labels.min() and task.head.labels == ()
    else:  # no class is rarer than a tenth
        assert np.bincount(task.splits["validation"].labels).min() > len(task.splits["validation"]) / 10


def test_real_files_with_all_their_columns(shared_data):
    """MNLI has 12 or more columns with parses, QQP 6: text and label come from those of their names."""
    folder = shared_data / "glue_subsets" / "kshot-16-original-format"
    mnli = read_tsv(folder / "MNLI" / "train-13.tsv", LAYOUTS["mnli"], True, None, [])
    assert len(mnli.first) == 48 and sorted(set(mnli.labels)) == ["contradiction", "entailment", "neutral"]
    assert not any("( " in text for text in mnli.first)  # not the parse
    qqp = read_tsv(folder / "QQP" / "train-13.tsv", LAYOUTS["qqp"], True, None, [])
    assert len(qqp.first) == 32 and set(qqp.labels) == {"not_duplicate", "duplicate"} and "?" in qqp.second[0]


def write(folder, name, lines):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join("\t".join(line) for line in lines) + "\n")


@pytest.fixture
def rte(tmp_path):
    header = ["index", "sentence1", "sentence2", "label"]
    write(tmp_path / "RTE", "train.tsv", [header, ["0", 'a "b', "c", "entailment"], ["1", "d", "e", "not_entailment"]])
    write(tmp_path / "RTE", "dev.tsv", [header, ["7", "d", 'e "', "not_entailment"], ["9", "", "c", "entailment"]])
    return tmp_path


def test_labels_are_read_in_the_order_of_a_tuned_model(rte, tokenizer):
    """Case F1: another order, spelt otherwise; and names that say nothing stand for the benchmark's order."""
    config = TaskConfig("rte", str(rte))
    assert load(config, tokenizer, 16).splits["validation"].labels.tolist() == [1, 0]
    other = load(config, tokenizer, 16, HeadConfig("classify", ("Not Entailment", "ENTAILMENT")))
    assert other.splits["validation"].labels.tolist() == [0, 1]
    unnamed = load(config, tokenizer, 16, HeadConfig("classify", ("LABEL_0", "LABEL_1")))
    assert unnamed.splits["validation"].labels.tolist() == [1, 0]
    assert unnamed.remarks == ("the model's labels have no names: taken as entailment, not_entailment",)
    with pytest.raises(UserError, match="RTE has the labels entailment, not_entailment: the model has x, y"):
        load(config, tokenizer, 16, HeadConfig("classify", ("x", "y")))
    with pytest.raises(UserError, match="rte needs a head of kind 'classify': the model has 'regress'"):
        load(config, tokenizer, 16, HeadConfig("regress"))


def test_scores_and_predictions_follow_the_file(rte, tokenizer):
    task = load(TaskConfig("rte", str(rte / "RTE")), tokenizer, 16)
    split, outputs = task.splits["validation"], np.array([[0.0, 2.0], [0.0, 1.0]], np.float32)
    assert task.score(split, outputs) == {"accuracy": 0.5} and task.main == "accuracy"
    first, second = task.predictions(split, outputs)
    assert (first["index"], first["label"], second["index"]) == ("7", "not_entailment", "9")
    assert first["probabilities"]["not_entailment"] == pytest.approx(1 / (1 + np.exp(-2)))


def test_both_sets_of_mnli_and_the_diagnostic_one(tmp_path, tokenizer):
    """Case F7."""
    header = ["index", "sentence1", "sentence2", "label1", "gold_label"]
    for name in ("train", "dev_matched", "dev_mismatched"):
        write(tmp_path / "MNLI", f"{name}.tsv", [header, ["0", "a", "b", "neutral", "contradiction"]])
    for name in ("test_matched", "test_mismatched"):
        write(tmp_path / "MNLI", f"{name}.tsv", [header[:3], ["0", "a", "b"]])
    write(tmp_path / "diagnostic", "diagnostic.tsv", [header[:3], ["0", "a", "b"]])
    task = load(TaskConfig("mnli", str(tmp_path)), tokenizer, 16)
    assert list(task.splits) == [
        *("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched", "ax")
    ]
    assert task.scored_splits() == ["validation_matched", "validation_mismatched"]
    assert task.splits["validation_matched"].labels.tolist() == [2]


def test_short_rows_of_qqp_are_skipped_and_counted(tmp_path):
    header = ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"]
    write(
        tmp_path, "train.tsv", [header, ["0", "1", "2", "a", "b", "1"], ["3", "4", "5"], ["6", "7", "8", "c", "d", "0"]]
    )
    remarks = []
    texts = read_tsv(tmp_path / "train.tsv", LAYOUTS["qqp"], True, None, remarks)
    assert texts.first == ["a", "c"] and remarks == ["train.tsv: 1 rows with too few columns are skipped"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([["index", "sentence1", "label"], ["0", "a", "entailment"]], "has no column 'sentence2': found index, sent"),
        ([["index", "sentence1", "sentence2", "label"], ["0", "a", "b"]], r"dev.tsv, line 2: 3 columns: expected 4"),
        (
            [["index", "sentence1", "sentence2", "label"], ["0", "a", "b", "1"]],
            "line 2: the label is '1': expected one",
        ),
        ([["index", "sentence1", "sentence2", "label"]], "the split validation has no examples"),
    ],
)
def test_faults_of_files_are_told_with_their_line(rte, tokenizer, lines, message):
    write(rte / "RTE", "dev.tsv", lines)
    with pytest.raises(UserError, match=message):
        load(TaskConfig("rte", str(rte)), tokenizer, 16)


def test_what_is_not_there_is_told(tmp_path, tokenizer):
    config = TaskConfig("rte", str(tmp_path / "none"))
    with pytest.raises(UserError, match="expected the folder of the GLUE download, with RTE/"):
        load_task(config, tokenizer, 16)
    (tmp_path / "RTE").mkdir()
    with pytest.raises(UserError, match=r"has none of train.tsv, dev.tsv"):
        load_task(dataclasses.replace(config, data=str(tmp_path)), tokenizer, 16)
    with pytest.raises(UserError, match="no such setting; the nearest is mrpc"):
        load_task(TaskConfig("mprc", "x"), tokenizer, 16)
    with pytest.raises(UserError, match=r"config.task.data is empty"):
        load_task(TaskConfig("mrpc"), tokenizer, 16)
