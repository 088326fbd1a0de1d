"""The table of unknown characters: each by sight, code point and name, and nothing that is no character."""

import unicodedata

import pytest

from bert_jax.report.characters import unknown_characters
from tests.report.html_page import HOSTILE, Page


@pytest.mark.parametrize(
    ("character", "words"),
    [
        ("é", "é U+00E9 LATIN SMALL LETTER E WITH ACUTE 1,234"),
        ("𓀀", "𓀀 U+13000 EGYPTIAN HIEROGLYPH A001 1,234"),
        ("\u0301", "◌\u0301 U+0301 COMBINING ACUTE ACCENT 1,234"),
        ("\u200d", "(not visible) U+200D ZERO WIDTH JOINER 1,234"),
        ("\u3000", "(not visible) U+3000 IDEOGRAPHIC SPACE 1,234"),
        ("\x07", "(not visible) U+0007 control character 1,234"),
        ("\ue000", "(not visible) U+E000 private use: means what its maker says 1,234"),
        ("\u0378", "(not visible) U+0378 not assigned 1,234"),
        ("\ud800", "(not visible) U+D800 half of a surrogate pair: damaged text 1,234"),
        ("<", "< U+003C LESS-THAN SIGN 1,234"),
    ],
)
def test_a_character_has_code_point_and_name(character, words):
    assert words in Page(unknown_characters([[character, 1234]])).text


def test_entries_keep_their_order_and_all_of_unicode_is_shown():
    every = [chr(point) for point in range(0, 0x110000, 97)]
    page = Page(unknown_characters([[character, 1] for character in every]))
    assert page.tags.count("tr") == len(every) + 1
    names = [unicodedata.name(character, "") for character in every[:2000]]
    places = [page.text.index(f" {name} ") for name in names if name and names.count(name) == 1]
    assert places == sorted(places) and len(places) > 1000


def test_what_is_no_entry_is_left_out():
    foreign = [None, 3, "x", [], ["a"], ["", 1], [7, 7], ["a", "b"], ["a", -1], ["a", True], {"a": 1}, ["a", 1, 2]]
    assert unknown_characters(foreign) == ""
    page = Page(unknown_characters([*foreign, ["z", 2], [HOSTILE, 5]]))
    assert page.tags.count("tr") == 3 and "U+007A" in page.text and "script" not in page.tags
