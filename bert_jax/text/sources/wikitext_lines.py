"""Paragraphs out of wikitext whose links, templates and tables are gone: what remains has its meaning by the line."""

import re

LIST_MARKS = "*#;"  # at the start of a line
TABLE_MARKS = "|!"  # rests of tables that were never opened

# Each begins with what is rare or a literal: that is what makes them fast.
_EMPTY_BRACKETS = re.compile(r"[(\[（][\s,;:–—]{0,20}[)\]）]")
_BRACKET_STARTS_EMPTY = re.compile(r"([(（]) ?[,;:][ ,;:]{0,10}")
_BRACKET_ENDS_EMPTY = re.compile(r"[,;:][ ,;:]{0,10}(?=[)）])")
_SPACE_BEFORE_STOP = re.compile(r" +(?=[,.;:](?:\s|$)|[)）])")
_SPACES = re.compile(r"  +")
_NAMED_SPACE = re.compile(r"&(?:nbsp|thinsp|ensp|emsp|#160|#xa0);", re.I)


def paragraphs(text: str) -> str:
    """One paragraph a line, a blank line where a heading was.

    Lines that follow one another are one paragraph, as MediaWiki shows them; an indented line is one by itself. List
    items, headings, rules and table rows are dropped, and so is a note such as `:''For other uses, see X''`: its
    indented line names a page and ends without a full stop.
    """
    sections: list[list[str]] = [[]]
    running: list[str] = []  # lines of the paragraph so far
    for line in _tidy(text).split("\n"):
        line = line.strip()
        mark = line[:1]
        if mark and mark not in "*#;:|!=-":
            running.append(line)
            continue
        if running:
            _add(sections[-1], " ".join(running))
            running = []
        if mark == "=" and line.endswith("="):
            sections.append([])
        elif mark == "-" and not line.startswith("----"):
            running.append(line)
        elif mark == "=":
            running.append(line)
        elif mark == ":":
            indented = line.lstrip(":*#; ")
            if line[len(line) - len(indented) - 1] in ": " and not set(line[: len(line) - len(indented)]) & set("*#;"):
                if indented.endswith((".", "!", "?", '"', "”", ",", ";")):
                    _add(sections[-1], indented)
    if running:
        _add(sections[-1], " ".join(running))
    return "\n\n".join("\n".join(section) for section in sections if section)


def _tidy(text: str) -> str:
    """Without the holes that dropped templates leave: empty brackets, spaces before a comma."""
    if "&" in text:
        text = _NAMED_SPACE.sub(" ", text)
    text = text.replace("\xa0", " ").replace("\t", " ")
    text = _BRACKET_STARTS_EMPTY.sub(r"\1", _EMPTY_BRACKETS.sub("", text))
    return _SPACE_BEFORE_STOP.sub("", _SPACES.sub(" ", _BRACKET_ENDS_EMPTY.sub("", text)))


def _add(section: list[str], paragraph: str) -> None:
    if any(map(str.isalnum, paragraph)):
        section.append(paragraph)
