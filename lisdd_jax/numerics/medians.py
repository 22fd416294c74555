"""Medians by halving a bracket: without sorting, so that cells of any size cost the same passes.

A sort of all rows would cost several times as much on the CPU, and medians of cells a sort each.
"""

from collections.abc import Callable
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


def _halve(
    is_above: Callable[[jax.Array], jax.Array], low: jax.Array, span: jax.Array, num: int
) -> jax.Array:
    """Upper end of a bracket from ``low`` of length ``span`` after ``num`` halvings.

    Args:
      is_above: whether what is sought lies above a place, of the shape of ``low``.
      low: ``(...)`` lower ends.
      span: ``(...)`` lengths.
      num: static.
    """
    # The length is known, so that the lower end is all that is carried.
    sizes = 0.5 ** np.arange(1, num + 1)

    def halve(low: jax.Array, size: jax.Array) -> tuple[jax.Array, None]:
        middle = low + span * size
        return jnp.where(is_above(middle), middle, low), None

    low, _ = lax.scan(halve, low, jnp.asarray(sizes, low.dtype))
    return low + span * jnp.asarray(sizes[-1], low.dtype)


def _logs(values: jax.Array, used: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Logs of positive values, the largest of those in use, and the length of a bracket below."""
    tiny = jnp.finfo(values.dtype).tiny
    logs = jnp.log(jnp.maximum(values, tiny))
    top = jnp.max(jnp.where(used, logs, jnp.log(tiny)))
    span = -2 * jnp.log(jnp.finfo(values.dtype).eps)
    return logs, top, span.astype(values.dtype)


def median_of_positive(values: jax.Array, used: jax.Array) -> jax.Array:
    """Median of positive values to about nine digits, by halving a bracket of logarithms."""
    count = jnp.sum(used)
    logs, top, span = _logs(values, used)
    found = _halve(lambda place: 2 * jnp.sum(used & (logs <= place)) < count, top - span, span, 36)
    return jnp.where(jnp.any(used & (values > 0)), jnp.exp(found), 0.0)


def median_per_cell(values: jax.Array, cell: jax.Array, count: jax.Array) -> jax.Array:
    """Median of positive values in every cell, ``(K,)``, by halving brackets of logarithms."""
    num_cells = count.shape[0]
    used = cell < num_cells
    logs, top, span = _logs(values, used)

    def is_above(place: jax.Array) -> jax.Array:
        below = jnp.where(used & (logs <= per_row(place, cell)), 1.0, 0.0).astype(values.dtype)
        return 2 * cell_sums.cell_totals(below[:, None], cell, num_cells)[:, 0] < count

    return jnp.exp(_halve(is_above, jnp.zeros_like(count) + top - span, span, 30))


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
