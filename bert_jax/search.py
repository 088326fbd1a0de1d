"""The verb `search`: the texts of an embedded corpus that are closest to a query; and the functions behind it."""

import dataclasses
import functools
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bert_jax.errors import UserError

DESCRIPTION = """Finds the texts whose vectors have the highest cosine with a query's, among all that `bert-jax embed`
wrote. Queries come as arguments, or one a line on standard input. Exact; every vector is compared."""
EXAMPLE = 'bert-jax search --checkpoint=all-MiniLM-L6-v2/ --corpus=vectors.parquet "how do planes fly"'

BLOCK = 16_384  # vectors compared together: bounds memory whatever the corpus
BATCH = 64  # queries compared together: bounds memory whatever their number
NO_LENGTH = 1e-15  # shorter vectors count as zeros: the squares of their values leave float32's range


def add_arguments(parser):
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="default: the lines of standard input")
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="the model that the corpus was embedded with"
    )
    parser.add_argument("--corpus", required=True, metavar="FILE", help=".npy or .parquet of `bert-jax embed`")
    parser.add_argument("--texts", metavar="FILE", help="of a .npy: the file of its texts, to be shown")
    parser.add_argument("--top", type=int, default=10, metavar="K")
    parser.add_argument("--batch_size", type=int, default=BATCH, metavar="N", help="queries answered together")
    parser.add_argument("--json", action="store_true", help="one JSON object a query")


def run(args):
    from bert_jax.embed import embed_texts  # imported here: --help needs no jax
    from bert_jax.models import load_model

    for name in ("top", "batch_size"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name}={getattr(args, name)}: expected 1 or more")
    corpus = read_corpus(args.corpus, args.texts)
    model = load_model(args.checkpoint)
    if corpus.size != model.config.hidden:
        raise UserError(
            f"--corpus {args.corpus}: has vectors of {corpus.size}, but {args.checkpoint} makes vectors of "
            f"{model.config.hidden}: search with the model that embedded the corpus"
        )
    queries = iter(args.queries) if args.queries else _lines(sys.stdin)
    computed = None
    for batch in iter(lambda: list(itertools.islice(queries, args.batch_size)), []):
        computed = computed or len(batch)  # a single query is not computed as a whole batch, nor a last one compiled
        vectors = embed_texts(model, batch, batch_size=computed)
        for query, scores, rows in zip(batch, *top_k_of_blocks(vectors, corpus.blocks(), args.top), strict=True):
            results = [{"row": int(row), "score": float(score)} for score, row in zip(scores, rows, strict=True)]
            if corpus.texts is not None:
                results = [result | {"text": str(corpus.texts[result["row"]])} for result in results]
            shown = json.dumps({"query": query, "results": results}, ensure_ascii=False) if args.json else None
            print(shown or in_words(query, results), flush=True)


def _lines(stream):
    try:
        yield from (line.rstrip("\r\n") for line in stream if line.strip())
    except UnicodeDecodeError as error:
        raise UserError(f"standard input: is not UTF-8 ({error.reason})") from error


def in_words(query, results):
    """The query, and a line for each result: rank, cosine, row and text."""
    lines = [
        f"  {rank:2}  {result['score']:.4f}  {result['row']}  {result.get('text', '')}".rstrip()
        for rank, result in enumerate(results, 1)
    ]
    return "\n".join([query, *lines])


