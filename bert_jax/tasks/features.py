"""Texts and pairs of texts as rows of token ids, and rows as batches of fixed shapes."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_jax.errors import UserError

WIDTH_STEP = 4  # the least step between the widths of batches


@dataclasses.dataclass(frozen=True)
class Features:
    """Rows of any length, one behind the other: row i is ids[offsets[i] : offsets[i + 1]].

    ids: int32 [total], special tokens among them. offsets: int64 [n + 1]. second: int32 [n], the place within each row
    where token types of 1 begin; its length where there is no second text. truncated: how many rows were cut.
    """

    ids: np.ndarray
    offsets: np.ndarray
    second: np.ndarray
    truncated: int = 0

    @property
    def lengths(self):
        return np.diff(self.offsets)

    def __len__(self):
        return len(self.second)

    def select(self, rows):
        """The same of some of the rows; `truncated` stays that of all."""
        rows = np.asarray(rows, np.int64)
        ids = self.ids[places(self.offsets[:-1][rows], self.lengths[rows])]
        return Features(ids, offsets_of(self.lengths[rows]), self.second[rows], self.truncated)


def encode_rows(
    tokenizer, first: Sequence[str], second: Sequence[str] | None = None, *, length: int, truncate: bool = True
) -> Features:
    """[CLS] first [SEP], or [CLS] first [SEP] second [SEP], of each text or pair.

    Rows of more than `length` tokens are cut by Hugging Face's rule "longest_first": the longer text loses its end
    until both are as long, then both do. With truncate=False they are refused (UserError).
    """
    extra = 2 if second is None else 3
    if length <= extra:
        raise UserError(f"a length of {length} tokens: expected more than the {extra} special ones of a row")
    ids_a, offsets_a = tokenizer.encode(first)
    ids_b, offsets_b = tokenizer.encode(second if second is not None else [""] * len(first))
    lengths_a, lengths_b = np.diff(offsets_a), np.diff(offsets_b)
    too_long = lengths_a + lengths_b + extra > length
    if not truncate and too_long.any():
        row = int(np.argmax(too_long))
        raise UserError(
            f"a text of {lengths_a[row] + lengths_b[row] + extra} tokens, the limit is {length}: {first[row][:60]!r}"
        )
    kept_a, kept_b = longest_first(lengths_a, lengths_b, length - extra)
    lengths = kept_a + kept_b + extra
    offsets = offsets_of(lengths)
    ids = np.full(offsets[-1], tokenizer.sep_id, np.int32)  # what is not written to below is a [SEP]
    ids[offsets[:-1]] = tokenizer.cls_id
    ids[places(offsets[:-1] + 1, kept_a)] = ids_a[places(offsets_a[:-1], kept_a)]
    ids[places(offsets[:-1] + kept_a + 2, kept_b)] = ids_b[places(offsets_b[:-1], kept_b)]
    return Features(ids, offsets, (kept_a + 2).astype(np.int32), int(too_long.sum()))


def longest_first(lengths_a, lengths_b, room):
    """What of each text stays when a pair has `room` tokens: the rule "longest_first" of Hugging Face tokenizers."""
    shorter, longer = np.minimum(lengths_a, lengths_b), np.maximum(lengths_a, lengths_b)
    longer_kept = np.minimum(longer, np.maximum(shorter, room - shorter))
    both_cut = shorter + longer_kept > room
    shorter = np.where(both_cut, room // 2, shorter)
    longer_kept = np.where(both_cut, room // 2 + room % 2, longer_kept)
    a_is_longer = lengths_a > lengths_b
    return np.where(a_is_longer, longer_kept, shorter), np.where(a_is_longer, shorter, longer_kept)


def make_batch(features: Features, rows, *, size: int, pad_id: int, width: int):
    """Arrays of `size` rows for the model: the rows asked for, then rows of padding with one token each.

    input_ids and token_type_ids int32 [size, width], mask bool.
    """
    rows = np.asarray(rows, np.int64)
    lengths = features.lengths[rows]
    mask = np.arange(width) < np.pad(lengths, (0, size - len(rows)), constant_values=1)[:, None]
    ids = np.full((size, width), pad_id, np.int32)
    ids[: len(rows)][mask[: len(rows)]] = features.ids[places(features.offsets[:-1][rows], lengths)]
    second = np.pad(features.second[rows], (0, size - len(rows)), constant_values=width)
    types = ((np.arange(width) >= second[:, None]) & mask).astype(np.int32)
    return {"input_ids": ids, "token_type_ids": types, "mask": mask}


def rounded_width(longest, most):
    """The width of rows for texts of up to `longest` tokens: rounded up, so that few programs are compiled, by no more
    than an eighth or WIDTH_STEP - 1 tokens, and not above `most`, the model's positions."""
    step = max(WIDTH_STEP, 2 ** (int(longest - 1).bit_length() - 4))
    return min(-(-int(longest) // step) * step, most)


def offsets_of(lengths):
    """Where rows of these lengths begin when one stands behind the other, and where the last ends: int64 [n + 1]."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def places(starts, lengths):
    """The places starts[i] to starts[i] + lengths[i] - 1 of each i, one behind the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
