"""Medians by halving a bracket: without sorting, so that cells of any size cost the same passes.

A sort of all rows would cost several times as much on the CPU, and medians of cells a sort each.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.numerics import cell_sums
from lisdd_jax.numerics.hosted import namespace

_MANY_ROWS = 1 << 16
"""Rows that tell a middle or a scale as well as more do: its error is a two-hundredth of it."""


def sample_step(num_rows: int) -> int:
    """Step at which rows of a long table are taken where a middle or a scale is all that is asked.

    Example:
      >>> sample_step(1000), sample_step(1 << 20)
      (1, 16)
    """
    return max(num_rows // _MANY_ROWS, 1)


def per_row(values: jax.Array, cell: jax.Array) -> jax.Array:
    """Values of the cells ``(K,)`` at their rows ``(n,)``; 1 in rows out of use."""
    return jnp.append(values, jnp.ones(1, values.dtype))[cell]


def median_of_positive(values: jax.Array, used: jax.Array) -> jax.Array:
    """Median of positive values to about nine digits, by halving a bracket of logarithms."""
    count = jnp.sum(used)
    largest = jnp.max(jnp.where(used, values, 0.0))
    top = jnp.log(jnp.maximum(largest, jnp.finfo(values.dtype).tiny))
    logs = jnp.log(jnp.maximum(values, jnp.finfo(values.dtype).tiny))

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        mid = 0.5 * (low + high)
        below = 2 * jnp.sum(used & (logs <= mid)) >= count
        return jnp.where(below, low, mid), jnp.where(below, mid, high)

    span = -2 * jnp.log(jnp.finfo(values.dtype).eps)
    _, found = lax.fori_loop(0, 36, halve, (top - span.astype(values.dtype), top))
    return jnp.where(largest > 0, jnp.exp(found), 0.0)


def median_per_cell(values: jax.Array, cell: jax.Array, count: jax.Array) -> jax.Array:
    """Median of positive values in every cell, ``(K,)``, by halving brackets of logarithms."""
    num_cells, tiny = count.shape[0], jnp.finfo(values.dtype).tiny
    used = cell < num_cells
    logs = jnp.log(jnp.maximum(values, tiny))
    top = jnp.log(jnp.maximum(jnp.max(jnp.where(used, values, 0.0)), tiny))
    span = (-2 * jnp.log(jnp.finfo(values.dtype).eps)).astype(values.dtype)

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        mid = 0.5 * (low + high)
        below = jnp.where(used & (logs <= per_row(mid, cell)), 1.0, 0.0).astype(values.dtype)
        full = 2 * cell_sums.cell_totals(below[:, None], cell, num_cells)[:, 0] >= count
        return jnp.where(full, low, mid), jnp.where(full, mid, high)

    start = jnp.zeros_like(count) + top
    return jnp.exp(lax.fori_loop(0, 30, halve, (start - span, start))[1])


def signed_median(values: jax.Array, used: jax.Array) -> jax.Array:
    """Median of values of any sign, to rounding of their range, by halving a bracket."""
    count = jnp.sum(used)
    low = jnp.min(jnp.where(used, values, jnp.inf))
    high = jnp.max(jnp.where(used, values, -jnp.inf))

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        mid = 0.5 * low + 0.5 * high
        below = 2 * jnp.sum(used & (values <= mid)) >= count
        return jnp.where(below, low, mid), jnp.where(below, mid, high)

    return lax.fori_loop(0, 64, halve, (low, high))[1]


def middle_of_three(values: Any, num: Any) -> Any:
    """Median of every cell and its two neighbours: one odd cell does not set its own measure.

    Args:
      values: ``(K,)`` of NumPy or traced.
      num: cells in use, which come first.
    """
    xp = namespace(values)
    place = xp.arange(len(values), dtype=np.int32)
    last = xp.maximum(num - 1, 0)
    left, right = values[xp.clip(place - 1, 0, last)], values[xp.clip(place + 1, 0, last)]
    low, high = xp.minimum(left, right), xp.maximum(left, right)
    return xp.maximum(low, xp.minimum(high, values))
