"""The rows drawn for a report: those of the data, the same each time, masked as the train step masks them."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest

from bert_jax.config import PretrainConfig
from bert_jax.data.masking import MaskingConfig, max_predictions_for, prediction_counts
from bert_jax.errors import UserError
from bert_jax.randomness import Purpose
from bert_jax.report.masked_sample import ROWS, SEED, draw_sample
from bert_jax.step import Vocabulary, masked_batch
from tests.data.conftest import rows_of
from tests.report.conftest import KINDS

LABEL_COLUMNS = {"pairs": "next_sentence_label", "sop": "sentence_order_label", "packed pairs": "next_sentence_label"}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_data_and_masks_those_of_training(kind, data_of_kind):
    prepared = data_of_kind(kind)
    sample, rows = draw_sample(prepared.path), rows_of(prepared)
    indices = [row.index for row in sample.rows]
    assert len(set(indices)) == ROWS < sample.examples == prepared.size("train") and indices == sorted(indices)
    settings = PretrainConfig(seed=SEED)
    config = dataclasses.replace(settings, model=dataclasses.replace(settings.model, sentence_head="none"))
    vocabulary = Vocabulary.of(sample.tokenizer)
    train_masks = jax.jit(
        lambda batch, index: masked_batch(config, sample.masking, vocabulary, batch, Purpose.TRAIN_MASKS, index)
    )
    for row in sample.rows:
        np.testing.assert_array_equal(row.ids, rows["input_ids"][row.index])
        one = {name: values[row.index][None].astype(np.int32) for name, values in rows.items()}
        trained = train_masks(one | {"row_weight": np.ones(1)}, np.uint32(row.index))
        np.testing.assert_array_equal(row.masked_ids, trained["input_ids"][0])
        used = np.asarray(trained["weights"][0]) > 0
        assert np.flatnonzero(row.is_masked).tolist() == np.asarray(trained["positions"][0])[used].tolist()
        assert not (row.masked_ids != row.ids)[~row.is_masked].any()


@pytest.mark.parametrize("kind", KINDS)
def test_segments_and_labels_are_told(kind, data_of_kind):
    prepared = data_of_kind(kind)
    rows = rows_of(prepared)
    names = set()
    for row in draw_sample(prepared.path).rows:
        assert (row.segment_ids is None) == (not kind.startswith("packed"))
        assert (row.token_types is None) == (kind not in LABEL_COLUMNS)
        if kind in LABEL_COLUMNS:
            n_pieces = 1 if row.segment_ids is None else row.segment_ids.max()
            ones = np.atleast_1d(rows[LABEL_COLUMNS[kind]][row.index])[:n_pieces]
            zero, one = ("in_order", "swapped") if kind == "sop" else ("next", "random")
            assert row.labels == tuple(one if label else zero for label in ones)
            names |= set(row.labels)
        else:
            assert row.labels == ()
    assert len(names) == (2 if kind in LABEL_COLUMNS else 0)


def test_as_many_are_masked_as_the_rate_says(data_of_kind):
    sample = draw_sample(data_of_kind("pairs").path)
    assert sample.masking == MaskingConfig(max_predictions_for(32))
    counts = prediction_counts(sample.masking, 32)
    for row in sample.rows:
        assert row.is_masked.sum() == counts[(row.ids != 0).sum()]
        assert not np.isin(row.ids[row.is_masked], [0, 2, 3, 4]).any()


def test_the_masking_asked_for_is_used(data_of_kind):
    path = data_of_kind("pairs").path
    everything = MaskingConfig(32, rate=1.0, mask_share=1.0, random_share=0.0, unit="word")
    for row in draw_sample(path, everything).rows:
        ordinary = ~np.isin(row.ids, [0, 2, 3, 4])
        np.testing.assert_array_equal(row.is_masked, ordinary)
        assert (row.masked_ids[ordinary] == 4).all()
    with pytest.raises(UserError, match="expected at most the row length 32"):
        draw_sample(path, MaskingConfig(33))


def test_the_same_rows_and_masks_each_time(data_of_kind):
    first, second = (draw_sample(data_of_kind("packed pairs").path) for _ in range(2))
    for one, other in zip(first.rows, second.rows, strict=True):
        assert one.index == other.index
        np.testing.assert_array_equal(one.masked_ids, other.masked_ids)


def test_a_small_split_is_taken_whole(prepare_text):
    prepared = prepare_text("w1 w2.\nw3 w4 w5.\n\nw6.\nw7 w8.\nw9.\n", held_out=0.0)
    sample = draw_sample(prepared.path)
    assert [row.index for row in sample.rows] == list(range(prepared.size("train"))) and sample.examples < ROWS


def test_damage_is_named(data_of_kind, tmp_path, monkeypatch):
    folder = tmp_path / "copy"
    shutil.copytree(data_of_kind("pairs").path, folder)
    shard = next(folder.glob("*train.array_record*"))
    content = shard.read_bytes()
    # A bit in one of the first records; all are drawn, to meet it.
    shard.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    monkeypatch.setattr("bert_jax.report.masked_sample.ROWS", 10_000)
    with pytest.raises(UserError, match=f"{shard.name}, record .*corrupt"):
        draw_sample(folder)
    shard.write_bytes(content)
    (folder / "tokenizer" / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        draw_sample(folder)
    with pytest.raises(UserError, match="not prepared data"):
        draw_sample(tmp_path)
