"""The verb `embed`: texts as vectors; and the functions behind it."""

import dataclasses
import itertools
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import jax
import numpy as np

from bert_jax import parallel
from bert_jax.errors import UserError
from bert_jax.model.presets import ComputeConfig
from bert_jax.model.task_heads import POOLINGS, HeadConfig
from bert_jax.runlog import in_words
from bert_jax.tasks.features import encode_rows
from bert_jax.tasks.outputs import Forward
from bert_jax.tasks.task import Split

DESCRIPTION = """Writes a vector for each text: one a line, of a file or of standard input, empty ones too. Vectors are
pooled as the model says (of one without a pooling of its own: the mean over its tokens), or as --pooling does."""
EXAMPLE = "bert-jax embed --checkpoint=all-MiniLM-L6-v2/ --input=texts.txt --out=vectors.npy"

CHUNK_TEXTS = 10_000  # read, sorted by length and computed together: bounds memory whatever the input
BATCH = 64
COMPUTE = ComputeConfig(remat="none")
PROGRESS_SECONDS = 5.0
ENDINGS = (".npy", ".parquet")


def add_arguments(parser):
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="a run of ours, or a Hugging Face folder")
    parser.add_argument("--input", metavar="FILE", help="texts, one a line (default: standard input)")
    parser.add_argument("--out", required=True, metavar="FILE", help="new .npy, or .parquet with the texts beside")
    parser.add_argument("--pooling", choices=POOLINGS, help="default: the model's own, else mean")
    parser.add_argument("--layer", type=int, metavar="N", help="take the states of this layer; 0 is the embeddings")
    parser.add_argument("--batch_size", type=int, default=BATCH, metavar="N")


def run(args):
    from bert_jax.models import load_model

    out = Path(args.out)
    if out.suffix not in ENDINGS:
        raise UserError(f"--out {out}: expected a file that ends in {' or '.join(ENDINGS)}")
    if out.exists():
        raise UserError(f"--out {out}: exists: name a new file")
    if args.batch_size < 1:
        raise UserError(f"--batch_size={args.batch_size}: expected 1 or more")
    parallel.keep_freed_memory("")
    model = load_model(args.checkpoint)
    writer = (_NpyWriter if out.suffix == ".npy" else _ParquetWriter)(out, model.config.hidden)
    started = told = time.perf_counter()
    count = truncated = 0
    try:
        with _opened(args.input) as lines:
            texts = (line.rstrip("\n") for line in lines)
            for chunk in embed_chunks(model, texts, args.pooling, args.layer, args.batch_size):
                writer.write(chunk)
                count, truncated = count + len(chunk.texts), truncated + chunk.truncated
                if time.perf_counter() - told > PROGRESS_SECONDS:
                    told = time.perf_counter()
                    print(f"{count:,} texts, {count / (told - started):,.0f} a second", file=sys.stderr, flush=True)
        writer.finish()
    except UnicodeDecodeError as error:
        raise UserError(f"--input {args.input}: is not UTF-8 ({error.reason})") from error
    finally:
        writer.close()
    seconds = time.perf_counter() - started
    cut = f", {truncated:,} of them cut to {text_limit(model)} tokens" if truncated else ""
    print(f"{out}: {count:,} vectors of {model.config.hidden}{cut}, in {in_words(seconds)}")


def _opened(path):
    if path is None:
        return sys.stdin
    try:
        return open(path, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"--input {path}: cannot be read ({error.strerror or error})") from error


@dataclasses.dataclass(frozen=True)
class Embedded:
    """Some of the texts and their vectors, float32 [n, D]; `truncated` of them were cut."""

    texts: list[str]
    vectors: np.ndarray
    truncated: int


def embed_texts(model, texts: Iterable[str], pooling=None, layer=None, batch_size=BATCH, compute=COMPUTE) -> np.ndarray:
    """Vectors of a models.Model for all texts, in their order: float32 [n, D]; arguments as of `embed_chunks`."""
    vectors = [chunk.vectors for chunk in embed_chunks(model, texts, pooling, layer, batch_size, compute)]
    return np.concatenate([np.zeros((0, model.config.hidden), np.float32), *vectors])


