"""Packed batches hold the examples asked for, each once an epoch."""

import numpy as np
import pytest

from bert_jax.tasks.batches import Packer, epoch_batch, training_examples
from bert_jax.tasks.features import Features, offsets_of
from bert_jax.tasks.task import Split


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 41, 103)
    ids = rng.integers(1, 1000, lengths.sum()).astype(np.int32)
    return Split(Features(ids, offsets_of(lengths), (lengths // 2).astype(np.int32)), np.arange(103, dtype=np.int32))


@pytest.mark.parametrize("multiple", [1, 4])
def test_every_text_is_in_its_place(split, multiple):
    packer = Packer(split, 16, multiple, 0, 512)
    assert packer.width == 40 and packer.row_counts[-1] == 16 and not any(c % multiple for c in packer.row_counts)
    shapes = set()
    for start in range(0, 96, 16):
        examples = np.arange(start, start + 16)
        batch = packer(examples)
        shapes.add(batch["input_ids"].shape)
        for n, example in enumerate(examples):
            begin, end = split.features.offsets[example : example + 2]
            row, place = batch["piece_rows"][n], batch["piece_starts"][n]
            here = slice(place, place + end - begin)
            np.testing.assert_array_equal(batch["input_ids"][row, here], split.features.ids[begin:end])
            assert (batch["piece_ids"][row, here] == n).all() and (batch["piece_ids"] == n).sum() == end - begin
            assert batch["token_type_ids"][row, here].sum() == end - begin - split.features.second[example]
        assert batch["labels"].tolist() == examples.tolist() and batch["row_weight"].all()
    assert len(shapes) <= len(packer.row_counts) <= 3
    assert (batch["piece_ids"] >= 0).mean() > 0.7  # padded to the longest it would be 0.55


def test_a_batch_that_is_not_full_is_filled_and_not_counted(split):
    batch = Packer(split, 16, 1, 0, 512)(np.array([5, 7]))
    assert batch["row_weight"].tolist() == [1, 1] + [0] * 14 and batch["piece_ids"].max() == 1
    assert batch["labels"].shape == batch["piece_rows"].shape == (16,)


def test_an_epoch_has_every_example_once_in_an_order_of_its_own():
    examples = training_examples(range(103), 50, seed=1)
    assert len(set(examples)) == 50 and examples.tolist() == sorted(examples)
    assert training_examples(range(103), 0, 1).tolist() == training_examples(range(103), 500, 1).tolist()
    epochs, consumed = [], 0
    for _ in range(3):
        batches = []
        while not batches or consumed % 50:
            batches.append(epoch_batch(examples, consumed, 16, seed=2))
            consumed += len(batches[-1])
        assert [len(batch) for batch in batches] == [16, 16, 16, 2]
        epochs.append(np.concatenate(batches).tolist())
    assert all(sorted(epoch) == examples.tolist() for epoch in epochs) and epochs[0] != epochs[1] != epochs[2]
