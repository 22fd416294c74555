"""Splits of the rows in use that never divide a block of dependent rows.

A split is made over units in the order of the rows: single rows, or blocks where labels are given.
Neighbouring units go to different parts, so all parts cover that order evenly.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.numerics import extremes


def unit_ranks(mask: jax.Array, block: jax.Array | None = None) -> jax.Array:
    """Rank of every row's unit in the order in which units first appear.

    Args:
      mask: ``(n,)`` bool, rows in use.
      block: ``(n,)`` int labels; rows of one label are one unit. Every row is one where None.

    Returns:
      ``(n,)`` int32 from 0 to the number of units less 1; of no meaning in rows out of use.

    Example:
      >>> import jax, numpy as np
      >>> used, block = np.array([True, True, False, True]), np.array([7, 3, 9, 7])
      >>> jax.jit(unit_ranks)(used, block).tolist()[:2]
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


def dealt_folds(rank: jax.Array, num_folds: int) -> jax.Array:
    """Deal units out to folds: each fold gets one of so many consecutive units, in changing orders.

    No key decides, and no data do but by their ranks. The orders follow no period, as labels that
    take turns would, with which a factor of the design may keep time.

    Args:
      rank: ``(n,)`` int32 of every row's unit, from 0 on.
      num_folds: at most 5, of whose orders a list is made (static).

    Returns:
      ``(n,)`` int32 in ``0 .. num_folds - 1``.

    Example:
      >>> import jax, numpy as np
      >>> jax.jit(dealt_folds, static_argnums=1)(np.arange(12), 4).reshape(3, 4).tolist()
      [[0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 0, 1]]
    """
    table = np.array(list(itertools.permutations(range(num_folds))), np.int32)
    deal = rank // num_folds
    order = _scatter_bits(deal.astype(jnp.uint32)) % jnp.uint32(len(table))
    return jnp.asarray(table)[order.astype(jnp.int32), rank % num_folds]


def _scatter_bits(word: jax.Array) -> jax.Array:
    """A word of 32 bits each of which depends on all of those of ``word``, one to one.

    References:
      The finaliser of MurmurHash3 (Appleby 2011).
    """
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        word = (word ^ (word >> jnp.uint32(shift))) * jnp.uint32(factor)
    return word ^ (word >> jnp.uint32(16))
