"""Packed rows: a piece is computed as if it were alone, whatever its neighbours are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.model import encoder, heads, pieces
from tests.model import hf, packed
from tests.model.test_encoder import COMPUTE, CONFIG, perturbed_params

LENGTH, SLOTS = packed.LENGTH, packed.SLOTS


@st.composite
def lengths_of_rows(draw):
    """Rows of 24 tokens: lengths of their pieces, with any padding, also nothing else."""
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        cuts = draw(st.lists(st.integers(1, LENGTH), max_size=SLOTS, unique=True))
        rows.append(np.diff([0, *sorted(cuts)]).tolist())
    return rows


@given(lengths_of_rows())
@settings(max_examples=40, deadline=None)
def test_what_belongs_to_which_piece(rows):
    """Against loops over pieces: places restart, tokens see their own piece, and starts are where pieces begin."""
    segment_ids, places, starts = (np.zeros((len(rows), size), np.int32) for size in (LENGTH, LENGTH, SLOTS))
    exists, seen = np.zeros((len(rows), SLOTS), bool), np.zeros((len(rows), LENGTH, LENGTH), bool)
    for row, lengths in enumerate(rows):
        start = 0
        for number, length in enumerate(lengths):
            place = slice(start, start + length)
            segment_ids[row, place], places[row, place] = number + 1, range(length)
            starts[row, number], exists[row, number], seen[row, place, place] = start, True, True
            start += length
        places[row, start:], seen[row, start:, start:] = range(LENGTH - start), True
    np.testing.assert_array_equal(pieces.piece_positions(segment_ids), places)
    np.testing.assert_array_equal(pieces.same_piece(segment_ids), seen)
    found_starts, found_exists = pieces.piece_starts(segment_ids, SLOTS)
    np.testing.assert_array_equal(found_starts, starts)
    np.testing.assert_array_equal(found_exists, exists)


def batch_of(members, rows):
    """The packed batch as the model takes it, with all positions predicted."""
    batch = jax.tree.map(jnp.asarray, packed.pack(members, rows))
    starts, _ = pieces.piece_starts(batch["segment_ids"], SLOTS)
    positions = jnp.broadcast_to(jnp.arange(LENGTH), (len(rows), LENGTH))
    return batch | {"mask": batch["segment_ids"] > 0, "positions": positions, "piece_starts": starts}


@jax.jit
def outputs(params, batch):
    """(hidden states [N+1, B, L, D], MLM logits [B, L, V], sentence logits [B, S, 2])."""
    inputs = batch["input_ids"], batch["token_type_ids"], batch["mask"], batch["segment_ids"]
    hidden, _ = encoder.encode_layers(params, CONFIG, COMPUTE, *inputs)
    mlm, sentence = heads.pretraining_logits(params, CONFIG, COMPUTE, batch)
    return hidden, mlm, sentence


def of_piece(found, row, place, number):
    hidden, mlm, sentence = found
    return hidden[:, row, place], mlm[row, place], sentence[row, number]


def test_other_words_in_a_neighbour_change_not_one_bit():
    """Hidden states of each layer, logits and the pooled output of all other pieces; those of the piece do change."""
    params, (members, rows) = perturbed_params(CONFIG), packed.random_pieces(CONFIG.vocab_size)
    before = outputs(params, batch_of(members, rows))
    for changed in (0, 1, 2, 8):
        other = [dict(piece) for piece in members]
        ids = members[changed]["input_ids"]
        other[changed]["input_ids"] = np.where(ids > 2, (ids + 7) % CONFIG.vocab_size, ids)
        other[changed]["token_type_ids"] = 1 - members[changed]["token_type_ids"]
        after = outputs(params, batch_of(other, rows))
        for index, row, place in packed.places(packed.ROWS):
            number = rows[row].index(index)
            pairs = zip(of_piece(before, row, place, number), of_piece(after, row, place, number), strict=True)
            for a, b in pairs:
                assert np.array_equal(a, b) == (index != changed)


@pytest.mark.parametrize("neighbours", [(2,), (14,), (), (5, 4, 3)])
def test_neighbours_of_other_lengths_change_nothing(neighbours):
    """A piece of ten tokens after others, between them and before them, against one that is alone."""
    params = perturbed_params(CONFIG)
    (piece,), _ = packed.random_pieces(CONFIG.vocab_size, [(10,)])
    others, _ = packed.random_pieces(CONFIG.vocab_size, [neighbours], seed=1)
    expected = of_piece(outputs(params, batch_of([piece], [[0]])), 0, slice(0, 10), 0)
    for number in range(len(neighbours) + 1):
        members = [*others[:number], piece, *others[number:]]
        start = sum(neighbours[:number])
        found = outputs(params, batch_of(members, [range(len(members))]))
        for a, b in zip(of_piece(found, 0, slice(start, start + 10), number), expected, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("unrolled", [False, True])
def test_no_gradient_crosses_a_boundary(unrolled):
    """Of a piece's hidden states and sentence logits by the embeddings of other pieces' words, places and types: 0."""
    params, compute = perturbed_params(CONFIG), dataclasses.replace(COMPUTE, scan_layers=not unrolled)
    members, rows = packed.random_pieces(CONFIG.vocab_size, [(9, 5, 10)])
    for number, piece in enumerate(members):  # no word in two pieces, and types that only the middle one has
        piece["input_ids"] = np.arange(len(piece["input_ids"])) + 30 * number
        piece["token_type_ids"] = np.full(len(piece["input_ids"]), number == 1, np.int32)
    batch = batch_of(members, rows)

    def of_the_middle_one(params):
        inputs = batch["input_ids"], batch["token_type_ids"], batch["mask"]
        hidden = encoder.encode(params, CONFIG, compute, *inputs, jax.random.key(3), batch["segment_ids"])
        sentence = heads.sentence_logits(params, CONFIG, compute, hidden, batch["piece_starts"])
        return jnp.sum(hidden[0, 9:14] ** 2) + jnp.sum(sentence[0, 1] ** 2)

    tables = jax.grad(of_the_middle_one)(params)["embeddings"]
    has_gradient = {name: np.any(tables[name]["embedding"] != 0, axis=1) for name in ("word", "position", "token_type")}
    assert np.flatnonzero(has_gradient["word"]).tolist() == list(range(30, 35))
    assert np.flatnonzero(has_gradient["position"]).tolist() == list(range(5))
    assert np.flatnonzero(has_gradient["token_type"]).tolist() == [1]


@pytest.mark.parity
def test_pieces_are_those_of_transformers():
    """Each piece by itself through BertForPreTraining, which knows no packing."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    params, (members, rows) = perturbed_params(CONFIG), packed.random_pieces(CONFIG.vocab_size)
    model = transformers.BertForPreTraining(hf.hf_config(CONFIG)).eval()
    model.load_state_dict(hf.hf_state_dict(params, CONFIG), strict=True)
    found = outputs(params, batch_of(members, rows))
    for index, row, place in packed.places(packed.ROWS):
        inputs = {name: torch.tensor(members[index][name])[None].long() for name in ("input_ids", "token_type_ids")}
        with torch.no_grad():
            theirs = model(**inputs, output_hidden_states=True)
        hidden, mlm, sentence = of_piece(found, row, place, rows[row].index(index))
        np.testing.assert_allclose(mlm[:, : CONFIG.vocab_size], theirs.prediction_logits[0].numpy(), atol=1e-5)
        np.testing.assert_allclose(sentence, theirs.seq_relationship_logits[0].numpy(), atol=1e-5)
        for ours, other in zip(hidden, theirs.hidden_states, strict=True):
            np.testing.assert_allclose(ours, other[0].numpy(), atol=1e-5)


