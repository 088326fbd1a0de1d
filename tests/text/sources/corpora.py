"""Small corpora of each kind, and the real ones where they are."""

import bz2
import gzip
import lzma
import random
import tarfile

import zstandard

from bert_jax.text.documents import find_files, read_documents

COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}


def write(path, data):
    """Writes a file (bytes or text) and returns it as found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return find_files([str(path)])[0]


def read_all(file, **settings):
    """(documents, what was reported) with everything skipped that cannot be read."""
    reported = []
    return list(read_documents(file, on_error=reported.append, **settings)), reported


def documents_of_parts(path, part_bytes, separator="blank_line", **settings):
    """Documents of each part of a file, a list a part."""
    parts = find_files([str(path)], part_bytes, separator)
    return [list(read_documents(part, separator, **settings)) for part in parts]


def flat(parts):
    return [document for part in parts for document in part]


def random_words(seed, n_words):
    """Words that do not compress to nothing."""
    draw = random.Random(seed)
    return " ".join("".join(draw.choices("abcdefghijklmnop", k=draw.randint(1, 9))) for _ in range(n_words))


def dump_page(title, text, namespace="0", extra="", model="wikitext"):
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (
        f"  <page>\n    <title>{title}</title>\n    <ns>{namespace}</ns>\n    <id>7</id>\n{extra}    <revision>\n"
        f'      <model>{model}</model>\n      <text xml:space="preserve">{escaped}</text>\n    </revision>\n  </page>\n'
    )


DUMP_HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="de">
  <siteinfo>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
DUMP_END = "</mediawiki>\n"


def unpacked(shared_data, tmp_path_factory, name):
    """Folder of an archive of the real data."""
    folder = tmp_path_factory.mktemp(name)
    with tarfile.open(shared_data / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder
