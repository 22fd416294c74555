"""Random starts of a trimmed fit: exact fits through few rows, and a subsample to judge them on.

References:
  docs/method.md, equation 4.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import extremes, normal_equations, tolerances

MAX_DRAWS = 50
"""Draws after which starts that still determine no fit are given up."""


class Columns(NamedTuple):
    """What a search reads: rows along the last axis, and products of all pairs of columns.

    Sums over the last axis are several times as fast.

    Attributes:
      basis: ``(p, m)``.
      response: ``(m,)``.
      usable: ``(m,)`` bool.
      products: ``(q, m)``, of basis and response.
    """

    basis: jax.Array
    response: jax.Array
    usable: jax.Array
    products: jax.Array


def unpack(products: jax.Array, num: int) -> jax.Array:
    """Symmetric matrices ``(..., num, num)`` from products of all pairs of columns."""
    pairs = list(itertools.combinations_with_replacement(range(num), 2))
    place = [[pairs.index((min(i, j), max(i, j))) for j in range(num)] for i in range(num)]
    return products[..., jnp.array(place)]


def make_columns(basis: jax.Array, response: jax.Array, usable: jax.Array) -> Columns:
    """Columns of a basis ``(p, m)`` and a response ``(m,)``; zero where out of use."""
    columns = jnp.where(usable[None], jnp.concatenate([basis, response[None]]), 0.0)
    products = [columns[i:] * columns[i][None] for i in range(columns.shape[0])]
    return Columns(columns[:-1], columns[-1], usable, jnp.concatenate(products))


def row_table(mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Positions of the rows in use, first; and their count."""
    num_rows = mask.shape[0]
    rank = extremes.running_sum(mask.astype(jnp.int32))
    target = jnp.where(mask, rank[:-1], num_rows)
    positions = jnp.arange(num_rows, dtype=jnp.int32)
    # Rows out of use share a place that is cut off, as in ``random_halves``.
    table = jnp.zeros(num_rows + 1, jnp.int32)
    return table.at[target].set(positions, mode="promise_in_bounds")[:-1], rank[-1]


class Draws(NamedTuple):
    """Random numbers of a search: uniform ones for the subsample and for the first starts, a key.

    Made in one call, since every call of the generator costs as much as a pass over the rows.
    """

    subsample: jax.Array
    starts: jax.Array
    key: jax.Array


def draw(key: jax.Array, subsample_size: int, num_starts: int, size: int) -> Draws:
    """Random numbers for a subsample, ``(subsample_size,)``, and starts, ``(num_starts, size)``."""
    uniform = jax.random.uniform(key, (subsample_size + num_starts * size,), jnp.float32)
    starts = uniform[subsample_size:].reshape(num_starts, size)
    return Draws(uniform[:subsample_size], starts, key)


def random_ranks(uniform: jax.Array, count: jax.Array) -> jax.Array:
    """Ranks from 0 to ``count - 1``, near enough to equally likely for fewer than 2^20 rows."""
    ranks = jnp.floor(uniform * count.astype(jnp.float32)).astype(jnp.int32)
    return jnp.clip(ranks, 0, jnp.maximum(count - 1, 0))


def make_starts(
    draws: Draws, rows: Columns, table: jax.Array, count: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Exact fits through ``p`` random rows; subsets that do not determine a fit are drawn again."""

    def fit(uniform: jax.Array) -> tuple[jax.Array, jax.Array]:
        chosen = table[random_ranks(uniform, count)]
        basis, response = rows.basis[:, chosen], rows.response[chosen]
        gram = jnp.einsum("isr,jsr->sij", basis, basis)
        moment = jnp.einsum("isr,sr->si", basis, response)
        swept = normal_equations.sweep(gram, moment, tolerances.ELEMENTAL_PIVOT(gram.dtype))
        return swept.solution, jnp.all(swept.independent, axis=-1)

    def again(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        solutions, good, attempt = state
        key = jax.random.fold_in(draws.key, attempt)
        fresh, fresh_good = fit(jax.random.uniform(key, draws.starts.shape, jnp.float32))
        return jnp.where(good[:, None], solutions, fresh), good | fresh_good, attempt + 1

    first = (*fit(draws.starts), jnp.int32(1))
    solutions, good, _ = lax.while_loop(
        lambda state: ~jnp.all(state[1]) & (state[2] < MAX_DRAWS), again, first
    )
    return solutions, good


def subsample(draws: Draws, rows: Columns, table: jax.Array, count: jax.Array) -> Columns:
    """One random row from each of as many equal stretches of the record, so none comes twice.

    Of fewer rows than that, every one.
    """
    size = draws.subsample.shape[0]
    dtype = rows.response.dtype
    offsets = jnp.arange(size, dtype=dtype) + draws.subsample.astype(dtype)
    ranks = jnp.floor(offsets * (count.astype(dtype) / size)).astype(jnp.int32)
    ranks = jnp.where(count <= size, jnp.arange(size, dtype=jnp.int32), ranks)
    chosen = table[jnp.clip(ranks, 0, jnp.maximum(count - 1, 0))]
    usable = rows.usable[chosen] & (jnp.arange(size, dtype=jnp.int32) < count)
    return make_columns(rows.basis[:, chosen], rows.response[chosen], usable)