def test_one_piece_that_fills_its_row_is_the_row_unpacked():
    params, (members, rows) = perturbed_params(CONFIG), packed.random_pieces(CONFIG.vocab_size, [(LENGTH,)])
    batch = batch_of(members, rows)
    unpacked = {name: values for name, values in batch.items() if name not in ("segment_ids", "piece_starts")}
    mlm, sentence = heads.pretraining_logits(params, CONFIG, COMPUTE, batch)
    mlm_unpacked, sentence_unpacked = heads.pretraining_logits(params, CONFIG, COMPUTE, unpacked)
    np.testing.assert_allclose(mlm, mlm_unpacked, atol=1e-6)
    np.testing.assert_allclose(sentence[:, 0], sentence_unpacked, atol=1e-6)


def test_unpacked_rows_have_no_mask_of_length_by_length():
    """The cost of unpacked rows stays: no boolean [B, L, L] in their program, as packed ones have it."""
    params, (members, rows) = perturbed_params(CONFIG), packed.random_pieces(CONFIG.vocab_size)
    batch = batch_of(members, rows)
    unpacked = {name: values for name, values in batch.items() if name not in ("segment_ids", "piece_starts")}
    forward = jax.jit(lambda params, batch: heads.pretraining_logits(params, CONFIG, COMPUTE, batch))
    mask = f"tensor<{len(rows)}x1x{LENGTH}x{LENGTH}xi1>"
    assert mask in forward.lower(params, batch).as_text()
    assert mask not in forward.lower(params, unpacked).as_text()
