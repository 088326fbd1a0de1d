"""Similarity of sentences: the published figures of real weights on real pairs."""

import json

import pytest

from bert_jax.errors import UserError
from bert_jax.tasks.sts import read_pairs
from tests.e2e.conftest import run_here


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "spearman", "count"), [("original/sts-test.tsv", 0.8203, 1379), ("dev.tsv", 0.8672, 1500)]
)
def test_minilm_on_the_sts_benchmark(shared_data, minilm, capsys, file, spearman, count):
    path = shared_data / "glue" / "STS-B" / file
    assert run_here("evaluate", "--task=sts", f"--checkpoint={minilm}", f"--data={path}", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["spearman"] == pytest.approx(spearman, abs=5e-4) and figures["examples"] == count


def test_both_layouts_and_what_is_neither(tmp_path):
    own, glue, wrong = (tmp_path / name for name in ("own.tsv", "dev.tsv", "wrong.tsv"))
    own.write_text('g\tf\ty\t1\t2.5\tA "b\tc\tx\ty\n')
    glue.write_text('index\tsentence1\tsentence2\tscore\n0\tA "b\tc\t2.5\n')
    assert read_pairs(own) == read_pairs(glue) == (['A "b'], ["c"], [2.5])
    wrong.write_text("a\tb\tc\n")
    with pytest.raises(UserError, match=r"wrong\.tsv, line 1: is no pair of the STS benchmark"):
        read_pairs(wrong)
    with pytest.raises(UserError, match="no such file"):
        read_pairs(tmp_path)
