"""How far single rows lie off, about the common level of neighbouring cells (section 3.4)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.numerics import cell_sums, medians

CLIP = 4.0
"""Scales beyond which a row speaks no louder: a single one makes no run."""


def levels_nearby(level: jax.Array, num: jax.Array) -> jax.Array:
    """What the levels ``(K,)`` of a cell and its neighbours have in common: the smallest of one
    sign, else zero. A run in two of three neighbours leaves it as it is."""
    last = jnp.maximum(num - 1, 0)
    place = jnp.arange(len(level), dtype=jnp.int32)
    three = jnp.stack([level[jnp.clip(place + step, 0, last)] for step in (-1, 0, 1)])
    return jnp.maximum(jnp.min(three, 0), 0) + jnp.minimum(jnp.max(three, 0), 0)


def _at_most_next(scale: jax.Array, num: jax.Array) -> jax.Array:
    """Scales ``(K,)`` of cells, of the first and the last at most that of the one beside it: they
    have one neighbour, and a run in them widens their own."""
    place = jnp.arange(len(scale), dtype=jnp.int32)
    last = jnp.maximum(num - 1, 0)
    beside = jnp.where(place == 0, 1, last - 1)
    ends = (place == 0) | (place == last)
    return jnp.where(ends, jnp.minimum(scale, scale[jnp.clip(beside, 0, last)]), scale)


class Scores(NamedTuple):
    """Rows scored.

    Attributes:
      row: ``(n,)`` residuals about the level of their neighbourhood in noise scales of the cells.
      bold: the same in the smallest scale: where gross errors lie close, they widen their cell's.
    """

    row: jax.Array
    bold: jax.Array


def score_rows(
    residual: jax.Array,
    one: jax.Array,
    scale: jax.Array,
    least: jax.Array,
    keep: jax.Array,
    cell: jax.Array,
    num_cells: jax.Array,
    negligible: jax.Array,
) -> Scores:
    """Score residuals about the common level of neighbouring cells.

    Args:
      residual: ``(n,)`` of the law.
      one: ``(n,)`` the constant, by the rows' weights.
      scale: ``(K,)`` noise scales; ``least`` the smallest of them.
      keep: ``(n,)`` bool, rows whose levels are asked.
      cell: ``(n,)`` int; ``K`` in rows out of use.
      num_cells: cells in use.
      negligible: part of every residual that does not matter.
    """
    kept = jnp.where(keep, one, 0.0)
    moments = jnp.stack([kept * residual, kept * one], 1)
    total, square = cell_sums.cell_totals(moments, cell, len(scale)).T
    level = levels_nearby(total / jnp.where(square > 0, square, 1.0), num_cells)
    about = residual - one * medians.per_row(level, cell)
    about = about - jnp.clip(about, -negligible * one, negligible * one)

    def over(size: jax.Array) -> jax.Array:
        return jnp.clip(about / jnp.where(size > 0, size, 1.0), -CLIP, CLIP)

    size = medians.per_row(_at_most_next(scale, num_cells), cell)
    return Scores(over(size), over(least))
