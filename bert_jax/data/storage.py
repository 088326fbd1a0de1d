"""Prepared data on disk: a valid TFDS data set in ArrayRecord, written and read without TensorFlow and without TFDS.

    features.json, dataset_info.json, *.labels.txt     what tfds.builder_from_directory reads
    pairs-train.array_record-00000-of-00007            the examples, in shards
    shards.json                                        each shard's examples, bytes and sha256
    tokenizer/                                         the tokenizer that made the ids
    preparation.json, report.json, unigram.npy         how it was made, what came out, how often each id occurs

What TFDS reads is plain JSON, written here because importing TFDS takes as long as preparing 15 MB of text.
"""

import hashlib
import json
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from bert_jax.data.records import Field, Layout
from bert_jax.data.shuffle import example_ids
from bert_jax.errors import UserError

# One record a group, as random access wants. Against no compression, snappy saves a third of the bytes for 3 us a
# record to write and 4 us to read; zstd saves hardly more, for 16 us and 10 us.
WRITER_OPTIONS = "group_size:1,snappy"
# Records are read one by one as ranges of one: 5 us each, in whatever order and however large the shard. A list of them
# would go to threads, at 27 us each when a shard has 36 of the batch, and 8 ms a call when it holds a million.
READER_OPTIONS = "readahead_buffer_size:0"
READER_BUFFER_BYTES = 2 << 10
SPLITS = ("train", "validation")


@dataclass(frozen=True)
class Shard:
    """One file of examples."""

    name: str
    split: str
    examples: int
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class Prepared:
    """A prepared data set, opened: `preparation` and `report` are the contents of the JSON files of those names."""

    path: Path
    length: int
    vocab_size: int
    special_ids: dict[str, int]  # pad, unk, cls, sep, mask
    shards: tuple[Shard, ...]
    preparation: dict
    report: dict

    @property
    def kind(self):
        """The kind of example: see kinds.KINDS."""
        return self.preparation["kind"]

    @property
    def layout(self):
        return Layout(
            tuple(Field(**field | {"labels": tuple(field["labels"])}) for field in self.preparation["fields"])
        )

    @property
    def tokenizer(self):
        """The folder to give to `load_tokenizer`."""
        return self.path / "tokenizer"

    def size(self, split):
        """How many examples the split has; 0 where nothing was held out."""
        return sum(shard.examples for shard in self.shards if shard.split == split)

    def reader(self, split):
        return SplitReader(self, split)

    def order(self, positions, seed):
        """The examples at `positions` of the training order (shuffle.py), int64 of the same shape."""
        return example_ids(positions, self.size("train"), seed)

    def unigram(self):
        """How often each id occurs in the rows of the train split, int64 [vocabulary]; 0 for special tokens."""
        return np.load(self.path / "unigram.npy")


def shard_name(kind, split, index, count):
    """The file name that TFDS expects of a shard."""
    return f"{kind}-{split}.array_record-{index:05d}-of-{count:05d}"


def write_shard(path, split, tables):
    """Writes serialized examples (an iterator of uint8 [n, record bytes]) to a new ArrayRecord file; returns its Shard.

    Raises UserError where the file cannot be written, as on a full disk.
    """
    examples = 0
    try:
        writer = ArrayRecordWriter(str(path), WRITER_OPTIONS)
        for table in tables:
            size, blob = table.shape[1], table.tobytes()
            for start in range(0, len(blob), size):
                writer.write(blob[start : start + size])
            examples += len(table)
        writer.close()
        return Shard(Path(path).name, split, examples, Path(path).stat().st_size, _digest(path))
    except (RuntimeError, OSError) as error:  # the writer reports a full disk as RuntimeError, some only when closed
        raise UserError(f"{path}: cannot be written: {error}") from error


def is_whole(path, shard):
    """Whether the file holds what was written when its Shard was made."""
    return path.is_file() and path.stat().st_size == shard.n_bytes and _digest(path) == shard.sha256


