"""Random halves of the rows in use."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.numerics import extremes


class Halves(NamedTuple):
    """Two random halves of the rows in use, as a mask and gathered.

    Attributes:
      first: ``(n,)`` bool, rows of the first half.
      rows: ``(2, n // 2 + 1)`` int32, positions of the rows of each half.
      used: ``(2, n // 2 + 1)`` bool, which of those entries hold a row.
    """

    first: jax.Array
    rows: jax.Array
    used: jax.Array

    def take(self, values: jax.Array) -> jax.Array:
        """Rows of both halves, ``(2, n // 2 + 1, ...)`` from ``(n, ...)``; zero where unused."""
        return take_rows(values, self.rows, self.used)


def take_rows(values: jax.Array, rows: jax.Array, used: jax.Array) -> jax.Array:
    """Rows of values ``(n, ...)`` at positions ``(..., m)``; zero where unused."""
    return jnp.where(used.reshape(used.shape + (1,) * (values.ndim - 1)), values[rows], 0)


def random_halves(key: jax.Array, mask: jax.Array) -> Halves:
    """Split the rows in use: of every two consecutive ones a coin sends one to either half.

    Both halves cover the record evenly, and neither is longer than half of it: gathered, they cost
    half as much as masked.

    Args:
      key: typed key.
      mask: ``(n,)`` bool, rows in use.

    Returns:
      ``Halves``; of an odd last row a coin decides.
    """
    num, length = mask.shape[0], mask.shape[0] // 2 + 1
    rank = extremes.running_sum(mask.astype(jnp.int32))[1:] - 1
    pair = jnp.maximum(rank, 0) // 2
    coins = jax.random.bernoulli(key, 0.5, (length,))
    first = mask & ((rank % 2 == 1) == coins[pair])
    positions = jnp.arange(num, dtype=jnp.int32)
    place = jnp.where(first, pair, jnp.where(mask, length + pair, 2 * length))
    rows = jnp.full(2 * length, num, jnp.int32).at[place].set(positions, mode="drop")
    used = rows < num
    shape = (2, length)
    return Halves(first, jnp.where(used, rows, 0).reshape(shape), used.reshape(shape))


def random_half(key: jax.Array, mask: jax.Array) -> jax.Array:
    """The first of two random halves.

    Args:
      key: typed key.
      mask: ``(n,)`` bool, rows in use.

    Returns:
      ``(n,)`` bool, a subset of ``mask``.
    """
    return random_halves(key, mask).first
