"""Texts as rows, against the tokenizer of transformers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_jax.errors import UserError
from bert_jax.tasks.features import encode_rows, longest_first, make_batch, rounded_width
from bert_jax.text.tokenizer import load_tokenizer

TEXTS = ["A small cat sat.", "", "Unbelievably, the quick brown fox jumped over 1,234 lazy dogs!", "yes", "é [SEP] x"]


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return load_tokenizer(minilm)


@pytest.mark.parity
@pytest.mark.parametrize("length", [6, 9, 10, 16, 128])
@pytest.mark.parametrize("pairs", [False, True])
def test_rows_are_those_of_transformers(tokenizer, minilm, length, pairs):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(minilm)
    first = [text for text in TEXTS for _ in TEXTS if "[SEP]" not in text]  # which theirs reads as the special token
    second = [text for _ in first for text in TEXTS if "[SEP]" not in text][: len(first)] if pairs else None
    features = encode_rows(tokenizer, first, second, length=length)
    expected = theirs(first, second, truncation="longest_first", max_length=length)
    for n, ids in enumerate(expected["input_ids"]):
        start, end = features.offsets[n : n + 2]
        assert features.ids[start:end].tolist() == ids
        types = (np.arange(end - start) >= features.second[n]).astype(int).tolist()
        assert types == expected["token_type_ids"][n]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 50))
def test_truncation_takes_from_the_longer_one(a, b, room):
    kept_a, kept_b = (int(kept) for kept in longest_first(np.array(a), np.array(b), room))
    assert kept_a <= a and kept_b <= b and kept_a + kept_b == min(a + b, room)
    if kept_a < a and kept_b < b:
        assert abs(kept_a - kept_b) <= 1
    elif kept_a < a:
        assert kept_a >= kept_b
    elif kept_b < b:
        assert kept_b >= kept_a


def test_a_special_token_spelt_in_a_text_is_text(tokenizer):
    ids = encode_rows(tokenizer, ["[SEP] [CLS]"], length=32).ids
    assert (ids == tokenizer.sep_id).sum() == 1 and (ids == tokenizer.cls_id).sum() == 1


def test_batches_hold_the_rows_and_padding(tokenizer):
    features = encode_rows(tokenizer, TEXTS, TEXTS[::-1], length=20)
    batch = make_batch(features, [3, 1], size=3, pad_id=tokenizer.pad_id, width=24)
    assert batch["input_ids"].shape == (3, 24)
    for row, n in enumerate((3, 1)):
        ids = features.ids[features.offsets[n] : features.offsets[n + 1]]
        assert batch["input_ids"][row][batch["mask"][row]].tolist() == ids.tolist()
        assert batch["token_type_ids"][row].sum() == len(ids) - features.second[n]
    assert batch["mask"][2].sum() == 1 and not batch["token_type_ids"][2].any()
    part = features.select([3, 1])
    assert part.ids.tolist() == [
        *features.ids[slice(*features.offsets[3:5])],
        *features.ids[slice(*features.offsets[1:3])],
    ]


def test_texts_above_the_limit_are_counted_or_refused(tokenizer):
    assert encode_rows(tokenizer, TEXTS, length=8).truncated == 1
    with pytest.raises(UserError, match=r"a text of \d+ tokens, the limit is 8: 'Unbeliev"):
        encode_rows(tokenizer, TEXTS[2:], length=8, truncate=False)
    with pytest.raises(UserError, match="a length of 3 tokens"):
        encode_rows(tokenizer, TEXTS, TEXTS, length=3)


def test_widths_are_few_and_waste_little():
    widths = {longest: rounded_width(longest, 512) for longest in range(3, 513)}
    assert len(set(widths.values())) == 40 and all(width >= longest for longest, width in widths.items())
    assert max(width - longest for longest, width in widths.items() if longest > 32) < 32
    assert max(width / longest for longest, width in widths.items() if longest > 32) < 9 / 8
    assert rounded_width(29, 30) == 30  # a model of 30 positions reads no row of 32
