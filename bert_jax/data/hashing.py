"""Hashes of numbers, the same on every machine and in every version: what is written to disk depends on them."""

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(*parts):
    """A 64-bit hash of integers or arrays of them, broadcast together: uint64. Each part counts modulo 2^64.

    Source: splitmix64's finalizer (Steele, Lea and Flood 2014), applied once a part.
    """
    with np.errstate(over="ignore"):
        state = np.uint64(0)
        for part in parts:
            part = np.uint64(part % 2**64) if isinstance(part, int) else np.asarray(part).astype(np.uint64)
            state = (state ^ part) + _STEP
            state = (state ^ (state >> np.uint64(30))) * _FIRST
            state = (state ^ (state >> np.uint64(27))) * _SECOND
            state = state ^ (state >> np.uint64(31))
    return state
