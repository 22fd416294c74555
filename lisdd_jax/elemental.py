"""Random starts of a trimmed fit: exact fits through few rows, and a subsample to judge them on."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import extremes, normal_equations

MAX_DRAWS = 50
"""Draws after which starts that still determine no fit are given up."""


class Rows(NamedTuple):
    """Rows in the basis: ``basis (m, p)``, ``response (m,)``, ``usable (m,)``, ``products``."""

    basis: jax.Array
    response: jax.Array
    usable: jax.Array
    products: jax.Array


def _pairs(num: int) -> tuple[jax.Array, jax.Array]:
    pairs = list(itertools.combinations_with_replacement(range(num), 2))
    return jnp.array([i for i, _ in pairs]), jnp.array([j for _, j in pairs])


def unpack(products: jax.Array, num: int) -> jax.Array:
    """Symmetric matrices ``(..., num, num)`` from products of all pairs of columns."""
    rows, others = _pairs(num)
    matrix = jnp.zeros((*products.shape[:-1], num, num), products.dtype)
    matrix = matrix.at[..., rows, others].set(products)
    return matrix.at[..., others, rows].set(products)


def make_rows(basis: jax.Array, response: jax.Array, usable: jax.Array) -> Rows:
    """Rows with the products of all pairs of columns; those out of use become zero."""
    columns = jnp.where(usable[:, None], jnp.column_stack([basis, response]), 0.0)
    rows, others = _pairs(columns.shape[1])
    return Rows(columns[:, :-1], columns[:, -1], usable, columns[:, rows] * columns[:, others])


def row_table(mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Positions of the rows in use, first; and their count."""
    num_rows = mask.shape[0]
    rank = extremes.running_sum(mask.astype(jnp.int32))
    target = jnp.where(mask, rank[:-1], num_rows)
    positions = jnp.arange(num_rows, dtype=jnp.int32)
    table = jnp.zeros(num_rows, jnp.int32).at[target].set(positions, mode="drop")
    return table, rank[-1]


def random_ranks(key: jax.Array, shape: tuple[int, ...], count: jax.Array) -> jax.Array:
    """Ranks from 0 to ``count - 1``, near enough to equally likely for fewer than 2^20 rows."""
    uniform = jax.random.uniform(key, shape, jnp.float32)
    ranks = jnp.floor(uniform * count.astype(jnp.float32)).astype(jnp.int32)
    return jnp.clip(ranks, 0, jnp.maximum(count - 1, 0))


def draw_starts(
    keys: jax.Array, rows: Rows, table: jax.Array, count: jax.Array, num_starts: int
) -> tuple[jax.Array, jax.Array]:
    """Exact fits through ``p`` random rows; subsets that do not determine a fit are drawn again."""
    size = rows.basis.shape[1]

    def fit(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        chosen = table[random_ranks(key, (num_starts, size), count)]
        basis, response = rows.basis[chosen], rows.response[chosen]
        gram = jnp.einsum("sri,srj->sij", basis, basis)
        moment = jnp.einsum("sri,sr->si", basis, response)
        swept = normal_equations.sweep(
            gram, moment, tolerance=float(jnp.finfo(gram.dtype).eps) ** 0.5
        )
        return swept.solution, jnp.all(swept.independent, axis=-1)

    def draw(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        solutions, good, attempt = state
        fresh, fresh_good = fit(keys[attempt])
        return jnp.where(good[:, None], solutions, fresh), good | fresh_good, attempt + 1

    nothing = jnp.zeros((num_starts, size), rows.basis.dtype)
    start = (nothing, jnp.zeros(num_starts, bool), jnp.int32(0))
    solutions, good, _ = lax.while_loop(
        lambda s: ~jnp.all(s[1]) & (s[2] < keys.shape[0]), draw, start
    )
    return solutions, good


def subsample(key: jax.Array, rows: Rows, table: jax.Array, count: jax.Array, size: int) -> Rows:
    """One random row from each of ``size`` equal stretches of the record, so none comes twice.

    Of fewer rows than that, every one.
    """
    offsets = jnp.arange(size) + jax.random.uniform(key, (size,), rows.response.dtype)
    ranks = jnp.floor(offsets * (count / size)).astype(jnp.int32)
    ranks = jnp.where(count <= size, jnp.arange(size, dtype=jnp.int32), ranks)
    chosen = table[jnp.clip(ranks, 0, jnp.maximum(count - 1, 0))]
    usable = rows.usable[chosen] & (jnp.arange(size) < count)
    return make_rows(rows.basis[chosen], rows.response[chosen], usable)
