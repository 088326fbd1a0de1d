"""Characters that a vocabulary lacks, in a table of names: many cannot be seen, or are drawn by no font."""

import unicodedata

from bert_jax.report.html import table
from bert_jax.report.read import is_count

_NAMELESS = {
    "Cc": "control character",
    "Co": "private use: means what its maker says",
    "Cs": "half of a surrogate pair: damaged text",
    "Cn": "not assigned",
}
_DOTTED_CIRCLE = "◌"  # carries a mark that stands on another character
MOST_SHOWN = 4  # of what should be a single character


def unknown_characters(entries):
    """A table of [character, count] entries; what is no such entry is left out, and "" where none is left."""
    rows = []
    for entry in filter(_is_understood, entries):
        characters, times = entry[0][:MOST_SHOWN], entry[1]
        points = " ".join(f"U+{ord(character):04X}" for character in characters)
        rows.append([_visible(characters), points, ", ".join(map(_name, characters)), f"{times:,}"])
    if not rows:
        return ""
    return table(rows, ["character", "code point", "Unicode name", "times"], "Most frequent unknown characters")


def _is_understood(entry):
    pair = isinstance(entry, list) and len(entry) == 2
    return pair and isinstance(entry[0], str) and entry[0] != "" and is_count(entry[1])


def _visible(text):
    category = unicodedata.category(text[0])
    if category[0] in "CZ":
        return "(not visible)"
    return _DOTTED_CIRCLE + text if category[0] == "M" else text


def _name(character):
    category = unicodedata.category(character)
    return unicodedata.name(character, None) or _NAMELESS.get(category, f"no name (category {category})")
