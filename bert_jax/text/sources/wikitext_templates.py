"""Templates that stand for words of a sentence. All others (infoboxes, citations, navigation) stand for nothing."""

import re
from collections.abc import Callable

Arguments = tuple[list[str], dict[str, str]]  # by position, by name

_NAMED = re.compile(r"\s*([A-Za-z][\w -]{0,40}|\d{1,2})\s*=(.*)", re.S)
_LANGUAGE = re.compile(r"lang-[a-z-]{2,12}")
_MONTHS = "January February March April May June July August September October November December".split()


def template_text(inside: str) -> str:
    """What a reader sees of {{inside}}: templates and links inside it have been turned into text already."""
    name, _, rest = inside.partition("|")
    name = name.strip().replace("_", " ").lower()
    show = _TEMPLATES.get(name)
    if show is None and _LANGUAGE.fullmatch(name):
        show = _first
    return show(*_arguments(rest)) if show else ""


def _arguments(rest: str) -> Arguments:
    by_position, by_name = [], {}
    for argument in rest.split("|"):
        match = _NAMED.fullmatch(argument)
        if not match:
            by_position.append(argument.strip())
        elif match[1].isdigit():
            by_position.append(match[2].strip())
        else:
            by_name[match[1].strip().lower()] = match[2].strip()
    return by_position, by_name


def _first(by_position: list[str], by_name: dict[str, str]) -> str:
    return by_position[0] if by_position else ""


def _second(by_position: list[str], by_name: dict[str, str]) -> str:
    return by_position[1] if len(by_position) > 1 else ""


def _last(by_position: list[str], by_name: dict[str, str]) -> str:
    return by_position[-1] if by_position else ""


def _quotation(by_position: list[str], by_name: dict[str, str]) -> str:
    text = by_name.get("text") or by_name.get("quote") or _first(by_position, by_name)
    return f"\n{text}\n"


def _measure(by_position: list[str], by_name: dict[str, str]) -> str:
    """`{{convert|5|km|mi}}` shows the first measure; a range has a word such as 'to' between its ends."""
    if len(by_position) >= 4 and by_position[1] in ("to", "-", "–", "and", "or", "by", "x"):
        return " ".join(by_position[:4])
    return " ".join(by_position[:2])


def _as_of(by_position: list[str], by_name: dict[str, str]) -> str:
    """`{{As of|2010|3|5}}` is 'As of 5 March 2010'."""
    words = "as of" if by_name.get("lc") else "As of"
    year, month, day = (*by_position, "", "", "")[:3]
    month = _MONTHS[int(month) - 1] if month.isdigit() and 1 <= int(month) <= 12 else month
    return " ".join(part for part in (words, day, month, year) if part)


def _circa(by_position: list[str], by_name: dict[str, str]) -> str:
    return "c. " + " – c. ".join(by_position[:2]) if by_position and by_position[0] else "c."


def _fraction(by_position: list[str], by_name: dict[str, str]) -> str:
    if len(by_position) == 3:
        return f"{by_position[0]} {by_position[1]}/{by_position[2]}"
    return "/".join(by_position[:2])


def _constant(text: str) -> Callable[[list[str], dict[str, str]], str]:
    return lambda by_position, by_name: text


def _table(names: str, show: Callable[[list[str], dict[str, str]], str]) -> dict:
    return {name.strip(): show for name in names.split(",")}


_TEMPLATES = {
    **_table("nowrap, nobr, nobold, small, smaller, big, larger, sic, smallcaps, sc, abbr, tooltip, angbr", _first),
    **_table("formatnum:, em, strong, var, italics, ill, interlanguage link, ship, visible anchor, vanchor", _first),
    **_table("lang, transl, transliteration, script, color, colour, font color, rtl-lang, nihongo-inline", _second),
    **_table("zh, unicode, polytonic, my, iast, okina-text", _first),
    **_table("quote, blockquote, cquote, block quote, quotation, quotebox, rquote, centered pull quote", _quotation),
    **_table("convert, cvt, val", _measure),
    **_table("as of, asof", _as_of),
    **_table("circa, c., ca, ca.", _circa),
    **_table("frac, fraction, sfrac", _fraction),
    **_table("ndash, en dash", _constant("–")),
    **_table("mdash, em dash", _constant("—")),
    **_table("spaced ndash, snd, spnd, spaced en dash, dash", _constant(" – ")),
    **_table("nbsp, space, thinsp, spaces, thin space", _constant(" ")),
    **_table("', apostrophe", _constant("'")),
    **_table("'s", _constant("'s")),
    **_table("=", _constant("=")),
    **_table("okina, hamza", _constant("ʻ")),
}
