"""Preparation from end to end: what comes out, what is reported, what is refused."""

import hashlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from bert_jax.__main__ import main
from bert_jax.data import prepare as prepare_module
from bert_jax.data import storage
from bert_jax.data.prepare import PrepareConfig, prepare
from bert_jax.errors import UserError
from tests.data.conftest import corpus, files_of, rows_of, texts_of

# --- what comes out


def test_rows_hold_the_text(prepare_text):
    prepared = prepare_text("W1 w2.\nw3 w4 w5.\n\nw6.\nw7 w8.\nw9.\n", held_out=0.0)
    texts = texts_of(prepared, "train")
    assert all(text.startswith("[CLS] w") and text.count("[SEP]") == 2 for text in texts)
    assert {word for text in texts for word in text.split() if word.startswith("w")} == {f"w{i}" for i in range(1, 10)}
    assert prepared.length == 32 and prepared.vocab_size == 306
    assert prepared.special_ids == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


def test_every_kind_of_source_gives_examples(tmp_path, vocabulary):
    text = corpus(np.random.default_rng(0), 8)
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text(text)
    (tmp_path / "in" / "deep" / "b.jsonl").write_text(
        "\n".join(json.dumps({"title": "t", "extract": document}) for document in text.split("\n\n"))
    )
    config = PrepareConfig((str(tmp_path / "in"),), str(vocabulary), str(tmp_path / "out"), 32, text_field="extract")
    prepared = prepare(config)
    assert prepared.report["documents"] == 16
    assert prepared.report["files"] == 2


def test_vocabularies_beyond_uint16_are_stored_as_int32(tmp_path, prepare_text):
    vocabulary = tmp_path / "large.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(70_000))]))
    prepared = prepare_text("w65530 w65531\nw65532\n\nw69999 w1\nw2", tokenizer=str(vocabulary), held_out=0.0)
    ids = rows_of(prepared)["input_ids"]
    assert ids.dtype == np.int32 and ids.max() == 70_004


def test_held_out_documents_are_disjoint_also_where_text_is_repeated(prepare_text):
    """cases H3: every document has words of its own, and half of the documents are there twice."""
    documents = [f"w{i} w{i}.\nw{i} w{i} w{i}." for i in range(100)]
    prepared = prepare_text("\n\n".join(documents + documents[:50]), held_out=0.2)
    words = {split: set(re.findall(r"w\d+", " ".join(texts_of(prepared, split)))) for split in storage.SPLITS}
    assert not words["train"] & words["validation"]
    assert len(words["train"] | words["validation"]) == 100
    assert 5 <= len(words["validation"]) <= 40
    report = prepared.report["splits"]
    assert report["train"]["documents"] + report["validation"]["documents"] == 150


@pytest.mark.parametrize(("n_documents", "n_held_out"), [(2, 1), (5, 1), (10, 2)])
def test_few_documents_leave_some_for_each_split(prepare_text, n_documents, n_held_out):
    text = corpus(np.random.default_rng(1), n_documents, most_sentences=9) + "\nw1.\nw2."
    prepared = prepare_text(text, held_out=1e-6, block_bytes=64)
    assert prepared.report["splits"]["validation"]["documents"] == n_held_out
    assert prepared.report["splits"]["train"]["documents"] == n_documents - n_held_out


def test_passes_pair_the_text_anew(prepare_text):
    text = corpus(np.random.default_rng(0), 30)
    once, twice = prepare_text(text, "once"), prepare_text(text, "twice", passes=3)
    assert 2.7 < twice.size("train") / once.size("train") < 3.3
    assert twice.report["token_account"]["tokens_in"] == 3 * once.report["token_account"]["tokens_in"]
    rows = {row.tobytes() for row in rows_of(twice)["input_ids"]}
    assert len(rows) > 2 * once.size("train")
    assert twice.report["splits"]["validation"]["documents"] == once.report["splits"]["validation"]["documents"]


# --- what the report says


