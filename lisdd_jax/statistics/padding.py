"""Rows out of use at the end of a table, so that tables of near sizes share compiled programs."""

from typing import Any

import numpy as np

_FEWEST_ROWS, _STEPS = 64, 8
"""Least padded length, and lengths between two powers of two: padding costs an eighth at most."""


def padded_length(num_rows: int) -> int:
    """The next of the lengths to which rows are padded, so that near tables share programs.

    Example:
      >>> [padded_length(n) for n in (3, 65, 100, 6000, 1_000_000)]
      [64, 72, 104, 6144, 1048576]
    """
    if num_rows <= _FEWEST_ROWS:
        return _FEWEST_ROWS
    step = 2 ** ((num_rows - 1).bit_length() - 1) // _STEPS
    return -(-num_rows // step) * step


def pad_rows(arrays: dict[str, Any]) -> dict[str, Any]:
    """The same data with rows out of use up to ``padded_length``; they repeat the last row.

    Args:
      arrays: concrete arrays ``(n, ...)`` by argument of a diagnosis, None for what is not given;
        ``edges`` have no rows, and stay.
    """
    num_rows = arrays["response"].shape[0]
    extra = padded_length(num_rows) - num_rows

    def pad(name: str, array: Any) -> Any:
        if array is None or name == "edges" or not extra:
            return array
        width = [(0, extra), *[(0, 0)] * (array.ndim - 1)]
        if name == "mask":
            return np.pad(np.asarray(array), width)
        return np.pad(np.asarray(array), width, mode="edge")

    return {name: pad(name, array) for name, array in arrays.items()}
