"""The page of prepared data: for each kind all that the report and the rows tell, and nothing that breaks it."""

import hashlib
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow_datasets as tfds
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.__main__ import main
from bert_jax.report import data_page
from bert_jax.report.examples import LABEL_WORDS
from bert_jax.report.masked_sample import draw_sample
from bert_jax.report.prepared import DataRecord, read_data_folder
from bert_jax.report.write import MARK, write_data_report
from tests.data.conftest import corpus
from tests.report.conftest import KINDS
from tests.report.html_page import HOSTILE, Page

LEGEND = 3  # marked words that say how to read the others
PAIRS = ("pairs", "sop", "packed pairs")


@pytest.fixture(scope="module")
def page_of_kind(data_of_kind, tmp_path_factory):
    """page_of_kind(name): (html, Page) of one of KINDS."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def of_kind(name):
        if name not in made:
            text = write_data_report(data_of_kind(name).path, folder / "page.html").read_text(encoding="utf-8")
            made[name] = text, Page(text)
        return made[name]

    return of_kind


def digests(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.name != "report.html"}


# --- what is on the page


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_needs_nothing_from_outside(kind, page_of_kind):
    text, page = page_of_kind(kind)
    assert "http:" not in text and "https:" not in text and "@import" not in text
    assert all(value.startswith("#") for name in ("src", "href", "xlink:href") for value in page.values(name))
    assert not {"script", "link", "iframe", "img", "object", "form"} & set(page.tags)
    assert page.tags.count("h2") == 6


@pytest.mark.parametrize("kind", KINDS)
def test_figures_of_the_report_are_shown(kind, page_of_kind, data_of_kind):
    words, report = page_of_kind(kind)[1].text, data_of_kind(kind).report
    for split in report["splits"].values():
        for name in ("documents", "examples", "tokens_in_rows", "next", "random", "in_order", "swapped", "pieces"):
            assert name not in split or f"{split[name]:,}" in words
    train, account = report["splits"]["train"], report["token_account"]
    assert f"fill rate (not padding) {100 * train['fill_rate']:.1f} %" in words
    assert f"tokens in {account['tokens_in']:,}" in words and f"= tokens in rows {account['tokens_out']:,}" in words
    assert "Lengths of the rows (train)" in words
    assert "Each line is a sentence." in words and "A blank line ends a document;" in words
    assert f"{report['documents']} documents (" in words and "No document was left out" in words
    assert ("NSP balance" in words) == (kind in ("pairs", "packed pairs"))
    assert ("SOP balance" in words) == (kind == "sop")


@pytest.mark.parametrize("kind", KINDS)
def test_ten_examples_show_every_token_and_what_became_of_it(kind, page_of_kind, data_of_kind):
    text, page = page_of_kind(kind)
    sample = draw_sample(data_of_kind(kind).path)
    shown = text[text.index("class='examples'") :].split("<div class='example'>")[1:]
    assert len(shown) == 10
    for row, html in zip(sample.rows, shown, strict=True):
        ruby = re.findall(r"<mark class=(\w+)><ruby>(.*?)<rp> \(</rp><rt>(.*?)</rt>", html)
        expected = []
        for was, now in zip(row.ids[row.is_masked], row.masked_ids[row.is_masked], strict=True):
            was, now = sample.tokenizer.tokens([was, now])
            outcome = ("kept", "kept") if was == now else ("random", f"random: {now}")
            expected.append((("hidden", "[MASK]") if now == "[MASK]" else outcome, was))
        assert [((kind_, over), was) for kind_, was, over in ruby] == expected
        texts = re.findall(r"<p dir=auto>.*?</p>", re.sub(r"<rp>.*?</rp></ruby>", "</ruby>", html))
        words = " ".join(Page(text).text for text in texts)
        tokens = [token for token in words.split() if token not in ("A", "B")]
        assert tokens == sample.tokenizer.tokens(row.ids[row.ids != 0])
    assert page.tags.count("mark") == LEGEND + sum(int(row.is_masked.sum()) for row in sample.rows)


@pytest.mark.parametrize("kind", KINDS)
def test_segments_pieces_and_labels_are_told_by_letters_numbers_and_words(kind, page_of_kind, data_of_kind):
    text, page = page_of_kind(kind)
    rows = draw_sample(data_of_kind(kind).path).rows
    n_pieces = sum(1 if row.segment_ids is None else int(row.segment_ids.max()) for row in rows)
    for letter in "AB":
        tags = text.count(f"<b class='tag seg-{letter.lower()}'>{letter}</b>")
        assert tags == (n_pieces + 1 if kind in PAIRS else 0)  # and one that explains it
    numbers = [int(number) for number in re.findall(r"<b class='tag'>piece (\d+)</b>", text)]
    expected = [n for row in rows if row.segment_ids is not None for n in range(1, int(row.segment_ids.max()) + 1)]
    assert numbers == expected
    for name, words in LABEL_WORDS.items():
        assert page.text.count(words) == sum(row.labels.count(name) for row in rows)


def test_what_was_left_out_skipped_and_unknown_comes_after_the_warnings(prepare_text, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "a.txt").write_text(
        corpus(rng, 60) + "\nw1 ☃ 漢 ☃.\n\n" + "\n\n".join(["w1 w2 w3 w4 w5."] * 5) + "\n\nw1."
    )
    (tmp_path / "b.txt").write_text(corpus(rng, 60))
    (tmp_path / "c.txt").write_bytes(b"w1 w2 w3 w4 w5 w6.\n\n\xff\n")
    sources = [(tmp_path / f"{name}.txt", weight) for name, weight in (("a", 3), ("b", 1), ("c", 0.001))]
    prepared = prepare_text(
        "unused", sources=tuple(f"{path},weight={weight}" for path, weight in sources), held_out=0.1,
        on_error="skip", duplicates="exact", least_characters=8,
    )  # fmt: skip
    report, words = prepared.report, Page(write_data_report(prepared.path).read_text()).text
    assert report["warnings"] and 0 < words.index(report["warnings"][0]) < words.index("Text made ready to pretrain")
    assert f"equal to an earlier document {report['left_out']['duplicates']}" in words
    assert f"shorter than the least length asked for {report['left_out']['too short']}" in words
    assert "unreadable (places in the text) 1" in words and "No document was left out" not in words
    assert f"c.txt: byte 0xff at offset {len('w1 w2 w3 w4 w5 w6.') + 2} is not UTF-8" in words
    for path, _ in sources:
        share = report["share_taken_of_sources"][str(path)]
        shown = f"{100 * share:.1f} %" if share >= 0.01 else ""
        assert f"{path} {report['words_of_sources'][str(path)]:,} {shown}" in words
    assert "☃ U+2603 SNOWMAN 2" in words and "漢 U+6F22 CJK UNIFIED IDEOGRAPH-6F22 1" in words


def test_a_long_row_is_cut_where_it_is_shown(prepare_text):
    prepared = prepare_text("\n".join(["w1 w2 w3 w4."] * 800), length=2000, kind="packed", held_out=0.0)
    words = Page(write_data_report(prepared.path).read_text()).text
    assert "Row 0: 2,000 tokens and no padding; 300 to guess" in words and "… and 976 tokens more" in words


# --- the folder and the command


def test_nothing_else_in_the_folder_is_touched(data_of_kind, tmp_path, capsys):
    folder = tmp_path / "data"
    shutil.copytree(data_of_kind("pairs").path, folder)
    before, times = digests(folder), {path: path.stat().st_mtime_ns for path in digests(folder)}
    for _ in range(2):
        assert main(["report", f"--data={folder}"]) == 0
        assert capsys.readouterr().out == f"report: {folder / 'report.html'}\n"
    assert digests(folder) == before and {path: path.stat().st_mtime_ns for path in before} == times
    assert {path for path in folder.rglob("*") if path.is_file()} == {*before, folder / "report.html"}
    assert tfds.builder_from_directory(str(folder)).info.splits["train"].num_examples > 0
    (folder / "report.html").write_text("irreplaceable")
    assert main(["report", f"--data={folder}"]) == 2
    assert "no report of ours" in capsys.readouterr().err and (folder / "report.html").read_text() == "irreplaceable"
    assert main(["report", f"--data={folder}", f"--out={tmp_path / 'page.html'}"]) == 0
    assert "Prepared data:" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "expected one of --workdir=DIR (a run) and --data=DIR (prepared data), found neither"),
        (["--workdir=x", "--data=y"], "found both"),
        (["--data=/no/such"], "--data /no/such: no such folder"),
        (["--data=FILE"], "is a file"),
        (["--data=EMPTY"], "holds no prepared data, expected report.json and preparation.json"),
    ],
)
def test_a_mistake_is_told_in_a_line(flags, message, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    places = {"FILE": str(tmp_path / "file"), "EMPTY": str(tmp_path / "empty")}
    flags = [re.sub("FILE|EMPTY", lambda found: places[found[0]], flag) for flag in flags]
    assert main(["report", *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not list(tmp_path.rglob("report.html*"))


# --- old, foreign and damaged


def test_what_is_missing_or_damaged_is_told_and_the_rest_shown(data_of_kind, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(data_of_kind("pairs").path, folder)
    shard = next(folder.glob("*train.array_record*"))
    shard.write_bytes(bytes(shard.stat().st_size))
    words = Page(write_data_report(folder).read_text()).text
    assert "Examples cannot be shown" in words and "Account of the tokens" in words and "Row 0" not in words
    (folder / "report.json").write_text("[1]")
    words = Page(write_data_report(folder).read_text()).text
    assert "holds a JSON list, expected a dict" in words and "All that decides the output" in words
    (folder / "report.json").unlink()
    assert "There is no report.json" in Page(write_data_report(folder).read_text()).text
    (folder / "preparation.json").write_text("{")
    (folder / "report.json").write_text(json.dumps({"documents": 3, "examples": 7, "warnings": ["old"]}))
    words = Page(write_data_report(folder).read_text()).text
    assert "not readable as JSON" in words and "examples) 7" in words and "Warnings old" in words
    (folder / "preparation.json").unlink()
    assert "There is no preparation.json" in Page(write_data_report(folder).read_text()).text


@pytest.mark.parametrize("content", [{}, {"length": "x"}, {"kind": [], "origin": {"settings": {"pieces": 3}}}])
def test_foreign_settings_are_told(content, data_of_kind, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(data_of_kind("packed documents").path, folder)
    (folder / "preparation.json").write_text(json.dumps(content))
    assert "Examples cannot be shown" in Page(write_data_report(folder).read_text()).text


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(HOSTILE)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_no_report_breaks_the_page(data_of_kind, data):
    """Any value in the place of any other, at any depth."""
    record = read_data_folder_once(data_of_kind("pairs").path)
    report = json.loads(json.dumps(record.report))
    for _ in range(data.draw(st.integers(1, 4))):
        part = report
        for _ in range(data.draw(st.integers(0, 3))):
            inner = [value for value in part.values() if isinstance(value, dict) and value]
            part = data.draw(st.sampled_from(inner)) if inner else part
        name = data.draw(st.sampled_from([*part, "unknown_characters", "skipped", HOSTILE]))
        part[name] = data.draw(JSON)
    names = st.sampled_from(["kind", "length", "origin"])
    preparation = data.draw(st.just(record.preparation) | st.dictionaries(names, JSON))
    page = Page(data_page.make_page(DataRecord("data", report, preparation, None, []), MARK))
    assert not {"script", "img"} & set(page.tags) and not [name for name, _ in page.attributes if name.startswith("on")]


_read = {}


def read_data_folder_once(path):
    if path not in _read:
        _read[path] = read_data_folder(path)
    return _read[path]
