"""Rows far from their own neighbourhood, found by robust fits of single cells (section 3.3).

A discrepancy shifts whole cells, and what is robust within a cell does not see it; a gross error
stands alone among its neighbours.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.default.sums import sum_products
from lisdd_jax.numerics import cell_sums, small_systems, tolerances

CUT = 5.0
"""Scales beyond which a row is set aside: of Gaussian rows two in ten million."""

_SUSPICIOUS = 4.0
"""Scales below which all rows lie where there is nothing to look for."""

_MANY = 0.3
"""Share of a cell's rows above which those far away are no outliers but a part of it."""

_HUBER_STEPS, _BISQUARE_STEPS, _CUT_STEPS = 4, 3, 2
_BISQUARE = 4.685
"""Tuning constant of 95 % efficiency at the normal (Beaton and Tukey 1974)."""

_WINSOR, _WINSOR_SQUARE = 1.5, 0.7785
"""Winsorised at 1.5 deviations a standard normal has the mean square 0.7785 (Huber 1981)."""


class LocalFit(NamedTuple):
    """Robust fits of single cells.

    Attributes:
      residual: ``(n,)``.
      scale: ``(K,)`` of the cells' own noise, the middle one of three neighbours.
      pooled: the middle one of all cells.
      keep: ``(n,)`` bool, rows in use that are not set aside.
      degrees: ``(K,)`` coefficients per cell.
    """

    residual: jax.Array
    scale: jax.Array
    pooled: jax.Array
    keep: jax.Array
    degrees: jax.Array


def middle(values: jax.Array, used: jax.Array) -> jax.Array:
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


def middle_per_cell(values: jax.Array, cell: jax.Array, count: jax.Array) -> jax.Array:
    """Median of positive values in every cell, ``(K,)``, as ``middle`` finds it for all."""
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


def middle_value(values: jax.Array, used: jax.Array) -> jax.Array:
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


def middle_of_three(values: jax.Array, num: jax.Array) -> jax.Array:
    """Median of every cell and its two neighbours: one odd cell does not set its own measure."""
    place = jnp.arange(values.shape[0], dtype=jnp.int32)
    last = jnp.maximum(num - 1, 0)
    left, right = values[jnp.clip(place - 1, 0, last)], values[jnp.clip(place + 1, 0, last)]
    low, high = jnp.minimum(left, right), jnp.maximum(left, right)
    return jnp.maximum(low, jnp.minimum(high, values))


def per_row(values: jax.Array, cell: jax.Array) -> jax.Array:
    """Values of the cells ``(K,)`` at their rows ``(n,)``; 1 in rows out of use."""
    return jnp.append(values, jnp.ones(1, values.dtype))[cell]


