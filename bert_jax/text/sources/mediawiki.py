"""Articles of a MediaWiki XML dump (pages-articles.xml, also .bz2 of one stream or many), as prose.

Read page by page: a dump escapes every `<` of its text, so the bytes `<page>` and `</page>` stand nowhere else, and a
page that is damaged costs only itself. Redirects, pages outside the main namespace and pages that are not wikitext are
passed over. The XML is parsed by expat, 150 MB/s; mwxml does 58 MB/s and cannot start in the middle of a dump.
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from bert_jax.text.sources.compressed import CHUNK_BYTES, GAP, read_head, read_pieces
from bert_jax.text.sources.source import Report, TextFile
from bert_jax.text.sources.wikitext import Wikitext

PAGE, PAGE_END = b"<page>", b"</page>"
DUMP_END = b"</mediawiki>"
HEADER_BYTES = 64 << 10

_NAMESPACE = re.compile(r'<namespace key="(-?\d+)"[^>/]*>([^<]*)</namespace>')
_REDIRECT = re.compile(r"\s*#\s*[^\s\[:]+\s*:?\s*\[\[")  # of dumps that have no <redirect/> element


def read_mediawiki(file: TextFile, report: Report, chunk_bytes: int = CHUNK_BYTES) -> Iterator[str]:
    """The prose of each article: paragraphs are lines, sections are set apart by a blank line.

    An article without prose is yielded as '', to be counted. A page that is not well-formed XML is reported.
    """
    namespaces = read_namespaces(file.path)
    wikitext = Wikitext(namespaces)
    for page, offset in _pages(file, report, chunk_bytes):
        where = f"{file.path}, page at offset {offset}" + (f" after byte {file.start}" if file.start else "")
        try:
            element = ElementTree.fromstring(page)
        except ElementTree.ParseError as error:
            report(f"{where}: is not well-formed XML ({error})")
            continue
        text = _article(element, namespaces)
        if text is not None:
            yield wikitext.prose(text)


def read_namespaces(path: str) -> dict[str, int]:
    """The namespaces that the dump's header lists: lower-case name -> key (6: files, 14: categories)."""
    try:
        header = read_head(path, HEADER_BYTES).decode(errors="replace")
    except OSError:
        return {}  # the reading says why
    return {name.lower(): int(key) for key, name in _NAMESPACE.findall(header) if name}


def _article(page: ElementTree.Element, namespaces: dict[str, int]) -> str | None:
    """The wikitext of a page that is an article, else None."""
    if page.find("redirect") is not None:
        return None
    key = page.findtext("ns")
    if key is None:  # dumps before version 0.6
        prefix = (page.findtext("title") or "").partition(":")[0].lower()
        key = str(namespaces.get(prefix, 0))
    revisions = page.findall("revision")
    if key.strip() != "0" or not revisions:
        return None
    if revisions[-1].findtext("model", "wikitext") != "wikitext":
        return None
    text = revisions[-1].findtext("text")
    return None if not text or _REDIRECT.match(text) else text


def _pages(file: TextFile, report: Report, chunk_bytes: int) -> Iterator[tuple[bytes, int]]:
    """(`<page>...</page>`, its offset in the decompressed part) of every page that is there to its end."""
    buffer, offset = bytearray(), 0  # offset: of buffer[0], in the decompressed part
    searched = 0  # no PAGE_END begins before
    found = False
    tail = b""
    for piece in read_pieces(file, report, chunk_bytes):
        if piece is GAP:
            buffer.clear()
            searched, tail, found = 0, DUMP_END, True  # what is missing has been said
            continue
        buffer += piece
        done = 0
        while (end := buffer.find(PAGE_END, max(searched, done))) >= 0:
            end += len(PAGE_END)
            start = buffer.rfind(PAGE, done, end)
            if start < 0:
                if not found:  # not after a gap, where it is the rest of a page
                    report(f"{file.path}: </page> near offset {offset + end} without <page>")
            else:
                found = True
                yield bytes(memoryview(buffer)[start:end]), offset + start
            done = end
        tail = (tail + piece)[-256:]
        del buffer[:done]
        offset += done
        searched = max(0, len(buffer) - len(PAGE_END))
    if buffer.find(PAGE) >= 0:
        report(f"{file.path}: the last page, at offset {offset + buffer.find(PAGE)}, is cut off: the dump is truncated")
    elif not file.is_part and not found and DUMP_END not in tail:
        report(f"{file.path}: holds no <page>: expected a MediaWiki XML dump")
    elif file.stop is None and DUMP_END not in tail:
        report(f"{file.path}: ends without {DUMP_END.decode()}: the dump is truncated")