def test_the_report_counts_what_is_in_the_rows(prepare_text):
    prepared = prepare_text(corpus(np.random.default_rng(0), 100) + "\nunknownword.", held_out=0.1, passes=2)
    report = prepared.report
    for split in storage.SPLITS:
        rows, part = rows_of(prepared, split), report["splits"][split]
        tokens = rows["input_ids"][rows["input_ids"] > 3]
        assert part["tokens_in_rows"] == len(tokens) or 1 in rows["input_ids"]
        lengths = (rows["input_ids"] != 0).sum(1)
        assert part["fill_rate"] == pytest.approx(lengths.mean() / 32)
        assert part["examples"] == len(lengths) == sum(part["lengths"]["examples"]) == part["next"] + part["random"]
        expected = np.histogram(lengths, np.array(part["lengths"]["edges"]) + 1)[0]  # edges[i] < length
        assert part["lengths"]["examples"] == expected.tolist()
        assert part["random"] == rows["next_sentence_label"].sum()
        counts = np.bincount(rows["input_ids"].ravel(), minlength=306)
        counts[[0, 2, 3]] = 0
        share = counts[counts > 0] / counts.sum()
        assert part["unigram_entropy"] == pytest.approx(-(share * np.log(share)).sum())
        if split == "train":
            np.testing.assert_array_equal(prepared.unigram(), counts)
    assert report["unknown_token_share"] == pytest.approx(1 / report["tokens"])
    account = report["token_account"]
    assert account["tokens_out"] == sum(report["splits"][split]["tokens_in_rows"] for split in storage.SPLITS)


def test_a_wrong_vocabulary_is_warned_of(prepare_text):
    prepared = prepare_text("eins zwei drei.\nvier.\n\nfuenf.\nsechs sieben.", held_out=0.0)
    assert any("tokens are unknown to the vocabulary" in line for line in prepared.report["warnings"])


# --- existing output, bad input


def test_the_same_command_again_finds_the_work_done(prepare_text):
    text = corpus(np.random.default_rng(0), 20)
    first = prepare_text(text)
    before = {path: path.stat().st_mtime_ns for path in first.path.rglob("*")}
    lines = []
    again = prepare_text(text, log=lines.append, workers=2)
    assert again.preparation == first.preparation
    assert {path: path.stat().st_mtime_ns for path in first.path.rglob("*")} == before
    assert "nothing to do" in lines[-1]


def test_other_text_settings_or_tokenizer_are_refused_and_nothing_is_touched(prepare_text, tmp_path, vocabulary):
    text = corpus(np.random.default_rng(0), 20)
    before = files_of(prepare_text(text).path)
    other_vocabulary = tmp_path / "other.txt"
    other_vocabulary.write_text(vocabulary.read_text() + "more\n")
    for other_text, settings, reason in (
        (text, {"length": 64}, "length 32 there, 64 asked for"),
        (text, {"seed": 1, "passes": 2}, "passes 1 there, 2 asked for; seed 0 there, 1 asked for"),
        (text + "w1", {}, "the text of the sources is another"),
        (text, {"tokenizer": str(other_vocabulary)}, "the tokenizer is another"),
    ):
        with pytest.raises(UserError, match=f"out: holds other prepared data: {reason}"):
            prepare_text(other_text, **settings)
        assert files_of(tmp_path / "out") == before


def test_an_output_that_is_something_else_is_refused(prepare_text, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("irreplaceable")
    with pytest.raises(UserError, match="out: exists and is not prepared data"):
        prepare_text("w1.\nw2.\n\nw3.\nw4.")
    assert (tmp_path / "out" / "thesis.tex").read_text() == "irreplaceable"
    assert not (tmp_path / "out.partial").exists()


def test_an_interrupted_preparation_leaves_nothing_that_looks_finished(prepare_text, tmp_path, monkeypatch):
    text = corpus(np.random.default_rng(0), 20)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "publish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare_text(text)
    assert not (tmp_path / "out").exists()
    # What the next run does not expect there must not get into the data.
    (tmp_path / "out.partial" / "train-00000.part").write_text("half a shard")
    prepared = prepare_text(text)
    assert not any(path.suffix == ".part" for path in prepared.path.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.txt"]


def test_two_preparations_of_one_output_do_not_mix(prepare_text, tmp_path):
    from bert_jax.data.output_folder import partial_folder

    with (
        partial_folder(tmp_path / "out", print),
        pytest.raises(UserError, match="another preparation is writing it now"),
    ):
        prepare_text("w1.\nw2.\n\nw3.\nw4.")


def test_too_little_text_is_a_clear_error(prepare_text, tmp_path):
    with pytest.raises(UserError, match="too little text for one example: 1 documents, 1 sentences, 2 tokens"):
        prepare_text("w1.")
    with pytest.raises(UserError, match="no document with text"):
        prepare_text("\n \n\n")
    with pytest.raises(UserError, match="holds no text"):
        prepare_text("")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 7}, "length: found 7, expected 8 to 65536"),
        ({"held_out": 1.0}, "held_out: found 1.0, expected 0 to 0.9"),
        ({"passes": 0}, "passes: found 0"),
        ({"workers": 0}, "workers: found 0"),
        ({"separator": "tab"}, "separator: found 'tab', expected one of blank_line, file, line"),
        ({"out": "gs://bucket/out"}, "expected a local folder"),
        ({"sources": ("/no/such/folder",)}, "/no/such/folder"),
    ],
)
def test_values_that_make_no_sense_are_named(prepare_text, settings, message):
    with pytest.raises(UserError, match=re.escape(message)):
        prepare_text("w1.\nw2.\n\nw3.\nw4.", **settings)


