"""Preparation against the public cases: what users of such software hit, part A."""

import re
import subprocess
import sys

import numpy as np
import pytest

from tests.data.conftest import PEAK_KILOBYTES, corpus, files_of, rows_of, texts_of


def test_a2_output_does_not_depend_on_the_number_of_workers(prepare_text):
    text = corpus(np.random.default_rng(0), 300)
    lines = []
    one = prepare_text(text, "one", workers=1, block_bytes=10_000)
    four = prepare_text(text, "four", workers=4, block_bytes=10_000, log=lines.append)
    theirs, ours = files_of(one.path), files_of(four.path)
    # The corpus was written twice, under two names.
    for contents in (theirs, ours):
        contents["preparation.json"] = re.sub(rb"(one|four)\.txt", b"", contents["preparation.json"])
    assert ours == theirs
    assert sum(name.startswith("pairs-train") for name in ours) >= 4
    assert any(re.search(r"preparing: [\d.]+ of [\d.]+ MB, [\d.]+ MB/s", line) for line in lines)


def test_a20_tiny_corpora_account_for_every_token(prepare_text):
    for n_tokens in (10, 511, 512, 513):
        # Sentences of 5 tokens: 4 words and the full stop.
        sentences = [f"w{i} w1 w2 w3." for i in range(n_tokens // 5)] + ["w1"] * (n_tokens % 5)
        prepared = prepare_text("\n".join(sentences), f"tiny{n_tokens}", length=512)
        account = prepared.report["token_account"]
        ids = rows_of(prepared)["input_ids"]
        assert len(ids) >= 1 and ids.shape[1] == 512
        assert account["tokens_in"] == prepared.report["tokens"] == n_tokens
        assert n_tokens + account["borrowed"] == (
            account["tokens_out"] + account["truncated"] + account["without_partner"]
        )
        assert (ids > 3).sum() == account["tokens_out"]  # the rest are [PAD], [CLS] and [SEP]


def test_a7_a9_what_is_empty_after_tokenization_is_dropped_and_counted(prepare_text):
    zero_width = "\u200d\u200d"
    text = f"w1 w2.\n{zero_width}\nw3.\n\n{zero_width}\n\nw4.\nw5 w6.\n\n{zero_width}\n{zero_width}\n"
    prepared = prepare_text(text, held_out=0.0)
    assert prepared.report["dropped"]["empty_documents"] == 2
    assert prepared.report["dropped"]["empty_sentences"] == 4
    assert prepared.report["documents"] == 2 and prepared.report["sentences"] == 4
    for text in texts_of(prepared, "train"):
        first, second, _ = text.split("[SEP]")
        assert "w" in first and "w" in second


def test_a10_one_document_has_true_next_sentences_only(prepare_text):
    prepared = prepare_text("\n".join(f"w{i} w{i + 1} w{i + 2}." for i in range(100)))
    assert (rows_of(prepared)["next_sentence_label"] == 0).all()
    assert prepared.report["splits"]["train"]["random"] == 0
    assert any("single document: no random next sentence exists" in line for line in prepared.report["warnings"])
    assert any("nothing is held out" in line for line in prepared.report["warnings"])


def test_a11_a_blank_line_after_every_sentence_is_warned_of(prepare_text):
    sentences = [f"w{i} w{i + 1}." for i in range(198)] + ["w1 w2.\nw3 w4.", "w5 w6.\nw7 w8."]
    prepared = prepare_text("\n\n".join(sentences))
    (warning,) = [line for line in prepared.report["warnings"] if "NSP" in line]
    assert warning.startswith("99 % of documents have one sentence: NSP has")
    assert "a blank line ends a document" in warning
    none = prepare_text("\n\n".join(sentences[:100]), "none")
    assert any("100 % of documents have one sentence: NSP has no positive pairs" in w for w in none.report["warnings"])


def test_a22_shards_are_different_and_each_example_is_in_one(prepare_text):
    prepared = prepare_text(corpus(np.random.default_rng(0), 200), block_bytes=5_000)
    shards = [shard for shard in prepared.shards if shard.split == "train"]
    assert len(shards) >= 5
    assert len({shard.sha256 for shard in prepared.shards}) == len(prepared.shards)
    ids = rows_of(prepared)["input_ids"]
    ends = np.cumsum([shard.examples for shard in shards])
    sets = [{row.tobytes() for row in part} for part in np.split(ids, ends[:-1])]
    assert len(set().union(*sets)) == sum(map(len, sets))


def test_a23_repeated_lines_are_reported(prepare_text):
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{w}" for w in rng.integers(0, 300, 12)) + "." for _ in range(700)]
    lines += [lines[i] for i in rng.integers(0, 700, 300)]
    rng.shuffle(lines)
    text = "\n\n".join("\n".join(lines[i : i + 10]) for i in range(0, 1000, 10))
    prepared = prepare_text(text, block_bytes=5_000)
    assert len(prepared.shards) > 5  # copies are found across blocks
    assert prepared.report["duplicate_sentence_share"] == pytest.approx(0.3)
    assert any("30 % of sentences repeat an earlier one" in line for line in prepared.report["warnings"])


def test_a29_the_report_says_which_rules_ran(prepare_text):
    text = corpus(np.random.default_rng(0), 5)
    prepared = prepare_text(text, separator="line", sentence_per_line=False, language="de", held_out=0.0)
    rules = " / ".join(prepared.report["rules"])
    assert "each line is a document" in rules and "split by sentencex (language 'de')" in rules
    assert "cut at a token, also inside a sentence" in rules


@pytest.mark.slow
def test_a1_memory_does_not_grow_with_the_corpus(tmp_path, vocabulary):
    """20 MB and 200 MB of text: peak resident memory within 1.2 times, shards there before the end."""
    rng = np.random.default_rng(0)
    peaks = []
    for megabytes in (20, 200):
        source = tmp_path / f"{megabytes}"
        source.mkdir()
        piece = corpus(rng, 4000)
        for number in range(megabytes * 10**6 // len(piece)):
            (source / f"{number:03d}.txt").write_text(piece.replace("w1", f"w{number % 300}"))
        program = (
            "import sys, pathlib\n"
            "from bert_jax.data.prepare import PrepareConfig, prepare\n"
            "seen = set()\n"
            "def log(line): seen.update(p.name for p in pathlib.Path(sys.argv[3] + '.partial').glob('work/*.part'))\n"
            "prepare(PrepareConfig((sys.argv[1],), sys.argv[2], sys.argv[3], 128, block_bytes=4 << 20,"
            " sentence_per_line=True), log)\n"
            f"print({PEAK_KILOBYTES}, len(seen))\n"
        )
        arguments = [str(source), str(vocabulary), str(tmp_path / f"out{megabytes}")]
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
        peak, shards_seen = map(int, done.stdout.split())
        peaks.append(peak)
    assert shards_seen > 10
    assert peaks[1] <= 1.2 * peaks[0], peaks


def test_unknown_characters_are_told_with_the_most_frequent_first(prepare_text):
    prepared = prepare_text("w1 ж w2.\nжж и w3.\n\nw4 w5.\nи unheard.", held_out=0.0)
    told = dict(prepared.report["unknown_characters"])
    assert told["ж"] == 3 and told["и"] == 2 and "." not in told
    assert [count for _, count in prepared.report["unknown_characters"]] == sorted(told.values(), reverse=True)