def embed_chunks(
    model, texts: Iterable[str], pooling=None, layer=None, batch_size=BATCH, compute=COMPUTE
) -> Iterator[Embedded]:
    """The vectors of texts in their order, CHUNK_TEXTS at a time, however many there are.

    A text has the same vector (but for rounding) whatever it is embedded with; an empty one has that of its two special
    tokens. Texts are cut to the length that the model was tuned on, or to its positions. layer: take the states of this
    layer instead of the last one's; 0 is the embeddings. pooling: instead of the model's own. Raises UserError for a
    layer that the model has not.
    """
    head = embedding_head(model, pooling)
    params = _params_up_to(model, layer, head)
    mesh = parallel.make_mesh(parallel.MeshConfig(), jax.local_devices()[:1])
    forward = Forward(compute, model.config, head, mesh, batch_size, model.tokenizer.pad_id)
    texts = iter(texts)
    while chunk := list(itertools.islice(texts, CHUNK_TEXTS)):
        features = encode_rows(model.tokenizer, chunk, length=text_limit(model))
        yield Embedded(chunk, forward(params, Split(features, None))[:, 0], features.truncated)


def embedding_head(model, pooling=None) -> HeadConfig:
    """How a models.Model makes vectors: as its own head says, else by the mean; by `pooling` if that is given."""
    head = model.head if model.head is not None and model.head.kind == "embed" else HeadConfig("embed")
    return dataclasses.replace(head, pooling=pooling) if pooling else head


def text_limit(model):
    """Tokens of a text at most: the length that the model was tuned on, or all of its positions."""
    positions = model.config.max_positions
    return min(model.head.length or positions, positions) if model.head else positions


def _params_up_to(model, layer, head):
    """The parameters of the encoder as far as layer `layer`, from 1; 0 is the embeddings, None the whole."""
    params = {name: model.params[name] for name in ("embeddings", "layers")}
    if layer is None:
        return params
    if not 0 <= layer <= model.config.layers:
        raise UserError(f"layer {layer}: {model.path} has layers 1 to {model.config.layers}, and 0, its embeddings")
    if layer == 0 and head.pooling == "cls":
        raise UserError("layer 0 with pooling cls: the first token is the same in every text before the first layer")
    return params | {"layers": jax.tree.map(lambda leaf: leaf[:layer], params["layers"])}


class _NpyWriter:
    """A .npy of as many rows as come: their number, which stands in front, is known at the end."""

    def __init__(self, out, size):
        self._out, self._size, self._rows = out, size, 0
        self._raw = out.with_name(out.name + ".rows")
        self._file = open(self._raw, "wb")

    def write(self, chunk):
        self._file.write(np.ascontiguousarray(chunk.vectors, "<f4").tobytes())
        self._rows += len(chunk.vectors)

    def finish(self):
        self._file.close()
        partial = self._out.with_name(self._out.name + ".partial")
        with open(partial, "wb") as file, open(self._raw, "rb") as rows:
            header = {"descr": "<f4", "fortran_order": False, "shape": (self._rows, self._size)}
            np.lib.format.write_array_header_1_0(file, header)
            shutil.copyfileobj(rows, file)
        partial.rename(self._out)

    def close(self):
        self._file.close()
        self._raw.unlink(missing_ok=True)


class _ParquetWriter:
    """Columns `text` and `vector`, a group of rows a chunk."""

    def __init__(self, out, size):
        import pyarrow
        import pyarrow.parquet

        self._arrow, self._out = pyarrow, out
        self._partial = out.with_name(out.name + ".partial")
        fields = [("text", pyarrow.string()), ("vector", pyarrow.list_(pyarrow.float32(), size))]
        self._schema = pyarrow.schema(fields)
        self._writer = pyarrow.parquet.ParquetWriter(self._partial, self._schema)

    def write(self, chunk):
        flat = self._arrow.array(chunk.vectors.reshape(-1), self._arrow.float32())
        vectors = self._arrow.FixedSizeListArray.from_arrays(flat, chunk.vectors.shape[1])
        self._writer.write_table(self._arrow.table([self._arrow.array(chunk.texts), vectors], schema=self._schema))

    def finish(self):
        self._writer.close()
        self._partial.rename(self._out)

    def close(self):
        self._writer.close()
        self._partial.unlink(missing_ok=True)
