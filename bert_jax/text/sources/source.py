"""What a user names as text, and the files that it comes to."""

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bert_jax.errors import UserError

# 'tfds' is a shard of a TFDS data set: ArrayRecord or TFRecord files of tf.train.Example.
KINDS = ("text", "jsonl", "parquet", "arrow", "wikiextractor", "mediawiki", "book", "tfds")
TFDS_PREFIX = "tfds:"
OPTIONS = ("weight", "kind", "column", "split")

_OPTION = re.compile(r"([A-Za-z_]+)=(.*)", re.DOTALL)

Report = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """One source of text: a file, a folder, a glob, or a TFDS data set (`tfds:NAME/CONFIG`), local or remote."""

    path: str
    weight: float | None = None  # its share in a mixture; None: as much as it holds
    kind: str = ""  # one of KINDS; "" is found out, file by file
    column: str = "text"  # the field of JSON, Parquet, Arrow and TFDS records that holds the text
    split: str = "train"  # of a TFDS data set


@dataclass(frozen=True)
class TextFile:
    """One file of a corpus, or a part of one, and how it is read."""

    path: str
    size: int  # bytes as stored, of this part
    kind: str  # one of KINDS
    source: int = 0  # which of the sources named it
    column: str = "text"
    # Bytes of text, JSON lines, WikiExtractor and MediaWiki files (a part starts where a document does); row groups of
    # Parquet; batches of an Arrow file; records of ArrayRecord. None: to the end.
    start: int = 0
    stop: int | None = None

    @property
    def is_part(self) -> bool:
        return self.start > 0 or self.stop is not None

    def part(self, start: int, stop: int | None, size: int) -> "TextFile":
        """The part [start, stop) of a whole file, `size` bytes large."""
        return replace(self, start=start, stop=stop, size=size)


def parse_source(text: str, column: str = "text") -> Source:
    """The Source that `PATH[,weight=2.5][,kind=book][,column=body][,split=validation]` names.

    column: the one to use where the text gives none. A local path that exists as it stands is taken whole, so a comma
    or an equals sign in a file name does no harm.
    Raises UserError for an unknown or repeated option and for a value out of range.
    """
    path, options = text, {}
    while not os.path.exists(path) and "," in path:
        rest, last = path.rsplit(",", 1)
        match = _OPTION.fullmatch(last)
        if not match:
            break
        name, value = match.groups()
        if name not in OPTIONS:
            raise UserError(f"source {text!r}: option {name!r} is unknown: expected one of {', '.join(OPTIONS)}")
        if name in options:
            raise UserError(f"source {text!r}: option {name!r} is given twice")
        options[name], path = value, rest
    if not path:
        raise UserError(f"source {text!r}: names no path")
    for name, value in options.items():
        if not value:
            raise UserError(f"source {text!r}: option {name!r} has no value")
    kind = options.get("kind", "")
    if kind and kind not in KINDS:
        raise UserError(f"source {text!r}: kind {kind!r} is unknown: expected one of {', '.join(KINDS)}")
    weight = _weight(options["weight"], text) if "weight" in options else None
    return Source(path, weight, kind, options.get("column", column), options.get("split", "train"))


def check_weights(sources: Sequence[Source]) -> None:
    """Raises UserError where some sources have a weight and others have none."""
    without = [source.path for source in sources if source.weight is None]
    if 0 < len(without) < len(sources):
        raise UserError(f"source {without[0]} has no weight, others have: expected a weight for each, or for none")


def require_whole(file: TextFile) -> None:
    """Raises UserError for a part of a file that is read as one document."""
    if file.is_part:
        raise UserError(f"{file.path}: is one document and cannot be read in parts")


def raise_user_error(message: str) -> None:
    """The Report of whoever wants to stop at the first thing that cannot be read."""
    raise UserError(message)


def one_line(error: Exception) -> str:
    """What a library says, short enough for a message of ours."""
    return " ".join(str(error).split())[:200]


def _weight(value: str, text: str) -> float:
    try:
        weight = float(value)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise UserError(f"source {text!r}: weight {value!r}: expected a number above 0")
    return weight
