"""A small vocabulary of whole words, prepared data made with it, and what is in such data."""

import itertools
import json
import tarfile

import numpy as np
import pytest

from bert_jax.data import storage
from bert_jax.data.prepare import PrepareConfig, prepare
from bert_jax.text.sentences import split_sentences
from bert_jax.text.tokenizer import load_tokenizer
from tests.data.blocks import block_of

# The peak of resident memory in kB, for programs that tests run in a process of their own. Not getrusage's, which
# begins with what the parent had when it forked.
PEAK_KILOBYTES = "int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
N_WORDS = 300


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory):
    """Path of a vocab.txt: the special tokens, a full stop, and the words w0 to w299."""
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join([*SPECIALS, ".", *(f"w{i}" for i in range(N_WORDS))]) + "\n")
    return path


@pytest.fixture
def prepare_text(tmp_path, vocabulary):
    """prepare_text(text, **settings): the Prepared data of one file, one sentence a line, rows of 32 tokens."""

    def prepare_one(text, name="out", log=lambda line: None, **settings):
        source = tmp_path / f"{name}.txt"
        source.write_text(text)
        defaults = {"length": 32, "sentence_per_line": True, "fast": False}
        chosen = {"sources": (str(source),), "tokenizer": str(vocabulary), "out": str(tmp_path / name)}
        return prepare(PrepareConfig(**chosen | defaults | settings), log)

    return prepare_one


def corpus(rng, n_documents, most_sentences=20, most_words=15):
    """Random documents of random words, a blank line between them and a sentence a line."""
    return "\n\n".join(
        "\n".join(
            " ".join(f"w{w}" for w in rng.integers(0, N_WORDS, rng.integers(1, most_words + 1))) + "."
            for _ in range(rng.integers(1, most_sentences + 1))
        )
        for _ in range(n_documents)
    )


def files_of(folder):
    """Contents of all files, by their path; of the report, all but its times and the names of sources."""
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    report = json.loads(contents.pop("report.json"))
    del report["seconds"], report["megabytes_a_second"]
    report["words_of_sources"] = list(report["words_of_sources"].values())
    return contents | {"report.json": report}


def rows_of(prepared, split="train"):
    return storage.SplitReader(prepared, split).read(np.arange(prepared.size(split)))


def texts_of(prepared, split):
    tokenizer = load_tokenizer(prepared.tokenizer)
    return [" ".join(tokenizer.tokens(row)) for row in rows_of(prepared, split)["input_ids"]]


@pytest.fixture(scope="session")
def real_blocks(shared_data):
    """Blocks of real text, a word a token, by name: Wikipedia articles, of very different lengths, and books."""
    articles, books = [], []
    with tarfile.open(shared_data / "wiki_en_2015.tar.gz") as archive:
        for member in archive:
            if "/wiki_" in member.name and len(articles) < 600:
                text = archive.extractfile(member).read().decode()
                articles += [article.split(">", 1)[1] for article in text.split("</doc>")[:-1]]
    with tarfile.open(shared_data / "books_classic.tar.gz") as archive:
        for member in archive:
            if member.name.endswith(".md") and len(books) < 8:
                books.append(archive.extractfile(member).read().decode()[:300_000])
    return {"articles": block_of_words(articles), "books": block_of_words(books)}


def block_of_words(documents):
    sentences, offsets = split_sentences(documents)
    lengths = [len(sentence.split()) for sentence in sentences]
    return block_of([lengths[start:end] for start, end in itertools.pairwise(offsets)])