def set_aside(columns: jax.Array, response: jax.Array, cell: jax.Array, num_cells: int) -> LocalFit:
    """Fit every cell robustly and set aside the rows that lie far from their fit.

    Four steps of Huber's weights, three of bisquare weights, then least squares on what lies within
    five scales. Nothing of it runs where the plain fits leave no row far away.

    Args:
      columns: ``(d, n)`` local directions ``[1, axis, physics]``.
      response: ``(n,)`` about a first fit.
      cell: ``(n,)`` int; ``num_cells`` in rows out of use.
      num_cells: static.

    References:
      Huber (1981), Robust statistics, chapter 7.
    """
    size, dtype = columns.shape[0], response.dtype
    used = cell < num_cells
    ones = used.astype(dtype)

    def totals(values: jax.Array) -> jax.Array:
        return cell_sums.cell_totals(values[:, None], cell, num_cells)[:, 0]

    count = totals(ones)
    num = jnp.sum(count > 0, dtype=jnp.int32)

    def fit(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        both = jnp.concatenate([columns, response[None]])
        gram = sum_products(both, cell, num_cells, weights)
        solved = small_systems.solve(
            gram[:, :size, :size], gram[:, :size, size], tolerances.gram(dtype)
        )
        rows = jnp.concatenate([solved.solution, jnp.zeros((1, size), dtype)])[cell]
        return response - jnp.sum(columns * rows.T, axis=0), solved.rank

    def pooled_scale(residual: jax.Array) -> jax.Array:
        left = jnp.sum(ones) - (size * num).astype(dtype)
        freedom = jnp.sum(ones) / jnp.maximum(left, 1)
        return 1.4826 * middle(jnp.abs(residual), used) * jnp.sqrt(jnp.maximum(freedom, 1))

    def winsorised(residual: jax.Array, scale: jax.Array, rank: jax.Array) -> jax.Array:
        bound = _WINSOR * per_row(scale, cell)
        squares = totals(jnp.where(used, jnp.minimum(jnp.abs(residual), bound) ** 2, 0.0))
        return jnp.sqrt(squares / jnp.maximum(count - rank, 1) / _WINSOR_SQUARE)

    def reweight(state: Any) -> Any:
        step, residual, scale, _, _ = state
        ratio = jnp.abs(residual) / per_row(scale, cell)
        huber = 1 / jnp.maximum(ratio, 1.0)
        bisquare = jnp.where(ratio < _BISQUARE, (1 - (ratio / _BISQUARE) ** 2) ** 2, 0.0)
        weights = jnp.where(step <= _HUBER_STEPS, huber, bisquare)
        weights = ones * jnp.where(step == 0, 1.0, weights)
        residual, rank = fit(weights)
        pooled = pooled_scale(residual)
        before = jnp.where(step == 0, pooled, scale)
        scale = winsorised(residual, before, rank)
        scale = jnp.clip(scale, 0.2 * pooled, 3 * pooled)
        far = jnp.abs(residual) > _SUSPICIOUS * per_row(jnp.maximum(scale, pooled), cell)
        return step + 1, residual, scale, rank, jnp.any(far & used)

    def goes_on(state: tuple[jax.Array, ...]) -> jax.Array:
        return (state[0] == 0) | (state[4] & (state[0] <= _HUBER_STEPS + _BISQUARE_STEPS))

    zero = jnp.zeros(num_cells, dtype)
    start = (jnp.int32(0), response, zero + 1, zero, jnp.ones((), bool))
    _, residual, scale, rank, suspicious = lax.while_loop(goes_on, reweight, start)

    def bounds(scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        return middle_of_three(scale, num), middle(scale, count > 0)

    def spread(residual: jax.Array, rank: jax.Array) -> jax.Array:
        """The cells' own scales by medians, which bear outliers that came together by chance."""
        freedom = count / jnp.maximum(count - rank, 1)
        return 1.4826 * jnp.sqrt(freedom) * middle_per_cell(jnp.abs(residual), cell, count)

    def cut(state: Any) -> Any:
        step, residual, scale, rank = state
        near, pooled = bounds(scale)
        keep = jnp.abs(residual) <= CUT * per_row(jnp.maximum(near, pooled), cell)
        residual, rank = fit(jnp.where(keep, ones, 0.0))
        return step + 1, residual, spread(residual, rank), rank

    steps = jnp.where(suspicious, _CUT_STEPS, 0)
    scale = lax.cond(suspicious, lambda: spread(residual, rank), lambda: scale)
    _, residual, scale, rank = lax.while_loop(
        lambda state: state[0] < steps, cut, (jnp.int32(0), residual, scale, rank)
    )
    near, pooled = bounds(scale)
    bound = CUT * per_row(jnp.maximum(near, pooled), cell)
    keep = _unless_many(used & (jnp.abs(residual) <= bound), used, cell, count)
    return LocalFit(residual, near, pooled, keep, rank)


def _unless_many(
    keep: jax.Array, otherwise: jax.Array, cell: jax.Array, count: jax.Array
) -> jax.Array:
    """``keep`` in cells where it leaves out few rows, ``otherwise`` in the rest."""
    used = cell < count.shape[0]
    gone = cell_sums.cell_totals((used & ~keep).astype(count.dtype)[:, None], cell, len(count))
    many = (gone[:, 0] > _MANY * count) & (gone[:, 0] >= 3)
    return jnp.where(jnp.append(many, False)[cell], otherwise, keep)


def near_law(
    residual: jax.Array,
    local: jax.Array,
    scale: jax.Array,
    cell: jax.Array,
    num_cells: int,
    clean: jax.Array,
) -> jax.Array:
    """Rows to keep once a law is known: those near to it, in cells that obey it.

    Other cells keep the rows near to their own fit: judged about the law, they would lose those
    rows that show best what is wrong there. So do cells most of which lies elsewhere.

    Args:
      residual: ``(n,)`` of the law.
      local: ``(n,)`` bool, rows near to robust fits of their cells.
      scale: ``(num_cells,)`` noise scales.
      cell: ``(n,)`` int.
      num_cells: static.
      clean: ``(num_cells,)`` bool, cells that obey the law.

    Returns:
      ``(n,)`` bool.
    """
    used = cell < num_cells
    ones = used.astype(residual.dtype)
    count = cell_sums.cell_totals(ones[:, None], cell, num_cells)[:, 0]
    near = used & (jnp.abs(residual) <= CUT * per_row(scale, cell))
    near = jnp.where(jnp.append(clean, False)[cell], near, local)
    return _unless_many(near, local, cell, count)
