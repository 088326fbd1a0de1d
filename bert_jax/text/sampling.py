"""Which part of a corpus a vocabulary is trained on: bounded, taken from everywhere, told by the files alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bert_jax.text.documents import Source, TextFile, check_weights, read_documents
from bert_jax.text.sources.find import COMPRESSED_SUFFIXES

PIECE_BYTES = 64_000  # the longest run of one document that a sample takes: many documents tell more than one

# How many bytes of text a stored byte gives, roughly; what is wrong with it makes the sample smaller, never larger.
COMPRESSED_EXPANSION = 3.0
EXPANSION = {"parquet": 2.0}


@dataclass(frozen=True)
class Quota:
    """What is taken of one file: a share of each of its documents' bytes, and never more than `limit` bytes in all."""

    file: TextFile
    share: float
    limit: float


def set_quotas(
    files: Sequence[TextFile], sources: Sequence[Source] = (), sample_bytes: int | None = None
) -> list[Quota]:
    """Quotas that come to at most `sample_bytes` bytes of UTF-8 (None: everything) and to the weights of the sources.

    Without weights each file gives according to its size. With them each source gives bytes of text in proportion to
    its weight, evenly from its files; the one that has least for its weight is taken whole, as `prepare` does. Sizes
    of text are estimated where files are compressed. UserError where some sources have a weight and others have none.
    """
    sizes = [_text_bytes(file) for file in files]
    total = sum(sizes)
    wanted = total if sample_bytes is None else sample_bytes
    weights = [source.weight for source in sources]
    if not any(weights):
        limits = [float("inf") if sample_bytes is None else wanted * size / total for size in sizes]
    else:
        check_weights(sources)
        held = [
            sum(size for size, file in zip(sizes, files, strict=True) if file.source == i) for i in range(len(sources))
        ]
        scale = min([wanted / sum(weights), *(h / w for h, w in zip(held, weights, strict=True))])
        limits = [scale * weights[f.source] * size / held[f.source] for f, size in zip(files, sizes, strict=True)]
    return [Quota(file, min(1.0, limit / size), limit) for file, size, limit in zip(files, sizes, limits, strict=True)]


def read_sample(quota: Quota, separator: str, on_error: Callable[[str], None] | None = None) -> Iterator[str]:
    """Documents of the file, or parts of them: each earns credit for its size, which is spent once it pays for one."""
    credit, left = 0.0, quota.limit
    for document in read_documents(quota.file, separator, on_error=on_error):
        data = document.encode()
        if quota.share == 1.0 and len(data) <= left:
            left -= len(data)
            yield document
            continue
        credit += quota.share * len(data)
        if credit >= min(len(data), PIECE_BYTES):
            piece = data[: int(min(credit, left))]
            credit -= len(piece)
            left -= len(piece)
            yield piece.decode(errors="ignore")  # the cut may fall inside a character
        if left < 1:
            return


def _text_bytes(file: TextFile) -> float:
    if file.path.endswith(COMPRESSED_SUFFIXES):
        return file.size * COMPRESSED_EXPANSION
    return file.size * EXPANSION.get(file.kind, 1.0)
