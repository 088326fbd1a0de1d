"""Prose out of wikitext, in one pass and linear time, however the markup is nested or broken.

Why not a library: the two that do this are mwparserfromhell (0.64 MB/s a core on the real dump, and it leaves the text
of references and captions, so that more work would follow) and wikiextractor (4.5 MB/s, under the AGPL, which a package
under the Apache licence cannot depend on); this does 8 to 10. Both take quadratic time for a few kilobytes of unclosed
tags. 20 GB of wikitext are 9 core-hours with the first.

What is kept is what BERT's authors kept, "only the text passages", ignoring "lists, tables, and headers" (Devlin et al.
2019, section 3.1): paragraphs, also indented ones; not lists, headings, tables, references, templates other than those
in `wikitext_templates` that stand for words, files and their captions, categories, galleries, formulas and code.

The scanner: one regular expression finds every mark that opens or closes something; a stack holds what is open, each
frame the text inside it so far. A closing mark ends the nearest open thing of its kind, and whatever was opened inside
and not closed ends with it. What is still open at the end was no markup, and its text counts as text.
"""

import html
import re
from collections.abc import Mapping

from bert_jax.text.sources.wikitext_lines import paragraphs
from bert_jax.text.sources.wikitext_templates import template_text

FILE_KEY, CATEGORY_KEY = 6, 14
DEFAULT_NAMESPACES = {"file": FILE_KEY, "image": FILE_KEY, "media": FILE_KEY, "category": CATEGORY_KEY}
# Text is copied once for each level that it is inside of; MediaWiki itself stops at 40 templates in one another.
DEEPEST = 60
# Marks that open a pair are matched at most so far: an unclosed tag costs this much, not the rest of the page.
LONGEST_TAG = 2000

# Elements that go with all they hold.
DROPPED = (
    "ref math chem ce gallery timeline table source syntaxhighlight code pre score imagemap hiero graph mapframe "
    "maplink templatestyles references includeonly style script ul ol categorytree inputbox indicator section"
).split()

# Every alternative begins with a literal: twice as fast as with a look at what stands before. Whether a table's mark
# begins its line is seen afterwards.
_MARKS = re.compile(
    r"\[\[|\]\]|\{\{+|\}\}+|\{\||\|\}(?!\})"
    rf"|<(/?)([a-zA-Z][a-zA-Z0-9]*)(?=[\s/>])[^<>]{{0,{LONGEST_TAG}}}>"
)
_NOWIKI, _NOWIKI_END = re.compile(r"<nowiki ?(/?)>"), "</nowiki>"
# Marks inside <nowiki> are spelt with characters of the private use area until the end.
_HIDDEN = {ord(mark): 0xF700 + ord(mark) for mark in "[]{}<>|'*#:;=!_&"}
_SHOWN = {hidden: mark for mark, hidden in _HIDDEN.items()}
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:|mailto:|news:|irc:)?//[^\s\]\[<>]{1,2000}[ \t]*([^\]\[\n]{0,1000})\]")
_QUOTES = re.compile(r"''+")
_POSSESSIVE = re.compile(r"''(?<!''')([^'\n]{1,200})'''(?=s\b)")
_MAGIC_WORD = re.compile(r"__[A-Z]{3,30}__")
_LANGUAGE_LINK = re.compile(r"(?:[a-z]{2,3}|simple|[a-z]{2,3}-[a-z-]{2,10})")
_PIPE_TRICK = re.compile(r"\s*[(（][^()（）]*[)）]$|,[^,]*$")


# What closes it ('}}', ']]', '|}' or the name of an element), and the text inside it so far.
_Frame = tuple[str, list[str]]


