"""Do rows depend on each other? Correlation in the order of the axis and of the record (3.6)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.newdefault.cells import Cells
from lisdd_jax.newdefault.outliers import LocalFit, per_row

LAGS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128])
"""Distances in the record at which rows are compared; sums over all go by trapezoids."""

_SIGNIFICANT = 3.5
"""Standard errors from which a correlation counts: one of four thousand independent tables."""

_CLIP = 3.0
"""Scales at which residuals are clipped, so that no pair of rows makes a correlation."""

_DETREND = 5.5
"""Local fits over ``m`` rows take about ``5.5 / m`` of a correlation (simulated, AR(0.3 to 0.9))."""

_LARGEST = 0.98
_REPEATED = 0.2
"""Share of rows equal to another one from which repeated rows are spoken of."""


class Dependence(NamedTuple):
    """What rows have to do with each other.

    Attributes:
      axis_correlation, record_correlation: of neighbouring rows' residuals.
      rows: how many rows of a cell count as one, at least 1.
      correlation: of an autoregression in the order of the record; 0 where it is not significant.
      repeated: share of rows that equal another one.
      significant: bool, some of it is beyond chance.
    """

    axis_correlation: jax.Array
    record_correlation: jax.Array
    rows: jax.Array
    correlation: jax.Array
    repeated: jax.Array
    significant: jax.Array


def lag_weights(correlation: jax.Array, num: int) -> jax.Array:
    """``correlation^lag`` with the number of lags that each of ``LAGS`` stands for, ``(lags,)``."""
    ends = np.concatenate([[0.5], 0.5 * (LAGS[1:] + LAGS[:-1]), [1.5 * LAGS[-1]]])
    width = np.where(num > LAGS, np.diff(ends), 0.0)
    powers = correlation ** jnp.asarray(LAGS, correlation.dtype)
    return powers * jnp.asarray(width, correlation.dtype)


def shifted_products(left: jax.Array, right: jax.Array, lag: int) -> jax.Array:
    """Products of rows ``lag`` apart, summed: ``(..., n)`` and ``(..., n)`` give ``(...)``."""
    return jnp.sum(left[..., lag:] * right[..., :-lag], axis=-1)


def same_cell(cell: jax.Array, used: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Share of rows that lie in one cell with the row so many places before, beyond chance."""
    count = jnp.maximum(jnp.sum(used), 1).astype(dtype)
    num = cell.shape[0]
    shares = []
    for lag in LAGS:
        both = used[lag:] & used[:-lag] if lag < num else used[:0]
        same = both & (cell[lag:] == cell[: max(num - lag, 0)])
        shares.append(jnp.sum(same).astype(dtype) / count)
    return jnp.stack(shares)


def measure(
    fit: LocalFit,
    cells: Cells,
    order: jax.Array,
    equal: jax.Array,
    block_rows: jax.Array | None,
) -> Dependence:
    """Measure how rows depend on each other.

    Args:
      fit: robust fits of the coarse cells; rows in the order of the axis.
      cells: those cells.
      order: ``(n,)`` int, place in the record of every row.
      equal: ``(n,)`` bool, rows that equal the one before in every column.
      block_rows: rows of a block that share a cell, where blocks are given.
    """
    dtype = fit.residual.dtype
    num_cells = fit.scale.shape[0]
    used = (cells.of_row < num_cells) & fit.keep
    count = jnp.maximum(jnp.sum(cells.of_row < num_cells), 1).astype(dtype)
    size = count / jnp.maximum(cells.num, 1).astype(dtype)
    scale = per_row(jnp.maximum(fit.scale, jnp.finfo(dtype).tiny), cells.of_row)
    ratio = jnp.where(used, jnp.clip(fit.residual / scale, -_CLIP, _CLIP), 0.0)
    square = jnp.maximum(jnp.sum(ratio**2), jnp.finfo(dtype).tiny)
    neighbours = cells.of_row[1:] == cells.of_row[:-1]
    along = jnp.sum(jnp.where(neighbours, ratio[1:] * ratio[:-1], 0.0)) / square
    record = jnp.zeros_like(ratio).at[order].set(ratio)
    cell = jnp.zeros_like(cells.of_row).at[order].set(cells.of_row)
    in_use = cell < num_cells
    before = shifted_products(record, record, 1) / square
    together = same_cell(cell, in_use, dtype)
    shrink = jnp.maximum(1 - _DETREND / jnp.maximum(size, 1), 0.5)
    along = along + 2 / jnp.maximum(size, 1)
    before = before + 2 / jnp.maximum(size, 1) * together[0]
    limit = _SIGNIFICANT / jnp.sqrt(count)
    rho_axis, rho = (
        jnp.where(found > limit, jnp.clip(found / shrink, 0.0, _LARGEST), 0.0)
        for found in (along, before)
    )
    share = jnp.zeros(num_cells + 1, dtype).at[cell].add(jnp.where(in_use, 1.0, 0.0))
    chance = jnp.sum((share[:num_cells] / count) ** 2)
    within = jnp.maximum(together - chance, 0.0)
    by_record = 1 + 2 * jnp.sum(lag_weights(rho, ratio.shape[0]) * within)
    rows = jnp.maximum((1 + rho_axis) / (1 - rho_axis), by_record)
    if block_rows is not None:
        rows = jnp.maximum(block_rows, 1.0)
    again = equal & (cells.of_row < num_cells)
    repeated = jnp.sum(jnp.where(again, 1.0, 0.0).astype(dtype)) / count
    significant = (rho_axis > 0) | (rho > 0) | (repeated > _REPEATED)
    return Dependence(along, before, rows, rho, repeated, significant)
