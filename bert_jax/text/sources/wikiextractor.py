"""Articles of WikiExtractor's output: `<doc id= url= title=>` lines, the article's text, `</doc>`.

BERT's authors took "only the text passages and ignore lists, tables, and headers" (Devlin et al. 2019, section 3.1), so
the title, which WikiExtractor repeats as the first line, and the headings, which it writes as "Heading.", are dropped.
A heading carries no mark: `is_heading` is a rule. On 106 articles of the real shards, against the headings in the
wikitext of the same articles, it finds 590 of 597, and about one in a hundred lines that it takes is a short sentence.
"""

import html
import re
from collections.abc import Iterator
from functools import partial

from bert_jax.text.sources.compressed import CHUNK_BYTES, GAP
from bert_jax.text.sources.lines import clean_newlines, decode_lines, line_blocks
from bert_jax.text.sources.source import Report, TextFile

HEADING_CHARACTERS, HEADING_WORDS = 80, 9

_MARK = re.compile(r"\n(?:<doc [^\n]*>[ \t]*(?=\n|\Z)|</doc>)")
_TITLE = re.compile(r'\stitle="(.*?)"(?=\s+\w+="|>)')
_INNER_STOP = re.compile(r'[.?!;"]')


def read_wikiextractor(file: TextFile, report: Report, chunk_bytes: int = CHUNK_BYTES) -> Iterator[str]:
    """The text of each article, a paragraph a line. One without a paragraph is yielded as '', to be counted.

    An article that is not closed, and text outside of articles, are reported and left out.
    """
    article: list[str] | None = None  # pieces of the text since `<doc`; None outside
    title, number, known = "", 0, True  # known: what is outside of articles is to be reported
    for block in line_blocks(file, report, chunk_bytes):
        if block is GAP:
            article, known = None, False
            continue
        text = "\n" + decode_lines(*block, file.path, report, clean_newlines).removesuffix("\n")
        at = 0
        for mark in _MARK.finditer(text):
            where = partial(_where, file, number, text, mark.start())
            before = text[at : mark.start()]
            at = mark.end()
            if article is not None:
                article.append(before)
            elif known and not before.isspace() and before:
                report(f"{where()}: text outside of <doc ...> and </doc>")
            if mark[0] == "\n</doc>":
                if article is not None:
                    yield _document("".join(article), title)
                elif known:
                    report(f"{where()}: </doc> without <doc ...>")
                article = None
            else:
                if article is not None:
                    report(f"{where()}: article {title!r} is not closed before the next")
                found = _TITLE.search(mark[0])
                article, title = [], html.unescape(found[1]) if found else ""
            known = True
        rest = text[at:]
        if article is not None:
            article.append(rest)
        elif known and rest and not rest.isspace():
            report(f"{_where(file, number, text, at)}: text outside of <doc ...> and </doc>")
            known = False  # said once for each stretch
        number += text.count("\n")
    if article is not None:
        report(f"{file.path}: ends inside article {title!r}: expected </doc>")


def is_heading(line: str) -> bool:
    """Whether a line of WikiExtractor is a heading: a few words and one full stop, at the end."""
    return (
        len(line) <= HEADING_CHARACTERS
        and line.endswith(".")
        and line.count(" ") < HEADING_WORDS
        and not _INNER_STOP.search(line, 0, len(line) - 1)
    )


def _where(file: TextFile, number: int, text: str, at: int) -> str:
    line = number + text.count("\n", 0, at + 1)
    return f"{file.path}, line {line}" + (f" from offset {file.start}" if file.start else "")


def _document(text: str, title: str) -> str:
    if "&" in text:
        text = html.unescape(text)
    lines = [line for line in text.split("\n") if line]
    if lines and lines[0] == title:
        del lines[0]
    return "\n".join(line for line in lines if len(line) > HEADING_CHARACTERS or not is_heading(line))
