"""Data sets mixed by weight: shares at every position, each set in its own order, the same from any position."""

import re

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax import parallel
from bert_jax.config import MeshConfig
from bert_jax.data.loader import Loader, eval_batches
from bert_jax.data.mixture import Mixture, mixed_positions, open_data
from bert_jax.data.shuffle import example_ids
from bert_jax.errors import UserError
from tests.data.conftest import corpus


@pytest.fixture
def mixture(prepare_text):
    """Two data sets of different sizes, 3 to 1 by weight."""
    paths = [
        prepare_text(corpus(np.random.default_rng(n), size), f"part{n}", held_out=0.2).path
        for n, size in enumerate((40, 90))
    ]
    return open_data(f"{paths[0]},weight=3;{paths[1]},weight=1")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=5), st.integers(0, 2**32 - 2000))
def test_every_stretch_has_its_shares_and_each_order_is_gone_through_without_a_gap(weights, start):
    part, place = mixed_positions(np.arange(start, start + 1000), weights)
    shares = np.array(weights) / sum(weights)
    for number in range(len(weights)):
        mine = part == number
        assert abs(mine.sum() - 1000 * shares[number]) <= len(weights) + 1
        places = place[mine]
        assert (np.diff(places) == 1).all()
        if len(places):
            assert abs(places[0] - start * shares[number]) <= len(weights) + 1


def test_the_loader_takes_each_part_in_its_own_order(mixture):
    sharding = parallel.batch_sharding(parallel.make_mesh(MeshConfig(), jax.devices()[:1]))
    loader = Loader(mixture, 16, sharding, seed=5)
    batches = [next(loader) for _ in range(40)]
    loader.close()
    rows = np.concatenate([np.asarray(batch["input_ids"]) for batch, _ in batches])
    part, place = mixed_positions(np.arange(len(rows)), mixture.weights)
    assert np.bincount(part).tolist() == [480, 160]
    for number, data in enumerate(mixture.parts):
        ids = example_ids(place[part == number], data.size("train"), 5 + number)
        np.testing.assert_array_equal(rows[part == number], data.reader("train").read(ids)["input_ids"])
    assert re.search(r"mixed by weight, 75.0% from the \d+ examples of .*part0, 25.0% from", loader.summary)
    resumed = Loader(mixture, 8, sharding, seed=5, start_examples=24 * 16)
    again = np.concatenate([np.asarray(next(resumed)[0]["input_ids"]) for _ in range(32)])
    resumed.close()
    np.testing.assert_array_equal(again, rows[24 * 16 :])


def test_held_out_examples_are_those_of_all_parts_each_once(mixture):
    sharding = parallel.batch_sharding(parallel.make_mesh(MeshConfig(), jax.devices()[:1]))
    batches = list(eval_batches(mixture, 8, sharding))
    rows = np.concatenate([np.asarray(batch["input_ids"])[np.asarray(batch["row_weight"]) > 0] for batch, _ in batches])
    expected = [
        part.reader("validation").read(np.arange(part.size("validation")))["input_ids"] for part in mixture.parts
    ]
    assert sorted(map(bytes, rows.astype(np.int32))) == sorted(map(bytes, np.concatenate(expected).astype(np.int32)))
    first, _ = next(eval_batches(mixture, 32, sharding, n_examples=32))
    of_first_part = {bytes(row) for row in expected[0].astype(np.int32)}
    found = sum(bytes(row) in of_first_part for row in np.asarray(first["input_ids"]))
    assert 0 < found < 32


def test_unigram_counts_are_weighted(mixture):
    shares = [part.unigram() / part.unigram().sum() for part in mixture.parts]
    unigram = mixture.unigram()
    np.testing.assert_allclose(unigram / unigram.sum(), 0.75 * shares[0] + 0.25 * shares[1])


def test_what_cannot_be_mixed_is_refused(prepare_text, tmp_path):
    text = corpus(np.random.default_rng(0), 20)
    one, longer, other_kind = (
        prepare_text(text, name, **settings).path
        for name, settings in (("one", {}), ("longer", {"length": 64}), ("kind", {"kind": "doc_sentences"}))
    )
    assert not isinstance(open_data(str(one)), Mixture)
    for text, message in (
        (f"{one},weight=1;{longer},weight=1", "longer: length is 64, but 32 in"),
        (f"{one},weight=1;{other_kind},weight=1", "kind: layout is"),
        (f"{one},weight=1;{one}", "expected DIR,weight=W with a positive W, as there are 2 data sets"),
        (f"{one},weight=0;{one},weight=1", "expected DIR,weight=W with a positive W"),
        (f"{one},weight=1;{tmp_path / 'none'},weight=1", "none: not prepared data"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            open_data(text)
