"""Samples of a corpus: bounded, even, the same for any number of workers, shares as the weights ask."""

import bz2
import gzip
import json

import pytest

from bert_jax.errors import UserError
from bert_jax.text.counts import count_words
from bert_jax.text.documents import find_files, parse_source
from bert_jax.text.sampling import read_sample, set_quotas
from tests.text.conftest import made_up_sentences


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for index in range(3):
        (folder / f"{index}.txt").write_text("\n\n".join(made_up_sentences(400, index)), encoding="utf-8")
    return folder


def sample(files, limit, workers=1):
    return count_words(set_quotas(files, sample_bytes=limit), workers=workers)


def taken(sources, limit):
    """Bytes of text taken of each source."""
    parsed = [parse_source(source) for source in sources]
    sizes = [0] * len(sources)
    for quota in set_quotas(find_files(parsed), parsed, limit):
        sizes[quota.file.source] += sum(len(text.encode()) for text in read_sample(quota, "blank_line"))
    return sizes


def test_it_keeps_to_its_bytes_and_takes_from_everywhere(corpus):
    files = find_files([str(corpus)])
    whole = sample(files, None)
    total = sum(len(word.encode()) * count for word, count in whole.items())
    for limit in (3_000, 20_000):
        part = sample(files, limit)
        size = sum(len(word.encode()) * count for word, count in part.items())
        assert 0.6 * limit < size <= limit  # what is missing are the spaces
        assert part == sample(files, limit, workers=2)
    assert sample(files, 10 * total) == whole
    for file in files:
        assert sample([file], 5_000)["The"] > 20


@pytest.mark.parametrize("ratio", [1, 30])
def test_compressed_files_keep_to_it_too(tmp_path, ratio):
    """What a file unpacks to is not known before: the text repeats itself more or less."""
    lines = [f"{line} {index % (400 // ratio)}" for index, line in enumerate(made_up_sentences(4000 // ratio) * ratio)]
    data = "\n\n".join(lines).encode()
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.txt.bz2").write_bytes(bz2.compress(data))
    (tmp_path / "c.txt").write_bytes(data)
    limit = 60_000
    for files in ([str(tmp_path / "*.gz")], [str(tmp_path)]):
        (size,) = taken([files[0]], limit)
        assert 0.3 * limit < size <= limit
    (whole,) = taken([str(tmp_path)], None)
    assert whole == 3 * (len(data) - 2 * (len(lines) - 1))


def test_weights_are_shares_of_the_sample(corpus, tmp_path):
    small = tmp_path / "small.txt"
    small.write_text("\n\n".join(made_up_sentences(60, 9)), encoding="utf-8")
    big = str(corpus)
    first, second = taken([f"{big},weight=2.5", f"{small},weight=0.5"], 12_000)
    assert first == pytest.approx(10_000, rel=0.06) and second == pytest.approx(2_000, rel=0.1)
    first, second = taken([f"{big},weight=3", f"{small},weight=1"], 10**9)  # the small one is taken whole
    assert second == small.stat().st_size - 2 * 59 and first == pytest.approx(3 * small.stat().st_size, rel=0.06)
    with pytest.raises(UserError, match=r"small\.txt has no weight, others have"):
        taken([f"{big},weight=3", str(small)], 10_000)


def test_long_documents_give_pieces_of_their_text(tmp_path):
    text = " ".join(made_up_sentences(6000))
    (tmp_path / "long.jsonl").write_text("\n".join(json.dumps({"text": f"{i} {text}"}) for i in range(4)))
    (quota,) = set_quotas(find_files([str(tmp_path)]), sample_bytes=200_000)
    pieces = list(read_sample(quota, "blank_line"))
    assert len(pieces) > 1 and all(len(piece.encode()) < 300_000 for piece in pieces)
    assert 100_000 < sum(len(piece.encode()) for piece in pieces) <= 200_000
    assert {piece.split(" ", 1)[0] for piece in pieces} <= set("0123")