def write_folder(folder, kind, layout, shards, preparation, report, unigram):
    """Writes all but shards and tokenizer. The shards' names must be final."""
    features = layout.tfds_features()
    splits = []
    for split in SPLITS:
        of_split = [shard for shard in shards if shard.split == split]
        if of_split:
            splits.append(
                {
                    "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
                    "name": split,
                    "numBytes": str(sum(shard.examples for shard in of_split) * len(layout.template)),
                    "shardLengths": [str(shard.examples) for shard in of_split],
                }
            )
    info = {"fileFormat": "array_record", "name": kind, "splits": splits, "version": "1.0.0"}
    _write_json(folder / "features.json", features)
    _write_json(folder / "dataset_info.json", info)
    for field in layout.fields:
        if field.labels:
            (folder / f"{field.name}.labels.txt").write_text("\n".join(field.labels) + "\n")
    _write_json(folder / "shards.json", [asdict(shard) for shard in shards])
    _write_json(folder / "report.json", report)
    fields = {"fields": [asdict(field) for field in layout.fields]}
    _write_json(folder / "preparation.json", preparation | fields)
    np.save(folder / "unigram.npy", unigram)


def open_prepared(path):
    """The Prepared data set in folder `path`.

    Raises UserError where the folder is not prepared data, or a shard is missing or not of the recorded size.
    """
    path = Path(path)
    if not (path / "preparation.json").is_file():
        found = "no such folder" if not path.exists() else "no preparation.json in it"
        raise UserError(f"{path}: not prepared data ({found}); expected a folder made by `bert-jax prepare`")
    preparation, report = _read_json(path / "preparation.json"), _read_json(path / "report.json")
    shards = tuple(Shard(**shard) for shard in _read_json(path / "shards.json"))
    for shard in shards:
        file = path / shard.name
        if not file.is_file():
            raise UserError(f"{file}: shard missing; prepare the data again")
        if file.stat().st_size != shard.n_bytes:
            raise UserError(f"{file}: shard has {file.stat().st_size} bytes, expected {shard.n_bytes}; prepare again")
    return Prepared(
        path=path,
        length=preparation["length"],
        vocab_size=preparation["vocab_size"],
        special_ids=preparation["special_ids"],
        shards=shards,
        preparation=preparation,
        report=report,
    )


class SplitReader:
    """Random access to the examples of a split, from any thread: `reader.read(indices)` -> name -> array.

    Shards are opened when first read. Raises UserError for a split without examples.
    """

    def __init__(self, prepared, split):
        self._shards = [shard for shard in prepared.shards if shard.split == split]
        if not self._shards:
            raise UserError(f"{prepared.path}: split {split!r} has no examples (held_out was 0, or too little text)")
        self._folder, self._layout = prepared.path, prepared.layout
        self._ends = np.cumsum([shard.examples for shard in self._shards])
        self._readers = [None] * len(self._shards)
        self._opening = threading.Lock()

    def __len__(self):
        return int(self._ends[-1])

    def read(self, indices):
        """Examples at `indices` (integers [n], each in [0, len)) as columns: name -> array [n, size] or [n]."""
        indices = np.asarray(indices)
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"examples {indices.min()} to {indices.max()} of {len(self)}")
        shard_of = np.searchsorted(self._ends, indices, side="right")
        positions = indices - np.concatenate([[0], self._ends])[shard_of]
        records = []
        for shard, position in zip(shard_of.tolist(), positions.tolist(), strict=True):
            try:
                records += self._reader(shard).read(position, position + 1)
            except (RuntimeError, IndexError) as error:  # IndexError: its end is damaged, and it reads as empty
                raise UserError(f"{self.describe(indices[len(records)])}: corrupt shard: {error}") from error
        return self._layout.decode(records, lambda row: self.describe(indices[row]))

    def describe(self, index):
        """Where the example lies, for messages: shard file and record in it."""
        shard = int(np.searchsorted(self._ends, index, side="right"))
        start = int(self._ends[shard - 1]) if shard else 0
        return f"{self._folder / self._shards[shard].name}, record {int(index) - start}"

    def _reader(self, shard):
        if self._readers[shard] is None:
            with self._opening:
                if self._readers[shard] is None:
                    path = str(self._folder / self._shards[shard].name)
                    self._readers[shard] = ArrayRecordReader(
                        path, options=READER_OPTIONS, file_reader_buffer_size=READER_BUFFER_BYTES
                    )
        return self._readers[shard]


def _digest(path):
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_json(path, value):
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def _read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable as JSON ({error}); prepare the data again") from error
