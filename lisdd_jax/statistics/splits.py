"""Random splits of the rows in use that never divide a block of dependent rows.

A split is drawn over units in the order of the record: single rows, or blocks where labels are
given. Neighbouring units go to different parts, so all parts cover the record evenly.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.numerics import extremes

_MOST_LISTED = 5
"""Largest number of labels whose orders are all listed."""


def unit_ranks(mask: jax.Array, block: jax.Array | None = None) -> jax.Array:
    """Rank of every row's unit in the order in which units first appear.

    Args:
      mask: ``(n,)`` bool, rows in use.
      block: ``(n,)`` int labels; rows of one label are one unit. Every row is one where None.

    Returns:
      ``(n,)`` int32 from 0 to the number of units less 1; of no meaning in rows out of use.

    Example:
      >>> import jax.numpy as jnp
      >>> unit_ranks(jnp.array([True, True, False, True]), jnp.array([7, 3, 9, 7])).tolist()[:2]
      [0, 1]
    """
    if block is None:
        return extremes.running_sum(mask.astype(jnp.int32))[1:] - 1
    num = mask.shape[0]
    # Rows of a block one after the other, in the order of the record; rows out of use last.
    order = jnp.lexsort((block, ~mask))
    label, used = block[order], mask[order]
    begins = used & jnp.concatenate([jnp.ones(1, bool), label[1:] != label[:-1]])
    group = jnp.cumsum(begins, dtype=jnp.int32) - 1
    # A stable sort has the first row of a block, which stands for it, in front.
    leads = jnp.zeros(num, bool).at[order].set(begins)
    rank_of_row = jnp.cumsum(leads, dtype=jnp.int32) - 1
    rank_of_group = (
        jnp.zeros(num, jnp.int32)
        .at[jnp.where(begins, group, num)]
        .set(rank_of_row[order], mode="drop")
    )
    return jnp.zeros(num, jnp.int32).at[order].set(rank_of_group[jnp.maximum(group, 0)])


class Halves(NamedTuple):
    """Two random halves of the rows in use, as a mask and gathered.

    Attributes:
      first: ``(n,)`` bool, rows of the first half.
      rows: ``(2, m)`` int32, positions of the rows of each half; ``m`` is ``n // 2 + 1``, and ``n``
        where blocks may be of any size.
      used: ``(2, m)`` bool, which of those entries hold a row.
    """

    first: jax.Array
    rows: jax.Array
    used: jax.Array

    def take(self, values: jax.Array) -> jax.Array:
        """Rows of both halves, ``(2, m, ...)`` from ``(n, ...)``; zero where unused."""
        return take_rows(values, self.rows, self.used)


def take_rows(values: jax.Array, rows: jax.Array, used: jax.Array) -> jax.Array:
    """Rows of values ``(n, ...)`` at positions ``(..., m)``; zero where unused."""
    shape = used.shape + (1,) * (values.ndim - 1)
    return jnp.where(used.reshape(shape), values[rows], jnp.zeros((), values.dtype))


def random_halves(key: jax.Array, mask: jax.Array, block: jax.Array | None = None) -> Halves:
    """Split the rows in use: of every two consecutive units a coin sends one to either half.

    Both halves cover the record evenly, and without blocks neither is longer than half of it:
    gathered, they cost half as much as masked.

    Args:
      key: typed key.
      mask: ``(n,)`` bool, rows in use.
      block: ``(n,)`` int labels of dependent rows, which stay together; None where there are none.

    Returns:
      ``Halves``; of an odd last unit a coin decides.
    """
    num, num_pairs = mask.shape[0], mask.shape[0] // 2 + 1
    rank = unit_ranks(mask, block)
    pair = jnp.maximum(rank, 0) // 2
    coins = jax.random.bernoulli(key, 0.5, (num_pairs,))
    first = mask & ((rank % 2 == 1) == coins[pair])
    if block is None:
        length, place_first, place_second = num_pairs, pair, pair
    else:
        length = num
        place_first, place_second = (
            extremes.running_sum(half.astype(jnp.int32))[1:] - 1 for half in (first, mask & ~first)
        )
    positions = jnp.arange(num, dtype=jnp.int32)
    # Rows out of use share a place that is cut off: to drop them takes a branch for each, which a
    # CPU guesses wrong as often as not.
    place = jnp.where(first, place_first, jnp.where(mask, length + place_second, 2 * length))
    rows = jnp.full(2 * length + 1, num, jnp.int32)
    rows = rows.at[place].set(positions, mode="promise_in_bounds")[:-1]
    used = rows < num
    shape = (2, length)
    return Halves(first, jnp.where(used, rows, 0).reshape(shape), used.reshape(shape))


def random_half(key: jax.Array, mask: jax.Array, block: jax.Array | None = None) -> jax.Array:
    """The first of two random halves.

    Args:
      key: typed key.
      mask: ``(n,)`` bool, rows in use.
      block: ``(n,)`` int labels of dependent rows, or None.

    Returns:
      ``(n,)`` bool, a subset of ``mask``.
    """
    return random_halves(key, mask, block).first


def random_folds(
    key: jax.Array, mask: jax.Array, num_folds: int, block: jax.Array | None = None
) -> jax.Array:
    """Label the rows in use: every label once in each ``num_folds`` consecutive units, at random.

    Args:
      key: typed key.
      mask: ``(n,)`` bool, rows in use.
      num_folds: at least 1 (static).
      block: ``(n,)`` int labels of dependent rows, which stay together; None where there are none.

    Returns:
      ``(n,)`` int32 in ``0 .. num_folds - 1``; of no meaning in rows out of use.
    """
    rank = jnp.maximum(unit_ranks(mask, block), 0)
    orders = _random_orders(key, -(-mask.shape[0] // num_folds), num_folds)
    return orders[rank // num_folds, rank % num_folds]


def _random_orders(key: jax.Array, num: int, size: int) -> jax.Array:
    """So many orders of ``size`` labels, ``(num, size)`` int32."""
    if size > _MOST_LISTED:
        draws = jax.random.uniform(key, (num, size), jnp.float32)
        return jnp.argsort(draws, axis=1).astype(jnp.int32)
    # Drawing one of a list costs less than sorting.
    table = np.array(list(itertools.permutations(range(size))), np.int32)
    return jnp.asarray(table)[jax.random.randint(key, (num,), 0, len(table))]
