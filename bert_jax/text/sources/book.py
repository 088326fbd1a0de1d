"""Books as plain text or Markdown, without what is not the book: one book is one document.

A text file is taken for a book where its source says `kind=book`, or where its first 64 KB hold Project Gutenberg's
START line (or the header of its older small print), or begin with the lines `# Title:` and `## Author:` of the classic
books in Markdown. Any other .txt or .md is read as plain text.
Removed: the licence of Project Gutenberg before and after the book, who produced it, header blocks, rules, images, the
marks of Markdown (headings, emphasis, quotes, links, escapes). The words of headings stay: in a book they are few.
"""

import re
from collections.abc import Iterator

from bert_jax.text.sources.compressed import CHUNK_BYTES, GAP
from bert_jax.text.sources.lines import clean_newlines, decode_lines, line_blocks
from bert_jax.text.sources.plain import joined
from bert_jax.text.sources.source import Report, TextFile, require_whole

# Patterns for lines begin with the newline before, which is twenty times faster than `^`; the text gets one in front.
_PG = r"(?:(?:THE|THIS)\s+)?PROJECT\s+GUTENBERG"
# The title in it may go over several lines.
_START = re.compile(rf"\n\*\*\*[ \t]*START\s+OF\s+{_PG}[^*]{{0,400}}\*\*\*[^\n]*", re.I)
_END = re.compile(rf"\n(?:\*\*\*\s*END\s+OF\s+{_PG}|End\s+of\s+(?:the\s+)?Project\s+Gutenberg(?:'s|\s+E))", re.I)
# Before 2002: the header ends with a line such as *END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*
_SMALL_PRINT = re.compile(r"\n\*END[ *]*THE SMALL PRINT![^\n]*")
_OLD_HEADER = re.compile(r"Project\s+Gutenberg(?:'s)?\s+E-?text|THE SMALL PRINT!", re.I)
OLD_HEADER_CHARACTERS = 20_000  # that far down the small print may begin, and may end twice as far
_PRODUCED = re.compile(
    r"\A\s*(?:Produced|E-?text prepared|This e-?text was (?:prepared|produced)|Transcribed|HTML version) [^\n]*"
    r"(?:\n[^\n]+)*\n",
    re.I,
)
_HEADER = re.compile(r"\A\s*# Title:[^\n]*\n\s*## Author:[^\n]*\n(?:\s*#+ [A-Z][\w ]*:[^\n]*\n)*\s*-{3,}[ \t]*(?=\n)")
_HEADER_START = re.compile(r"\A\ufeff?\s*# Title:[^\n]*\n\s*## Author:")

_RULE = re.compile(r"\n[ \t]*(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:=[ \t]*){3,}|#+[ \t]*)(?=\n|\Z)")
_HEADING = re.compile(r"\n[ \t]{0,3}#{1,9}[ \t]+([^\n]*)")
_QUOTE = re.compile(r"\n[ \t]{0,3}(?:>[ \t]?)+")
_IMAGE = re.compile(r"!\[[^\]\n]{0,500}\]\([^)\n]{0,2000}\)")
_ILLUSTRATION = re.compile(r"\[Illustration(?::[^\]]{0,2000})?\]")
_LINK = re.compile(r"\[([^\]\[\n]{1,500})\]\([^)\s]{1,2000}\)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
# What is escaped is no mark: it is spelt with the private use area until the marks are gone.
_HIDDEN = {mark: chr(0xF700 + mark) for mark in range(33, 127)}
_SHOWN = {0xF700 + mark: chr(mark) for mark in range(33, 127)}


def _emphasis(mark: str) -> re.Pattern:
    """A pair of marks around text of one paragraph that neither begins nor ends with a space."""
    quoted, one = re.escape(mark), mark[0]
    inside = rf"(?=\S)([^{one}\n]{{1,500}}(?:\n(?!\s*\n)[^{one}\n]{{1,500}}){{0,20}})(?<=\S)"
    return re.compile(rf"{quoted}(?<![\w{one}]{quoted}){inside}{quoted}(?![\w{one}])")


# Old books emphasize a part of a word, too: _un_reasonable.
_EMPHASIS = [*map(_emphasis, ("***", "**", "*", "___", "__", "_")), re.compile(r"_([^\W_]{1,40})_")]


def read_book(file: TextFile, report: Report, chunk_bytes: int = CHUNK_BYTES) -> Iterator[str]:
    """The book in the file, or nothing where the file holds only whitespace or is cut off."""
    require_whole(file)
    parts = []
    for block in line_blocks(file, report, chunk_bytes):
        if block is GAP:
            return
        parts.append(decode_lines(*block, file.path, report, clean_newlines))
    yield from joined([clean_book("".join(parts))])


def is_book(head: str) -> bool:
    """Whether the beginning of a text file (64 KB) is that of a book."""
    if _HEADER_START.match(head) or _START.search("\n" + head):
        return True
    return bool(_OLD_HEADER.search(head, 0, OLD_HEADER_CHARACTERS))


def clean_book(text: str) -> str:
    """The text of the book, without licence, header and Markdown; lines stay as they are wrapped."""
    text = _HEADER.sub("", _without_licence("\n" + text), count=1)
    escapes = "\\" in text
    if escapes:
        text = _ESCAPE.sub(lambda match: match[1].translate(_HIDDEN), text)
    text = _LINK.sub(r"\1", _IMAGE.sub("", _ILLUSTRATION.sub("", text)))
    text = _HEADING.sub(_heading_text, _RULE.sub("\n", text))
    if ">" in text:
        text = _QUOTE.sub("\n", text)
    for emphasis in _EMPHASIS:
        text = emphasis.sub(r"\1", text)
    return text.translate(_SHOWN) if escapes else text


def _heading_text(match: re.Match) -> str:
    return "\n" + match[1].strip(" \t#")


def _without_licence(text: str) -> str:
    if start := _START.search(text):
        text = text[start.end() :]
    # The small print of old books may also stand after a START line.
    if small := _SMALL_PRINT.search(text, 0, 2 * OLD_HEADER_CHARACTERS):
        text = text[small.end() :]
    if start or small:
        text = _PRODUCED.sub("\n", text, count=1)
    end = _END.search(text)
    return text[: end.start()] if end else text
