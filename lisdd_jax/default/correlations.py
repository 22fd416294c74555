"""Correlations of neighbouring rows, along the axis and in the record (section 3.6)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.cells import MOST_CELLS, SortedCells
from lisdd_jax.default.outliers import LocalFit
from lisdd_jax.numerics import cell_sums, medians

SIGNIFICANT = 3.5
"""Standard errors from which a correlation counts: one of four thousand independent tables."""

_CLIP = 3.0
"""Scales at which residuals are clipped, so that no pair of rows makes a correlation."""

_APART = 3.0
"""Standard errors by which the correlation of all rows must exceed the median of the cells' to be
that of a misfit in few of them: their difference is that large in one of a hundred tables whose
rows depend on each other (simulated, AR 0 to 0.8, 3 to 24 cells), and either serves there."""

_DETREND = 5.5
"""Local fits over ``m`` rows take about ``5.5 / m`` of a correlation (simulated, AR 0.3 to 0.9)."""

LARGEST = 0.98
"""Correlation from which rows are as good as one."""


class Correlations(NamedTuple):
    """Correlations of residuals.

    Attributes:
      axis, record: of neighbours, corrected for what local fits take.
      axis_rho, record_rho: the same; 0 where not significant.
    """

    axis: jax.Array
    record: jax.Array
    axis_rho: jax.Array
    record_rho: jax.Array


def _of_cells(product: jax.Array, ratio: jax.Array, cell: jax.Array) -> jax.Array:
    """Correlation of all rows; the median of the cells' where few of them make it.

    A law that breaks within a cell leaves residuals that look like dependence there, and nowhere
    else.

    Args:
      product: ``(n - 1,)`` residuals times those of the rows before, from the second row on.
      ratio: ``(n,)`` residuals over their scale.
      cell: ``(n,)`` int.
    """
    product = jnp.pad(product, (1, 0))
    both = cell_sums.cell_totals(jnp.stack([product, ratio**2], 1), cell, MOST_CELLS)
    square = jnp.maximum(both[:, 1], jnp.finfo(ratio.dtype).tiny)
    pooled = jnp.sum(both[:, 0]) / jnp.sum(square)
    middle = medians.signed_median(both[:, 0] / square, both[:, 1] > 0)
    limit = _APART / jnp.sqrt(jnp.maximum(jnp.sum(cell < MOST_CELLS), 1).astype(ratio.dtype))
    return jnp.where(pooled - middle > limit, middle, pooled)


def correlate(fit: LocalFit, cells: SortedCells, order: jax.Array) -> Correlations:
    """Correlations of neighbours along the axis and in the record.

    Args:
      fit: robust fits of cells; rows in the order of the axis.
      cells: those cells.
      order: ``(n,)`` place in the record of every row.
    """
    dtype = fit.residual.dtype
    in_use = cells.of_row < MOST_CELLS
    count = jnp.maximum(jnp.sum(in_use), 1).astype(dtype)
    size = jnp.maximum(count / jnp.maximum(cells.num, 1).astype(dtype), 1)
    scale = medians.per_row(jnp.maximum(fit.scale, jnp.finfo(dtype).tiny), cells.of_row)
    ratio = jnp.clip(fit.residual / scale, -_CLIP, _CLIP)
    ratio = jnp.where(in_use & fit.keep, ratio, 0.0)
    together = cells.of_row[1:] == cells.of_row[:-1]
    record = jnp.zeros_like(ratio).at[order].set(ratio)
    cell = jnp.zeros_like(cells.of_row).at[order].set(cells.of_row)
    products = [jnp.where(together, ratio[1:] * ratio[:-1], 0.0), record[1:] * record[:-1]]
    both = [jnp.stack(pair) for pair in (products, (ratio, record), (cells.of_row, cell))]
    along, before = jax.vmap(_of_cells)(*both)
    near = jnp.sum((cell[1:] == cell[:-1]) & (cell[1:] < MOST_CELLS)).astype(dtype) / count
    # Local fits make the residuals of neighbours in a cell repel each other.
    along, before = along + 2 / size, before + 2 / size * near
    shrink = jnp.maximum(1 - _DETREND / size, 0.5)
    limit = SIGNIFICANT / jnp.sqrt(count)
    rho = [
        jnp.where(found > limit, jnp.clip(found / shrink, 0.0, LARGEST), 0.0)
        for found in (along, before)
    ]
    return Correlations(along, before, *rho)
