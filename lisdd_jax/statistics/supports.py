"""Supports of the candidate library: their order, and the rule that chooses one.

References:
  docs/method.md, equation 11.
"""

import itertools
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from lisdd_jax.numerics.hosted import namespace

_MAX_SUPPORTS = 200_000


def index_sets(num_terms: int, max_terms: int) -> list[np.ndarray]:
    """Positions of the terms of every support, ``(S_k, k)`` for each size ``k``.

    Raises:
      ValueError: there are too many.
    """
    sizes = range(1, min(max_terms, num_terms) + 1)
    total = sum(math.comb(num_terms, size) for size in sizes)
    if total > _MAX_SUPPORTS:
        raise ValueError(
            f"max_terms must leave at most {_MAX_SUPPORTS} supports of {num_terms} terms,"
            f" got {total} with max_terms = {max_terms}"
        )
    return [np.array(list(itertools.combinations(range(num_terms), size))) for size in sizes]


def supports(num_terms: int, max_terms: int) -> np.ndarray:
    """Every non-empty support of at most ``max_terms`` terms.

    Args:
      num_terms: size of the library.
      max_terms: largest support.

    Returns:
      ``(S, num_terms)`` bool; by size, and in lexicographic order of positions within a size.

    Example:
      >>> supports(3, 2).astype(int).tolist()
      [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]]
    """
    rows = []
    for index_set in index_sets(num_terms, max_terms):
        table = np.zeros((len(index_set), num_terms), bool)
        np.put_along_axis(table, index_set, True, axis=1)
        rows.append(table)
    return np.concatenate(rows)


def sizes(num_terms: int, max_terms: int) -> np.ndarray:
    """Number of terms of every support, ``(S,)`` int32."""
    return supports(num_terms, max_terms).sum(axis=1).astype(np.int32)


def term_places(num_terms: int, max_terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the terms of every support and which of them are in use, each ``(S, m)``.

    Positions out of use repeat the first.

    Example:
      >>> place, used = term_places(2, 2)
      >>> place.tolist(), used.astype(int).tolist()
      ([[0, 0], [1, 1], [0, 1]], [[1, 0], [1, 0], [1, 1]])
    """
    table = supports(num_terms, max_terms)
    used = np.arange(min(max_terms, num_terms)) < table.sum(axis=1)[:, None]
    order = np.argsort(~table, axis=1, kind="stable")[:, : used.shape[1]]
    return np.where(used, order, order[:, :1]), used


def error_limit(least: Any, tolerance: Any, rounding: Any = 0.0) -> Any:
    """The largest held-out error that counts as no worse than ``least``.

    Args:
      least: the error compared with.
      tolerance: relative excess allowed.
      rounding: differences of errors up to it are none.
    """
    return (1 + tolerance) * least + rounding


class Choice(NamedTuple):
    """Position ``(...)`` of the chosen support, and which ones ``(..., S)`` are within the
    tolerance."""

    position: jax.Array
    equivalent: jax.Array


def choose_support(
    errors: jax.Array,
    num_terms: np.ndarray | jax.Array,
    tolerance: jax.Array,
    rounding: jax.Array | float = 0.0,
) -> Choice:
    """The lowest error of the smallest size that has an error within the tolerance of the lowest.

    Of errors that differ by rounding only, as those of terms that are multiples of each other, the
    first counts as the lowest: the order of the rows would decide else.

    Args:
      errors: ``(..., S)`` held-out errors, inf where a support cannot be judged.
      num_terms: ``(S,)`` sizes of the supports.
      tolerance: relative excess of error within which a smaller support wins.
      rounding: ``(...)`` differences of errors up to it are none.

    Returns:
      A ``Choice``; position 0 and nothing equivalent where no support can be judged.
    """
    xp = namespace(errors)
    size = xp.asarray(num_terms, np.int32).reshape((1,) * (errors.ndim - 1) + (-1,))
    rounding = xp.asarray(rounding, errors.dtype)[..., None]
    least = partial(xp.min, axis=-1, keepdims=True)
    limit = error_limit(least(errors), tolerance, rounding)
    equivalent = (errors <= limit) & xp.isfinite(errors)
    smallest = least(xp.where(equivalent, size, np.iinfo(np.int32).max))
    eligible = xp.where(equivalent & (size == smallest), errors, xp.inf)
    tied = (eligible <= least(eligible) + rounding) & xp.isfinite(eligible)
    return Choice(xp.argmax(tied, -1), equivalent)
