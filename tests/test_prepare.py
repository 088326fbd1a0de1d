"""The verb `prepare`: recipes and flags, and what is said where one is missing."""

from pathlib import Path

import numpy as np
import pytest

from bert_jax.__main__ import main
from bert_jax.data.storage import open_prepared
from tests.data.conftest import corpus, vocabulary  # noqa: F401

RECIPES = sorted(Path("configs/data").glob("*.py"))


@pytest.fixture
def sources(tmp_path):
    for number, name in enumerate(("wiki", "books")):
        (tmp_path / f"{name}.txt").write_text(corpus(np.random.default_rng(number), 60))
    return [f"--source={tmp_path / 'wiki.txt'},weight=2.5", f"--source={tmp_path / 'books.txt'},weight=0.8"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_prepares_the_users_sources(recipe, sources, tmp_path, vocabulary):  # noqa: F811
    out = tmp_path / "out"
    flags = [f"--config={recipe}:debug", f"--tokenizer={vocabulary}", f"--out={out}", "--workers=1"]
    assert main(["prepare", *flags, *sources]) == 0
    prepared = open_prepared(out)
    assert prepared.length == int(recipe.stem.rsplit("_", 1)[1])
    assert prepared.report["token_account"]["passes"] == 2
    rates = prepared.report["share_taken_of_sources"]
    assert rates[str(tmp_path / "wiki.txt")] == 1.0 and rates[str(tmp_path / "books.txt")] < 0.5


def test_flags_go_before_the_recipe(sources, tmp_path, vocabulary):  # noqa: F811
    flags = [f"--tokenizer={vocabulary}", f"--out={tmp_path / 'out'}", "--workers=1", "--length=16", "--kind=sop"]
    assert main(["prepare", "--config=configs/data/wikibooks_128.py:debug", *flags, *sources]) == 0
    prepared = open_prepared(tmp_path / "out")
    assert (prepared.length, prepared.kind) == (16, "sop")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--source: expected one, found none"),
        (["--source=x", "--tokenizer=y", "--out=z"], "--length: expected one, found none"),
        (["--config=configs/data/none.py"], "--config=configs/data/none.py: no such file"),
        (["--config=configs/data/wikibooks_128.py:fast"], "argument 'fast': expected debug or nothing"),
        (["--config=configs/bert_tiny.py"], "no such setting"),
    ],
)
def test_what_is_missing_or_unknown_is_named(flags, message, capsys):
    assert main(["prepare", *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize("flag", ["--on_error", "--on-error"])
def test_what_cannot_be_read_stops_the_verb_or_is_skipped_and_told(flag, tmp_path, vocabulary, capsys):  # noqa: F811
    text = corpus(np.random.default_rng(0), 20).encode()
    (tmp_path / "text.txt").write_bytes(text + b"\n\nw1 \xff w2.\n")
    flags = [
        f"--source={tmp_path / 'text.txt'}",
        f"--tokenizer={vocabulary}",
        f"--out={tmp_path / 'out'}",
        "--length=32",
    ]
    assert main(["prepare", *flags, "--workers=1"]) == 2
    assert f"byte 0xff at offset {len(text) + 5} is not UTF-8" in capsys.readouterr().err
    assert main(["prepare", *flags, "--workers=1", f"{flag}=skip"]) == 0
    assert "warning: what could not be read is left out, 1 place" in capsys.readouterr().out
    assert open_prepared(tmp_path / "out").report["left_out"] == {"unreadable": 1}
