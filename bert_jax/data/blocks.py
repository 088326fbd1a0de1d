"""Stage two of preparation: the documents of one block -> one shard of shuffled examples, and what to report."""

from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from bert_jax.data import storage
from bert_jax.data.examples import Account, assemble, make_block, make_pairs
from bert_jax.data.hashing import mix
from bert_jax.data.records import Layout, id_type, pairs_fields
from bert_jax.data.spill import BlockRange, Run, read_block
from bert_jax.errors import UserError
from bert_jax.text.sentences import split_sentences

# Text is split and tokenized this much at a time: enough to make calls cheap, little enough to stay in the cache.
BATCH_BYTES = 1 << 20
# Ids of the rows that are put together and serialized at a time, for the same reason.
BATCH_IDS = 1 << 17
# The fast tokenizer is checked against the exact one on so many of a block's sentences.
CHECKED_SENTENCES = 100


@dataclass(frozen=True)
class BlockTask:
    """All that a block's shard depends on, besides the runs' files."""

    block: BlockRange
    runs: tuple[Run, ...]
    threshold: int
    folder: str  # where the shard goes
    length: int
    passes: int
    short_probability: float
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
    random_next: int = 0
    account: Account = field(default_factory=Account)

    def __add__(self, other):
        return Counts(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


@dataclass(frozen=True)
class BlockResult:
    """A block's shard (None where it has no example), its Counts and its distributions.

    lengths: examples by their length, int64 [length + 1]; unigram: ordinary tokens in the rows, int64 [vocabulary];
    sentence_hashes: uint64, one a sampled sentence.
    """

    shard: storage.Shard | None
    counts: Counts
    lengths: np.ndarray
    unigram: np.ndarray
    sentence_hashes: np.ndarray


_process = {}  # the tokenizer of this process: given once, not with every block


def use_tokenizer(tokenizer):
    """Sets the tokenizer of this process's `write_block`."""
    _process["tokenizer"] = tokenizer


def write_block(task):
    """Makes the shard of one block. Memory: the ids of the block, and one batch of its text."""
    tokenizer = _process["tokenizer"]
    ids, sentences, documents, sentence_hashes = _tokenize(task, tokenizer)
    block, empty_sentences, empty_documents = make_block(ids, sentences, documents)
    split_number = storage.SPLITS.index(task.block.split)
    rng = np.random.default_rng([task.seed, split_number, task.block.index])
    pairs, account = make_pairs(block, task.length, task.short_probability, task.passes, rng)
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
        examples=len(pairs),
        random_next=int(pairs.is_random.sum()),
        account=account,
    )
    lengths = np.bincount(pairs.a_length + pairs.b_length + 3, minlength=task.length + 1)
    unigram = np.zeros(tokenizer.size, np.int64)
    shard = None
    if len(pairs):
        path = Path(task.folder) / f"{task.block.split}-{task.block.index:05d}.part"
        layout = Layout(pairs_fields(task.length, tokenizer.size))
        shard = storage.write_shard(path, task.block.split, _tables(block, pairs, layout, task, tokenizer, unigram))
    unigram[[tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id]] = 0
    return BlockResult(shard, counts, lengths, unigram, sentence_hashes)


def _tokenize(task, tokenizer):
    """(ids [T], sentence offsets in ids, document offsets in sentences, hashes of sampled sentences) of the block."""
    ids, sentence_ends, document_ends, hashes = [], [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], []
    n_ids = n_sentences = 0
    for batch in read_block(task.runs, task.block, task.threshold, BATCH_BYTES):
        texts, documents = split_sentences(batch, task.language, task.sentence_per_line)
        if not ids:
            tokenizer.check_fast(texts[:CHECKED_SENTENCES])
        batch_ids, offsets = tokenizer.encode(texts)
        if len(batch_ids) and batch_ids.max() >= tokenizer.size:
            raise UserError(f"the tokenizer gave id {batch_ids.max()}, but its vocabulary has {tokenizer.size}")
        ids.append(batch_ids.astype(id_type(tokenizer.size)))
        sentence_ends.append(n_ids + offsets[1:])
        document_ends.append(n_sentences + documents[1:])
        n_ids, n_sentences = n_ids + len(batch_ids), n_sentences + len(texts)
        hashed = hash_sentences(batch_ids, offsets)
        hashes.append(hashed[hashed < np.uint64(task.sentence_sample_limit)])
    return (
        np.concatenate(ids),
        np.concatenate(sentence_ends),
        np.concatenate(document_ends),
        np.concatenate(hashes),
    )


def hash_sentences(ids, offsets):
    """A 64-bit hash of each non-empty sentence's ids, uint64: a polynomial in an odd base modulo 2^64, then mixed."""
    starts = offsets[:-1][np.diff(offsets) > 0]
    if not len(starts):
        return np.zeros(0, np.uint64)
    ends = np.append(starts[1:], len(ids))
    longest = int((ends - starts).max())
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(longest, 0x9E3779B97F4A7C15, np.uint64))
        place = np.arange(len(ids)) - np.repeat(starts, ends - starts)
        terms = (ids.astype(np.uint64) + np.uint64(1)) * powers[place]
        return mix(np.add.reduceat(terms, starts), ends - starts)


def _tables(block, pairs, layout, task, tokenizer, unigram):
    """Serialized examples, a batch of rows at a time; their ids are counted into `unigram` on the way."""
    step = max(1, BATCH_IDS // task.length)
    for start in range(0, len(pairs), step):
        some = pairs.take(slice(start, start + step))
        input_ids, token_types = assemble(
            block.ids, some, task.length, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
        )
        unigram += np.bincount(input_ids.ravel(), minlength=tokenizer.size)
        yield layout.encode(
            {"input_ids": input_ids, "token_type_ids": token_types, "next_sentence_label": some.is_random}
        )
