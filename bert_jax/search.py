"""The verb `search`: the texts of an embedded corpus that are closest to a query; and the function behind it."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np

from bert_jax.errors import UserError

DESCRIPTION = """Finds the texts whose vectors have the highest cosine with a query's, among all that `bert-jax embed`
wrote. Queries come as arguments, or one a line on standard input. Exact; every vector is compared."""
EXAMPLE = 'bert-jax search --checkpoint=all-MiniLM-L6-v2/ --corpus=vectors.parquet "how do planes fly"'

BLOCK = 65_536  # vectors compared together: bounds memory whatever the corpus
BATCH = 64  # queries answered together


def add_arguments(parser):
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="default: the lines of standard input")
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="the model that the corpus was embedded with"
    )
    parser.add_argument("--corpus", required=True, metavar="FILE", help=".npy or .parquet of `bert-jax embed`")
    parser.add_argument("--texts", metavar="FILE", help="of a .npy: the file of its texts, to be shown")
    parser.add_argument("--top", type=int, default=10, metavar="K")
    parser.add_argument("--json", action="store_true", help="one JSON object a query")


def run(args):
    from bert_jax.embed import embed_texts  # imported here: --help needs no jax
    from bert_jax.models import load_model

    if args.top < 1:
        raise UserError(f"--top is {args.top}: expected 1 or more")
    vectors, texts = read_corpus(args.corpus, args.texts)
    model = load_model(args.checkpoint)
    if vectors.shape[1] != model.config.hidden:
        raise UserError(
            f"--corpus {args.corpus}: has vectors of {vectors.shape[1]}, the model makes some of {model.config.hidden}"
        )
    lines = iter(args.queries) if args.queries else (line.rstrip("\n") for line in sys.stdin)
    queries = (line for line in lines if line.strip())
    for batch in iter(lambda: list(itertools.islice(queries, BATCH)), []):
        scores, rows = top_k(embed_texts(model, batch), vectors, args.top)
        for query, found in zip(batch, zip(scores, rows, strict=True), strict=True):
            results = [{"row": int(row), "score": float(score)} for score, row in zip(*found, strict=True)]
            if texts is not None:
                results = [result | {"text": texts[result["row"]]} for result in results]
            shown = json.dumps({"query": query, "results": results}, ensure_ascii=False) if args.json else None
            print(shown or in_words(query, results), flush=True)


def in_words(query, results):
    lines = [f"  {result['score']:.4f}  {result['row']}  {result.get('text', '')}".rstrip() for result in results]
    return "\n".join([query, *lines])


def top_k(queries: np.ndarray, corpus: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k vectors of highest cosine with each query: (scores float32 [q, k], rows int64 [q, k]), the best first.

    queries: [q, D]; corpus: [n, D], float32, also a memory map, of which BLOCK rows are in memory at a time. Of equal
    scores the lower row comes first; a vector of zeros has the cosine 0; fewer than k are found where there are fewer.
    """
    queries = _unit(np.asarray(queries, np.float32))
    scores, rows = np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
    for start in range(0, len(corpus), BLOCK):
        block = queries @ _unit(np.asarray(corpus[start : start + BLOCK], np.float32)).T
        kept = _highest(block, k)
        scores = np.concatenate([scores, np.take_along_axis(block, kept, 1)], axis=1)
        rows = np.concatenate([rows, kept + start], axis=1)
        best = _highest(scores, k)  # of earlier blocks the lower rows come first, and stay first where scores are equal
        scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    return scores, rows


def _highest(scores, k):
    """Places of the k highest of each row in falling order; of equal ones the lower place."""
    if k < scores.shape[1]:
        # All that are as high as the k-th: a partition alone would take any of equal ones.
        least = np.partition(scores, -k, axis=1)[:, -k]
        order = [_sorted(row, np.flatnonzero(row >= limit))[:k] for row, limit in zip(scores, least, strict=True)]
        return np.array(order, np.int64).reshape(len(scores), k)
    return np.argsort(-scores, axis=1, kind="stable")


def _sorted(row, places):
    return places[np.argsort(-row[places], kind="stable")]


def _unit(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def read_corpus(path, texts_path=None):
    """(vectors float32 [n, D], texts or None) of what `bert-jax embed` wrote; UserError for anything else."""
    path = Path(path)
    if path.suffix not in (".npy", ".parquet"):
        raise UserError(f"--corpus {path}: expected a file that ends in .npy or .parquet")
    if not path.is_file():
        raise UserError(f"--corpus {path}: no such file")
    vectors, texts = _read_npy(path) if path.suffix == ".npy" else _read_parquet(path)
    if not len(vectors):
        raise UserError(f"--corpus {path}: holds no vectors")
    if texts_path is None:
        return vectors, texts
    try:
        texts = Path(texts_path).read_bytes().decode().removesuffix("\n").split("\n")
    except OSError as error:
        raise UserError(f"--texts {texts_path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"--texts {texts_path}: is not UTF-8 (offset {error.start})") from error
    if len(texts) != len(vectors):
        raise UserError(f"--texts {texts_path}: has {len(texts):,} lines, {path} {len(vectors):,} vectors")
    return vectors, texts


def _read_npy(path):
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise UserError(f"--corpus {path}: is no .npy of vectors ({error})") from error
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise UserError(f"--corpus {path}: holds {vectors.dtype} of shape {vectors.shape}: expected floats [n, D]")
    return vectors, None


def _read_parquet(path):
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path, columns=["text", "vector"], memory_map=True)
        column = table["vector"].combine_chunks()
        flat = np.asarray(column.flatten())
        vectors = flat.reshape(len(column), -1) if len(column) else np.zeros((0, 1), np.float32)
    except (pyarrow.ArrowException, OSError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"--corpus {path}: has no columns text and vector of `bert-jax embed` ({error})") from error
    return vectors, table["text"].to_pylist()
