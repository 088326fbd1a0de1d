"""Stage two of preparation: the documents of one block -> one shard of shuffled examples, and what to report."""

from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from bert_jax.data import storage
from bert_jax.data.examples import Account, make_block
from bert_jax.data.hashing import mix
from bert_jax.data.kinds import ExampleConfig, example_fields, make_rows, write_rows
from bert_jax.data.records import Layout, id_type
from bert_jax.data.selection import BlockRange, Selection, read_block
from bert_jax.data.spill import Run
from bert_jax.errors import UserError
from bert_jax.text.sentences import split_sentences

# Text is split and tokenized this much at a time: enough to make calls cheap, little enough to stay in the cache.
BATCH_BYTES = 1 << 20
# Ids of the rows that are put together and serialized at a time, for the same reason.
BATCH_IDS = 1 << 17
# The fast tokenizer is checked against the exact one on so many of a block's sentences.
CHECKED_SENTENCES = 100
CHECKED_CHARACTERS = 1000
# Unknown characters are looked for in so many of a block's sentences with unknown tokens, or a batch's more.
UNKNOWN_SENTENCES = 1000


@dataclass(frozen=True)
class BlockTask:
    """All that a block's shard depends on, besides the runs' files."""

    block: BlockRange
    runs: tuple[Run, ...]
    selection: Selection
    folder: str  # where the shard goes
    examples: ExampleConfig
    language: str
    sentence_per_line: bool
    seed: int
    sentence_sample_limit: int  # sentences with a hash below this are looked at for duplicates