def test_an_unwritable_output_is_a_clear_error(prepare_text, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file.*: cannot be written \(Not a directory|File exists"):
        prepare_text("w1.\nw2.\n\nw3.\nw4.", out=str(tmp_path / "file" / "out"))


def test_a_disk_that_fills_up_in_a_worker_is_a_clear_error(prepare_text, tmp_path, monkeypatch):
    def full(task):
        raise OSError(28, "No space left on device", "spilled/run-0")

    monkeypatch.setattr("bert_jax.data.stages.spill", full)
    with pytest.raises(UserError, match=r"spilled/run-0: cannot be written .No space left on device"):
        prepare_text("w1.\nw2.\n\nw3.\nw4.")
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_text_that_is_not_utf8_is_named_also_from_a_worker(prepare_text, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"w1.\nw2.\n\n\xff\n" + b"w1.\n" * 1000)
    with pytest.raises(UserError, match=r"bad.txt: byte 0xff at offset 9 is not UTF-8"):
        prepare_text("w1.", sources=(str(tmp_path / "bad.txt"),), workers=2, block_bytes=1000)
    assert not (tmp_path / "out").exists()


# --- the verb


def test_the_verb_prints_what_is_there_and_errors_in_one_line(tmp_path, vocabulary, capsys):
    source = tmp_path / "text.txt"
    source.write_text(corpus(np.random.default_rng(0), 20))
    arguments = ["prepare", f"--source={source}", f"--tokenizer={vocabulary}", f"--out={tmp_path / 'out'}"]
    options = ["--length=32", "--passes=2", "--held_out=0.2", "--sentence_per_line", "--cased", "--workers=1"]
    assert main(arguments + options) == 0
    printed = capsys.readouterr()
    prepared = storage.open_prepared(tmp_path / "out")
    assert f"train: {prepared.size('train')} examples of 32 tokens" in printed.out
    assert f"prepared data: {tmp_path / 'out'}" in printed.out
    assert "MB/s" in printed.err
    assert prepared.preparation["origin"]["settings"]["lower_case"] is False
    assert prepared.preparation["origin"]["settings"]["passes"] == 2
    assert main([*arguments, "--length=64"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "holds other prepared data" in error


def test_preparation_imports_none_of_the_heavy_libraries(tmp_path, vocabulary):
    source = tmp_path / "text.txt"
    source.write_text(corpus(np.random.default_rng(0), 20))
    program = (
        "import sys\n"
        "from bert_jax.data.prepare import PrepareConfig, prepare\n"
        "prepare(PrepareConfig((sys.argv[1],), sys.argv[2], sys.argv[3], 32))\n"
        "print({'jax', 'torch', 'tensorflow', 'tensorflow_datasets', 'grain'} & set(sys.modules))\n"
    )
    arguments = [str(source), str(vocabulary), str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_shards_are_what_they_were(prepare_text):
    """Golden: a change here changes every user's data for the same seed; only a change of the recipe may do that."""
    prepared = prepare_text(corpus(np.random.default_rng(0), 50), held_out=0.1, passes=2)
    rows = rows_of(prepared)
    digest = hashlib.sha256(rows["input_ids"].tobytes() + rows["next_sentence_label"].tobytes()).hexdigest()
    assert digest[:16] == "45a87c8095b83186"
