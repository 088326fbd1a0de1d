"""The zip for the GLUE benchmark's site."""

import json
import zipfile

import pytest

from bert_jax.errors import UserError
from bert_jax.tasks.submission import FILES, add_run


def predicted(folder, split, lines):
    (folder / "predictions").mkdir(exist_ok=True)
    (folder / "predictions" / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_words_codes_and_clipped_scores(tmp_path):
    """Cases F3 and F4: names, header and words of the benchmark; similarity within 0 to 5."""
    predicted(tmp_path, "test", [{"label": "entailment"}, {"label": "not_entailment"}] * 73)
    add_run(tmp_path, "wnli", tmp_path / "out.zip")
    predicted(tmp_path, "test", [{"score": 5.3}, {"score": -0.2}, *[{"score": 1.23456}] * 1377])
    add_run(tmp_path, "stsb", tmp_path / "out.zip")
    predicted(tmp_path, "test", [{"label": "not_entailment"}] * 3000)
    told = add_run(tmp_path, "rte", tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        content = {name: archive.read(name).decode().split("\n") for name in archive.namelist()}
    assert sorted(content) == ["RTE.tsv", "STS-B.tsv", "WNLI.tsv"]
    assert content["WNLI.tsv"][:3] == ["index\tprediction", "0\t1", "1\t0"]
    assert content["STS-B.tsv"][1:4] == ["0\t5.000", "1\t0.000", "2\t1.235"] and len(content["STS-B.tsv"]) == 1381
    assert content["RTE.tsv"][1] == "0\tnot_entailment"
    assert "RTE.tsv, STS-B.tsv, WNLI.tsv; not there yet: CoLA.tsv" in told and "AX.tsv" in told


def test_there_is_a_file_for_each_task_of_the_benchmark():
    names = [name for files in FILES.values() for name, _ in files.values()]
    assert sorted(names) == [
        *("AX.tsv", "CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "MRPC.tsv", "QNLI.tsv", "QQP.tsv"),
        *("RTE.tsv", "SST-2.tsv", "STS-B.tsv", "WNLI.tsv"),
    ]


def test_parts_of_a_test_set_are_refused(tmp_path):
    predicted(tmp_path, "test", [{"label": "entailment"}] * 145)
    with pytest.raises(UserError, match="has 145 predictions: the benchmark expects 146"):
        add_run(tmp_path, "wnli", tmp_path / "out.zip")
    with pytest.raises(UserError, match=r"test_matched.jsonl is missing"):
        add_run(tmp_path, "mnli", tmp_path / "out.zip")
    with pytest.raises(UserError, match="classify is no task of GLUE"):
        add_run(tmp_path, "classify", tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()