@dataclass
class Counts:
    """What is counted over blocks; `+` adds every entry up."""

    documents: int = 0
    one_sentence_documents: int = 0
    sentences: int = 0
    empty_documents: int = 0  # without any token
    empty_sentences: int = 0
    unknown_tokens: int = 0
    corpus_tokens: int = 0
    lone_blocks: int = 0  # of a single document: no random next sentence there
    text_bytes: int = 0
    examples: int = 0
    pieces: int = 0
    label_ones: int = 0  # pieces of label 1: random next sentences, swapped segments
    account: Account = field(default_factory=Account)

    def __add__(self, other):
        return Counts(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


@dataclass(frozen=True)
class BlockResult:
    """A block's shard (None where it has no example), its Counts and its distributions.

    lengths: examples by their length, int64 [length + 1]; unigram: ordinary tokens in the rows, int64 [vocabulary];
    sentence_hashes: uint64, one a sampled sentence; unknown_characters: how often each occurs in some sentences.
    """

    shard: storage.Shard | None
    counts: Counts
    lengths: np.ndarray
    unigram: np.ndarray
    sentence_hashes: np.ndarray
    unknown_characters: Counter

    def is_whole(self, folder):
        """Whether the shard is in the folder as it was written."""
        return self.shard is None or storage.is_whole(Path(folder) / self.shard.name, self.shard)


_process = {}  # the tokenizer of this process: given once, not with every block


def use_tokenizer(tokenizer):
    """Sets the tokenizer of this process's `write_block`."""
    _process["tokenizer"] = tokenizer


def write_block(task):
    """Makes the shard of one block. Memory: the ids of the block, and one batch of its text."""
    tokenizer = _process["tokenizer"]
    ids, sentences, documents, sentence_hashes, unknown_characters = _tokenize(task, tokenizer)
    block, empty_sentences, empty_documents = make_block(ids, sentences, documents)
    split_number = storage.SPLITS.index(task.block.split)
    rng = np.random.default_rng([task.seed, split_number, task.block.index])
    rows, account = make_rows(block, task.examples, rng)
    n_documents = len(block.documents) - 1
    counts = Counts(
        documents=n_documents,
        one_sentence_documents=int((np.diff(block.documents) == 1).sum()),
        sentences=len(block.sentences) - 1,
        empty_documents=empty_documents,
        empty_sentences=empty_sentences,
        unknown_tokens=int(np.count_nonzero(block.ids == tokenizer.unk_id)),
        corpus_tokens=len(block.ids),
        lone_blocks=int(n_documents == 1),
        text_bytes=task.block.n_bytes,
        examples=len(rows),
        pieces=len(rows.pieces),
        label_ones=0 if rows.pieces.label is None else int(rows.pieces.label.sum()),
        account=account,
    )
    lengths = np.bincount(rows.lengths, minlength=task.examples.length + 1)
    unigram = np.zeros(tokenizer.size, np.int64)
    shard = None
    if len(rows):
        path = Path(task.folder) / f"{task.block.split}-{task.block.index:05d}.part"
        layout = Layout(example_fields(task.examples, tokenizer.size))
        shard = storage.write_shard(path, task.block.split, _tables(block, rows, layout, task, tokenizer, unigram))
    unigram[[tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id]] = 0
    return BlockResult(shard, counts, lengths, unigram, sentence_hashes, unknown_characters)


def _tokenize(task, tokenizer):
    """(ids [T], sentence offsets in ids, document offsets in sentences, sentence hashes, unknown characters).

    All of the block, flat.
    """
    unknown_texts = []
    ids, sentence_ends, document_ends, hashes = [], [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], []
    n_ids = n_sentences = 0
    for batch in read_block(task.runs, task.block, task.selection, BATCH_BYTES):
        texts, documents = split_sentences(batch, task.language, task.sentence_per_line)
        if not ids:
            tokenizer.check_fast([text[:CHECKED_CHARACTERS] for text in texts[:CHECKED_SENTENCES]])
        batch_ids, offsets = tokenizer.encode(texts)
        if len(batch_ids) and batch_ids.max() >= tokenizer.size:
            raise UserError(f"the tokenizer gave id {batch_ids.max()}, but its vocabulary has {tokenizer.size}")
        ids.append(batch_ids.astype(id_type(tokenizer.size)))
        sentence_ends.append(n_ids + offsets[1:])
        document_ends.append(n_sentences + documents[1:])
        if len(unknown_texts) < UNKNOWN_SENTENCES:
            unknown_rows = np.searchsorted(offsets, np.flatnonzero(batch_ids == tokenizer.unk_id), side="right") - 1
            unknown_texts += [texts[row] for row in dict.fromkeys(unknown_rows[:UNKNOWN_SENTENCES].tolist())]
        n_ids, n_sentences = n_ids + len(batch_ids), n_sentences + len(texts)
        hashes.append(hash_sentences(batch_ids, offsets, task.sentence_sample_limit))
    return (
        np.concatenate(ids),
        np.concatenate(sentence_ends),
        np.concatenate(document_ends),
        np.concatenate(hashes),
        _unknown_characters(unknown_texts, tokenizer),
    )


def _unknown_characters(texts, tokenizer):
    """How often each character occurs in the texts that is itself unknown to the tokenizer."""
    counts = Counter("".join(texts))
    characters = list(counts)
    ids, offsets = tokenizer.encode(characters)
    unknown = np.searchsorted(offsets, np.flatnonzero(ids == tokenizer.unk_id), side="right") - 1
    return Counter({characters[place]: counts[characters[place]] for place in unknown.tolist()})


def hash_sentences(ids, offsets, sample_limit=2**64 - 1):
    """A 64-bit hash of each non-empty sentence's ids, uint64, of a sample: with a sentence all its copies are in it.

    sample_limit: about sample_limit / 2^64 of the sentences are taken, by a hash of their ends and length alone. The
    hash is a polynomial in an odd base modulo 2^64, then mixed.
    """
    starts, ends = offsets[:-1], offsets[1:]
    filled = ends > starts
    starts, ends = starts[filled], ends[filled]
    sampled = mix(ids[starts], ids[ends - 1], ends - starts) <= np.uint64(sample_limit)
    starts, lengths = starts[sampled], (ends - starts)[sampled]
    if not len(starts):
        return np.zeros(0, np.uint64)
    firsts = np.cumsum(lengths) - lengths
    place = np.arange(lengths.sum()) - np.repeat(firsts, lengths)
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(int(lengths.max()), 0x9E3779B97F4A7C15, np.uint64))
        terms = (ids[np.repeat(starts, lengths) + place].astype(np.uint64) + np.uint64(1)) * powers[place]
        return mix(np.add.reduceat(terms, firsts), lengths)


def _tables(block, rows, layout, task, tokenizer, unigram):
    """Serialized examples, a batch of rows at a time; their ids are counted into `unigram` on the way."""
    step = max(1, BATCH_IDS // task.examples.length)
    special = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    for start in range(0, len(rows), step):
        columns = write_rows(block.ids, rows.slice(start, min(start + step, len(rows))), task.examples, *special)
        unigram += np.bincount(columns["input_ids"].ravel(), minlength=tokenizer.size)
        yield layout.encode(columns)
