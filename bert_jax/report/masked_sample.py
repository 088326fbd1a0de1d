"""Some rows of prepared data, drawn and masked as training would mask them: what the report shows of the examples."""

from dataclasses import dataclass

import jax
import numpy as np

from bert_jax.data.kinds import LABELS
from bert_jax.data.masking import MaskingConfig, max_predictions_for
from bert_jax.data.storage import SplitReader, open_prepared
from bert_jax.randomness import Purpose, row_keys
from bert_jax.step import Vocabulary, mask_rows
from bert_jax.text.tokenizer import Tokenizer, load_tokenizer

ROWS = 10
SEED = 0  # of which rows, and of their masks
SPLIT = "train"


@dataclass(frozen=True)
class MaskedRow:
    """A row of L tokens before and after masking.

    index: its place in the split; ids, masked_ids: int32 [L]; is_masked: bool [L], which are to be predicted;
    token_types: [L], or None where all text is of one type; segment_ids: [L] of packed rows, else None; labels: what
    the label says of each piece, under the names of data.kinds.LABELS, () where there is none.
    """

    index: int
    ids: np.ndarray
    masked_ids: np.ndarray
    is_masked: np.ndarray
    token_types: np.ndarray | None
    segment_ids: np.ndarray | None
    labels: tuple[str, ...]


@dataclass(frozen=True)
class MaskedSample:
    """Rows of the train split, which has `examples` of them."""

    rows: list[MaskedRow]
    examples: int
    masking: MaskingConfig
    tokenizer: Tokenizer


def draw_sample(folder, masking=None):
    """The MaskedSample of a folder of prepared data: always the same rows and masks.

    masking: a MaskingConfig, by default that of the paper for this length. Raises UserError for what is no prepared
    data, a damaged shard or tokenizer, ids outside the vocabulary, and a masking that does not fit.
    """
    prepared = open_prepared(folder)
    tokenizer = load_tokenizer(prepared.tokenizer, fast=False)
    masking = masking or MaskingConfig(max_predictions_for(prepared.length))
    reader = SplitReader(prepared, SPLIT)
    n_rows = min(ROWS, len(reader))
    indices = np.sort(np.random.default_rng(SEED).choice(len(reader), n_rows, replace=False))
    columns = reader.read(indices)
    tokenizer.tokens(columns["input_ids"].ravel())  # which refuses ids that it does not have
    masked = _mask(masking, columns, indices, Vocabulary.of(tokenizer))
    rows = [_row(columns, masked, place, int(index)) for place, index in enumerate(indices)]
    return MaskedSample(rows, len(reader), masking, tokenizer)


def _mask(masking, columns, indices, vocabulary):
    batch = {name: columns[name].astype(np.int32) for name in ("input_ids", "segment_ids") if name in columns}
    keys = row_keys(SEED, Purpose.TRAIN_MASKS, indices.astype(np.uint32))
    masked = jax.jit(lambda batch, keys: mask_rows(masking, vocabulary, batch, keys))(batch, keys)
    return {name: np.asarray(values) for name, values in masked.items()}


def _row(columns, masked, place, index):
    ids = columns["input_ids"][place].astype(np.int32)
    is_masked = np.zeros(len(ids), bool)
    is_masked[masked["positions"][place][masked["weights"][place] > 0]] = True
    of_row = {name: columns[name][place] for name in ("token_type_ids", "segment_ids") if name in columns}
    segment_ids = of_row.get("segment_ids")
    return MaskedRow(
        index=index,
        ids=ids,
        masked_ids=masked["input_ids"][place],
        is_masked=is_masked,
        token_types=of_row.get("token_type_ids"),
        segment_ids=segment_ids,
        labels=_labels(columns, place, 1 if segment_ids is None else int(segment_ids.max(initial=0))),
    )


def _labels(columns, place, n_pieces):
    for name, values in LABELS.values():
        if name in columns:
            return tuple(values[int(label)] for label in np.atleast_1d(columns[name][place])[:n_pieces])
    return ()
