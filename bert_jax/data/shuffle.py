"""The order of training: a seeded permutation of the examples, a new one each epoch, in constant memory."""

import math

import numpy as np

from bert_jax.data.hashing import mix

ROUNDS = 8
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)


def example_ids(positions, n_examples, seed):
    """The examples at `positions` of the endless training order, int64 of the same shape.

    Position p lies in epoch p // n_examples; each epoch holds every example once, in an order of its own. Any position
    costs the same: a Feistel network (Luby and Rackoff 1988) permutes a rectangle of numbers just larger than the data
    set, and is applied again to what falls outside (Black and Rogaway 2002), so each number is looked up by itself.
    """
    epoch, place = np.divmod(np.asarray(positions, np.int64), n_examples)
    keys = mix(seed, epoch)
    width = math.isqrt(n_examples - 1) + 1
    shape = np.uint64(-(-n_examples // width)), np.uint64(width)
    values = _feistel(place.astype(np.uint64), keys, *shape)
    while (outside := values >= n_examples).any():
        values[outside] = _feistel(values[outside], keys[outside], *shape)
    return values.astype(np.int64)


def _feistel(values, keys, height, width):
    """A permutation of [0, height * width) for each key; `values` and `keys` are uint64 of one shape."""
    row, column = values // width, values % width
    for number in range(0, ROUNDS, 2):
        row = (row + _round(column, keys, number)) % height
        column = (column + _round(row, keys, number + 1)) % width
    return row * width + column


def _round(half, keys, number):
    """Any function of half, key and round would do; the upper bits of a product depend on all bits of its factors."""
    with np.errstate(over="ignore"):
        mixed = (half + keys + np.uint64(number) * _MULTIPLIER) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(32)
        return (mixed * _MULTIPLIER) >> np.uint64(32)