class Wikitext:
    """Cleans the pages of one dump.

    namespaces: lower-case name -> key, as the dump's header gives them: German files and categories have their own.
    """

    def __init__(self, namespaces: Mapping[str, int] | None = None):
        self._namespaces = DEFAULT_NAMESPACES | dict(namespaces or {})

    def prose(self, wikitext: str) -> str:
        """The paragraphs of a page, one a line, a blank line between sections; '' where it has none."""
        text = _without_comments(wikitext)
        if "<nowiki" in text:
            text = _hide_nowiki(text)
        text = self._scan(text)
        text = _EXTERNAL.sub(r"\1", text)
        text = _QUOTES.sub(_apostrophes, _POSSESSIVE.sub(r"\1'", text))
        if "__" in text:
            text = _MAGIC_WORD.sub("", text)
        text = paragraphs(text)
        if "&" in text:
            text = html.unescape(text)
        return text.translate(_SHOWN) if "<nowiki" in wikitext else text

    def _scan(self, text: str) -> str:
        """The text outside of what is dropped, with links and templates turned into text."""
        stack: list[_Frame] = [("", [])]
        opened: dict[str, int] = {}  # how many frames of each kind are in the stack
        at = 0
        for match in _MARKS.finditer(text):
            start, end = match.span()
            mark, element = match[0], match[2]
            if element is None and "|" in mark and not _begins_line(text, start):
                continue
            if start > at:
                stack[-1][1].append(text[at:start])
            at = end
            if element is not None:
                self._element(mark, element.lower(), stack, opened)
            elif mark == "[[":
                _open("]]", stack, opened)
            elif mark == "{|":
                _open("|}", stack, opened)
            elif mark[0] == "{":
                for _ in range(len(mark) // 2):
                    _open("}}", stack, opened)
            elif mark[0] == "}":
                for _ in range(min(len(mark) // 2, opened.get("}}", 0))):
                    self._close("}}", stack, opened)
            else:
                self._close(mark, stack, opened)
        stack[-1][1].append(text[at:])
        return "".join(piece for kind, pieces in stack if kind != "|}" for piece in pieces)

    def _element(self, mark: str, name: str, stack: list[_Frame], opened: dict[str, int]) -> None:
        if name in _DROPPED_SET:
            if mark[1] == "/":
                self._close(name, stack, opened)
            elif mark[-2] != "/":
                _open(name, stack, opened)
        elif name == "br":
            stack[-1][1].append(" ")
        elif name in _BLOCKS:
            stack[-1][1].append("\n")

    def _close(self, kind: str, stack: list[_Frame], opened: dict[str, int]) -> None:
        if not opened.get(kind):
            return
        inner, pieces = stack.pop()
        while inner != kind:
            opened[inner] -= 1
            if inner in ("]]", "}}"):  # not closed, so it was no markup
                stack[-1][1].extend(pieces)
            inner, pieces = stack.pop()
        opened[kind] -= 1
        if kind == "]]":
            stack[-1][1].append(self._link("".join(pieces)))
        elif kind == "}}":
            stack[-1][1].append(template_text("".join(pieces)))

    def _link(self, inside: str) -> str:
        """What a reader sees of [[inside]]."""
        target, bar, label = inside.partition("|")
        if target.startswith(":"):
            target = target[1:]
        elif ":" in target:
            prefix = target.partition(":")[0].strip().lower()
            if self._namespaces.get(prefix) in (FILE_KEY, CATEGORY_KEY):
                return ""
            if not bar and _LANGUAGE_LINK.fullmatch(prefix):
                return ""
        if not bar:
            return target.strip() if "\n" not in target else target
        label = label.rpartition("|")[2]
        return label or _PIPE_TRICK.sub("", target.rpartition(":")[2])


_DROPPED_SET = frozenset(DROPPED)
_BLOCKS = frozenset("p div blockquote center poem tr li dd dt dl h1 h2 h3 h4 h5 h6 hr".split())


def _open(kind: str, stack: list[_Frame], opened: dict[str, int]) -> None:
    if len(stack) < DEEPEST:
        stack.append((kind, []))
        opened[kind] = opened.get(kind, 0) + 1


def _begins_line(text: str, at: int) -> bool:
    """Whether only indentation stands before `at` on its line; of that, some characters are looked at."""
    before = text[max(0, at - 10) : at].rstrip(" \t:")
    return before.endswith("\n") or (not before and at <= 10)


def _apostrophes(match: re.Match) -> str:
    """Two mark italics, three bold, five both; what is more stands for itself."""
    length = len(match[0])
    return "'" * {2: 0, 3: 0, 4: 1}.get(length, length - 5)


def _hide_nowiki(text: str) -> str:
    kept, at = [], 0
    for match in _NOWIKI.finditer(text):
        if match.start() < at:  # inside the one before
            continue
        kept.append(text[at : match.start()])
        at = match.end()
        if not match[1]:
            end = text.find(_NOWIKI_END, at)
            if end < 0:
                break
            kept.append(text[at:end].translate(_HIDDEN))
            at = end + len(_NOWIKI_END)
    return "".join((*kept, text[at:]))


def _without_comments(text: str) -> str:
    """An unclosed comment goes to the end of the page, as in MediaWiki."""
    if "<!--" not in text:
        return text
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0:
        kept.append(text[at:start])
        end = text.find("-->", start + 4)
        if end < 0:
            return "".join(kept)
        at = end + 3
    return "".join((*kept, text[at:]))
