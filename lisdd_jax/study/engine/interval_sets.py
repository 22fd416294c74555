"""Sets of replications as sorted integer intervals: what is wanted, done and missing.

Replication ``i`` of cell ``c`` is the integer ``c * STRIDE + i``, whatever the number of
replications, so a longer study contains the shorter one. A set of replications is an int64 array
``(k, 2)`` of disjoint half-open intervals in rising order; its size depends on the number of
cells, not of replications.
"""

import numpy as np

STRIDE = 1 << 32


def share_of_cells(
    cells: np.ndarray, num_replications: int, index: int = 0, count: int = 1
) -> np.ndarray:
    """Part ``index`` of ``count`` equal parts of the replications of every cell.

    Each cell is divided, because cells differ in cost and replications of one cell do not. The
    parts rotate from cell to cell, so that remainders spread over all parts.

    Args:
      cells: ``(k,)`` rising cell numbers.
      num_replications: replications per cell.
      index: the part, from 0.
      count: number of parts.

    Returns:
      ``(k, 2)`` intervals; empty ones are left out.
    """
    cells = np.asarray(cells, np.int64)
    part = (index + cells) % count
    bounds = np.stack([part, part + 1], axis=1) * num_replications // count
    intervals = cells[:, None] * STRIDE + bounds
    return intervals[intervals[:, 0] < intervals[:, 1]]


def size(intervals: np.ndarray) -> int:
    """Number of replications in the set."""
    return int(np.sum(intervals[:, 1] - intervals[:, 0]))


def subtract(wanted: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """Members of ``wanted`` that are not in ``removed``; ``removed`` may overlap itself."""
    points = np.concatenate([wanted[:, 0], wanted[:, 1], removed[:, 0], removed[:, 1]])
    steps = np.repeat([1, -1, -2, 2], [len(wanted)] * 2 + [len(removed)] * 2)
    order = np.argsort(points, kind="stable")
    points, depth = points[order], np.cumsum(steps[order])
    kept = (depth[:-1] > 0) & (points[1:] > points[:-1])
    return _merge_adjacent(np.stack([points[:-1][kept], points[1:][kept]], axis=1))


def intersect(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Members of both sets."""
    return subtract(first, subtract(first, second))


def _merge_adjacent(intervals: np.ndarray) -> np.ndarray:
    first = np.ones(len(intervals), bool)
    first[1:] = intervals[1:, 0] != intervals[:-1, 1]
    last = np.roll(first, -1)
    return np.stack([intervals[first, 0], intervals[last, 1]], axis=1)


def contains(intervals: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Which of ``members`` are in the set, as a boolean array."""
    if not len(intervals):
        return np.zeros(members.shape, bool)
    position = np.searchsorted(intervals[:, 0], members, side="right") - 1
    return (position >= 0) & (members < intervals[np.maximum(position, 0), 1])


def section(intervals: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Members number ``start`` to ``stop - 1`` of the set, as intervals."""
    ends = np.cumsum(intervals[:, 1] - intervals[:, 0])
    begins = ends - (intervals[:, 1] - intervals[:, 0])
    touched = (begins < stop) & (ends > start)
    cut = intervals[touched].copy()
    cut[:, 0] += np.maximum(start - begins[touched], 0)
    cut[:, 1] -= np.maximum(ends[touched] - stop, 0)
    return cut


def members(intervals: np.ndarray) -> np.ndarray:
    """Every member of the set in rising order, ``(size,)`` int64."""
    lengths = intervals[:, 1] - intervals[:, 0]
    offsets = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(intervals[:, 0] - offsets, lengths)


def split_members(members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cell and replication of each member."""
    return members // STRIDE, members % STRIDE
