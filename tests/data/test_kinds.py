"""Every kind of example: what rows hold, that the token account balances, and how little of packed rows is padding."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.data.kinds import ExampleConfig, example_fields, make_rows, write_rows
from bert_jax.data.records import Layout
from bert_jax.errors import UserError
from tests.data.blocks import block_of, corpora, segments_of

LENGTH = 32
CLS, SEP, PAD = 100_001, 100_002, 100_003
EVERY_KIND = [
    ExampleConfig("pairs", LENGTH),
    ExampleConfig("pairs", LENGTH, passes=2),
    ExampleConfig("sop", LENGTH, passes=2),
    ExampleConfig("full_sentences", LENGTH),
    ExampleConfig("doc_sentences", LENGTH),
    ExampleConfig("packed", 2 * LENGTH),
    ExampleConfig("packed", 2 * LENGTH, pieces="pairs", piece_length=LENGTH),
    ExampleConfig("packed", 2 * LENGTH, pieces="sop", piece_length=LENGTH, passes=2),
    ExampleConfig("packed", 2 * LENGTH, pieces="doc_sentences", piece_length=LENGTH),
]
names = [f"{config.kind}-{config.pieces}-{config.passes}" for config in EVERY_KIND]


def written(config, sentence_lengths, seed=0):
    block = block_of(sentence_lengths)
    rows, account = make_rows(block, config, np.random.default_rng(seed))
    return block, rows, account, write_rows(block.ids, rows, config, CLS, SEP, PAD)


@pytest.mark.parametrize("config", EVERY_KIND, ids=names)
@settings(max_examples=40, deadline=None)
@given(sentence_lengths=corpora, seed=st.integers(0, 2**32 - 1))
def test_the_account_balances_and_rows_hold_what_it_says(config, sentence_lengths, seed):
    block, rows, account, columns = written(config, sentence_lengths, seed)
    account.check()
    assert account.tokens_in == config.passes * len(block.ids)
    ids = columns["input_ids"]
    text = ids[~np.isin(ids, (CLS, SEP, PAD))]
    assert len(text) == account.tokens_out
    if config.piece_kind != "pairs":
        assert account.truncated == account.borrowed == 0
        assert account.tokens_in == account.tokens_out + account.without_partner
        if account.without_partner == 0:
            np.testing.assert_array_equal(np.sort(text), np.repeat(block.ids, config.passes))
    assert (ids[:, 0] == CLS).all()
    np.testing.assert_array_equal((ids != PAD).sum(axis=1), rows.lengths)
    assert set(columns) == {field.name for field in example_fields(config, 10)}


@pytest.mark.parametrize("config", EVERY_KIND, ids=names)
def test_rows_are_their_pieces_one_after_another(config):
    rng = np.random.default_rng(0)
    _, rows, _, columns = written(config, [rng.integers(1, 20, 30).tolist() for _ in range(12)])
    pieces = segments_of(rows.pieces)
    for r in range(len(rows)):
        expected, segments, types = [], [], []
        for number, piece in enumerate(pieces[rows.first[r] : rows.first[r + 1]], 1):
            tokens = [CLS, *(token for segment in piece for token in [*segment, SEP])]
            expected += tokens
            segments += [number] * len(tokens)
            second = len(piece[1]) + 1 if config.label_values else 0
            types += [0] * (len(tokens) - second) + [1] * second
        padding = config.length - len(expected)
        assert columns["input_ids"][r].tolist() == expected + [PAD] * padding
        if config.kind == "packed":
            assert columns["segment_ids"][r].tolist() == segments + [0] * padding
        if config.label_values:
            assert columns["token_type_ids"][r].tolist() == types + [0] * padding


def test_labels_of_packed_rows_stand_in_the_order_of_their_pieces():
    config = ExampleConfig("packed", 64, pieces="pairs", piece_length=16)
    _, rows, _, columns = written(config, [[3] * 40] * 20)
    labels = columns["next_sentence_label"]
    assert labels.shape == (len(rows), config.most_pieces) and config.most_pieces == 4
    for r in range(len(rows)):
        count = columns["segment_ids"][r].max()
        assert labels[r, :count].tolist() == rows.pieces.label[rows.first[r] : rows.first[r + 1]].tolist()
        assert not labels[r, count:].any()
    assert 0.3 < rows.pieces.label.mean() < 0.7


def test_the_layout_can_be_written_and_read_back():
    for config in EVERY_KIND:
        _, _, _, columns = written(config, [[3, 9, 4], [30], [2, 2]])
        columns["input_ids"] = columns["input_ids"] % 1000
        layout = Layout(example_fields(config, 1000))
        back = layout.decode([row.tobytes() for row in layout.encode(columns)], str)
        for name, values in columns.items():
            np.testing.assert_array_equal(back[name], values)


def test_pieces_do_not_stand_in_the_order_of_their_length():
    _, rows, _, _ = written(ExampleConfig("packed", 128), [[n] for n in range(1, 60)] * 20)
    first = rows.pieces.lengths[rows.first[:-1]]
    several = np.diff(rows.first) > 1
    longest = np.maximum.reduceat(rows.pieces.lengths, rows.first[:-1])
    assert 0.2 < (first == longest)[several].mean() < 0.8


@pytest.mark.parametrize("length", [128, 512])
def test_real_articles_and_books_pack_with_less_than_three_percent_of_padding(real_blocks, length):
    for name, block in real_blocks.items():
        config = ExampleConfig("packed", length)
        rows, account = make_rows(block, config, np.random.default_rng(0))
        fill = rows.lengths.sum() / (length * len(rows))
        assert fill >= 0.97, (name, fill)
        assert account.tokens_in == account.tokens_out
        apart, _ = make_rows(block, dataclasses.replace(config, kind="doc_sentences"), np.random.default_rng(0))
        assert fill > apart.lengths.sum() / (length * len(apart))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "lines"}, "kind: found 'lines', expected one of pairs, sop, full_sentences, doc_sentences, packed"),
        ({"kind": "packed", "pieces": "rows"}, "pieces: found 'rows', expected one of documents"),
        ({"pieces": "sop"}, "pieces and piece_length are for kind 'packed': found them with kind 'pairs'"),
        ({"piece_length": 64}, "pieces and piece_length are for kind 'packed'"),
        ({"kind": "packed", "piece_length": 256}, "piece_length: found 256, expected 8 to length 128"),
        ({"kind": "full_sentences", "passes": 2}, "passes: found 2, expected 1 for 'full_sentences'"),
        ({"kind": "packed", "passes": 3}, "passes: found 3, expected 1 for 'documents'"),
        ({"short_probability": 1.5}, "short_probability: found 1.5"),
    ],
)
def test_settings_that_contradict_each_other_are_named(settings, message):
    with pytest.raises(UserError, match=re.escape(message)):
        ExampleConfig(**settings).check()