def top_k(queries: np.ndarray, corpus: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k vectors of highest cosine with each query: (scores float32 [q, k], rows int64 [q, k]), the best first.

    queries: [q, D]; corpus: [n, D], float32, also a memory map, of which BLOCK rows are in memory at a time. Of equal
    scores the lower row comes first; a vector of zeros has the cosine 0; all n are found where k is larger. A score
    depends on its two vectors alone, not on what is compared beside. Raises UserError, with the row, for a vector that
    has no finite length.
    """
    return top_k_of_blocks(queries, _blocks(corpus), k)


def _blocks(vectors):
    return (vectors[row : row + BLOCK] for row in range(0, len(vectors), BLOCK))


def top_k_of_blocks(queries: np.ndarray, blocks: Iterable[np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    """As `top_k`, of a corpus that comes in blocks [any, D], which are not kept."""
    queries = np.asarray(queries, np.float64)
    queries = queries * _over_lengths(queries, "queries", 0)[:, None]
    # A product of matrices is fast, but gives equal rows different roundings, by their place: it only chooses whose
    # cosines are computed. Two of its float32 sums of D products are off by less than this, lengths included.
    margin = 4 * (queries.shape[1] + 2) * np.finfo(np.float32).eps
    best = [(np.zeros(0, np.float32), np.zeros(0, np.int64))] * len(queries)
    start = 0
    for block in blocks:
        block = np.ascontiguousarray(block, np.float32)
        over_lengths = _over_lengths(block, "the corpus", start)
        for first in range(0, len(queries), BATCH):
            rough = queries[first : first + BATCH].astype(np.float32) @ block.T
            rough *= over_lengths
            for query, row in enumerate(rough, first):
                places = _candidates(row, best[query][0], k, margin)
                found = _cosines(queries[query], block[places]), places + start
                best[query] = _merged(best[query], found, k)
        start += len(block)
    shape = len(queries), min(k, start)
    scores, rows = np.zeros(shape, np.float32), np.zeros(shape, np.int64)
    for query, found in enumerate(best):
        scores[query], rows[query] = found
    return scores, rows


def _candidates(rough, scores, k, margin):
    """Places, rising, of all that can be among the k highest, given the scores of the best so far, falling."""
    places = np.flatnonzero(rough >= scores[-1] - margin) if len(scores) == k else np.arange(len(rough))
    if len(places) <= k:
        return places
    chosen = rough[places]
    return places[chosen >= np.partition(chosen, -k)[-k] - margin]


def _cosines(query, vectors):
    """Exact but for the last rounding to float32; query: a unit vector, float64 [D]; vectors: float32 [n, D]."""
    vectors = vectors.astype(np.float64)
    return ((vectors * query).sum(axis=1) * _over_lengths(vectors)).astype(np.float32)


def _merged(best, found, k):
    """The k highest of both, the best first; rows of `found` are higher, so stay behind where scores are equal."""
    scores, rows = (np.concatenate(pair) for pair in zip(best, found, strict=True))
    order = np.argsort(-scores, kind="stable")[:k]
    return scores[order], rows[order]


def _over_lengths(vectors, whose="vectors", start=0):
    """1 over the length of each vector, 0 for one of zeros; UserError for one that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("nd,nd->n", vectors, vectors)
    wrong = np.flatnonzero(~np.isfinite(squares))
    if len(wrong):
        raise UserError(f"vector {start + wrong[0]} of {whose} has no finite length")
    lengths = np.sqrt(squares)
    return np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > NO_LENGTH)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Vectors as `bert-jax embed` wrote them: `count` of `size` values, which `blocks` reads anew, some at a time."""

    count: int
    size: int
    blocks: Callable[[], Iterator[np.ndarray]]
    texts: Sequence | None


def read_corpus(path, texts_path=None) -> Corpus:
    """The Corpus of a file that `bert-jax embed` wrote, with the texts of another file; UserError for anything else."""
    path = Path(path)
    if path.suffix not in (".npy", ".parquet"):
        raise UserError(f"--corpus {path}: expected a file that ends in .npy or .parquet")
    if not path.is_file():
        raise UserError(f"--corpus {path}: no such file")
    corpus = _read_npy(path) if path.suffix == ".npy" else _read_parquet(path)
    if not corpus.count:
        raise UserError(f"--corpus {path}: holds no vectors")
    if texts_path is None:
        return corpus
    try:
        texts = Path(texts_path).read_bytes().decode().removesuffix("\n").split("\n")
    except OSError as error:
        raise UserError(f"--texts {texts_path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"--texts {texts_path}: is not UTF-8 (offset {error.start})") from error
    if len(texts) != corpus.count:
        raise UserError(f"--texts {texts_path}: has {len(texts):,} lines, {path} {corpus.count:,} vectors")
    return dataclasses.replace(corpus, texts=texts)


def _read_npy(path):
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise UserError(f"--corpus {path}: is no .npy of vectors ({error})") from error
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise UserError(f"--corpus {path}: holds {vectors.dtype} of shape {vectors.shape}: expected floats [n, D]")
    return Corpus(*vectors.shape, functools.partial(_blocks, vectors), None)


def _read_parquet(path):
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path, pre_buffer=False)  # a buffer would end up with the whole file
        kind = file.schema_arrow.field("vector").type
        if not pyarrow.types.is_fixed_size_list(kind) or not pyarrow.types.is_floating(kind.value_type):
            raise ValueError(f"vector is {kind}")
        texts = file.read(columns=["text"])["text"]
    except (pyarrow.ArrowException, OSError, KeyError, ValueError) as error:
        raise UserError(f"--corpus {path}: has no columns text and vector of `bert-jax embed` ({error})") from error

    def blocks():
        groups = ([group] for group in range(file.num_row_groups))  # each alone: a batch of two would be a copy
        for batch in (batch for group in groups for batch in file.iter_batches(BLOCK, group, columns=["vector"])):
            vectors = batch.column(0)
            if vectors.null_count:
                raise UserError(f"--corpus {path}: has rows without a vector")
            yield vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, kind.list_size)

    return Corpus(file.metadata.num_rows, kind.list_size, blocks, texts)
