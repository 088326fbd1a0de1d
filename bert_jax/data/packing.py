"""Several pieces of text in one row, so that little of it is padding."""

import itertools

import numpy as np


def best_fit(lengths, capacity, most_pieces):
    """Which row each piece goes to: int64 [n], rows being numbered from 0 without a gap.

    Best-fit decreasing: from the longest on, each piece goes to the fullest row that still holds it. Rows with equally
    little room are all the same to it, so pieces of one length are placed many at a time. A row gets at most
    `most_pieces`: each piece counts as 1 / most_pieces of a row at least.
    Raises ValueError for a piece that no row holds.
    """
    lengths = np.asarray(lengths, np.int64)
    if len(lengths) and lengths.max() > capacity:
        raise ValueError(f"a piece of {lengths.max()} tokens for rows of {capacity}")
    sizes = np.maximum(lengths, -(-capacity // most_pieces))
    row_of = np.empty(len(sizes), np.int64)
    order = np.argsort(-sizes, kind="stable")
    open_rows = [[] for _ in range(capacity + 1)]  # by the room that is left
    n_open = np.zeros(capacity + 1, np.int64)
    n_rows = 0
    edges = np.append(np.flatnonzero(np.diff(sizes[order], prepend=-1)), len(order)).tolist()
    for start, stop in itertools.pairwise(edges):
        size = int(sizes[order[start]])
        while start < stop:
            room = size + int(np.argmax(n_open[size:] > 0))
            if n_open[room]:
                row = open_rows[room].pop()
                n_open[room] -= 1
            else:
                room, row = capacity, n_rows
                n_rows += 1
            # Once it has taken a piece this row is the fullest, until it cannot take another.
            taken = min(room // size, stop - start)
            row_of[order[start : start + taken]] = row
            start += taken
            open_rows[room - taken * size].append(row)
            n_open[room - taken * size] += 1
    return row_of
