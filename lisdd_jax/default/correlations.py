"""Correlations of neighbouring rows along the axis and in the record, and of blocks (3.6)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.default.blocks import Blocks, group_rows
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
      axis, record: of neighbours, of one block where blocks are known, corrected for what local
        fits take.
      axis_rho, record_rho: the same; 0 where not significant, or not more than of any two rows of
        one block.
      block_rho: mean of any two rows of one block and cell; 0 where not significant.
    """

    axis: jax.Array
    record: jax.Array
    axis_rho: jax.Array
    record_rho: jax.Array
    block_rho: jax.Array

    def unless(self, broken: jax.Array) -> "Correlations":
        """The same, none of them significant where something else explains them."""
        rho = (self.axis_rho, self.record_rho, self.block_rho)
        return Correlations(self.axis, self.record, *(jnp.where(broken, 0.0, x) for x in rho))


_LEAST_LEFT = 0.5
"""Share of a correlation that local fits leave at least, where it is corrected for them."""


def _of_cells(product: jax.Array, square: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Correlation of all rows, and the median of the cells'.

    Args:
      product: ``(K,)`` sums of products of two rows.
      square: ``(K,)`` what they would be if those were the same row.
    """
    safe = jnp.maximum(square, jnp.finfo(square.dtype).tiny)
    return jnp.sum(product) / jnp.sum(safe), medians.signed_median(product / safe, square > 0)


def _of_neighbours(
    ratio: jax.Array, cell: jax.Array, compared: jax.Array, count: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Correlation of neighbours of all rows; the median of the cells' where few of them make it.

    A law that breaks within a cell leaves residuals that look like dependence there, and nowhere
    else.

    Args:
      ratio: ``(n,)`` residuals over their scale.
      cell: ``(n,)`` int.
      compared: ``(n - 1,)`` bool, rows to be compared with the one before, from the second row on.
      count: rows.

    Returns:
      It, and bool, few cells make it.
    """
    product = jnp.pad(jnp.where(compared, ratio[1:] * ratio[:-1], 0.0), (1, 0))
    both = cell_sums.cell_totals(jnp.stack([product, ratio**2], 1), cell, MOST_CELLS)
    pooled, middle = _of_cells(both[:, 0], both[:, 1])
    few = pooled - middle > _APART / jnp.sqrt(count)
    return jnp.where(few, middle, pooled), few


class _Neighbours(NamedTuple):
    """Which neighbours are compared, along the axis and in the record.

    Attributes:
      compared: ``(2, n - 1)`` bool, of the rows from the second on, with the one before.
      share: ``(2,)`` of the rows for which blocks allow it.
      near: ``(2,)`` of the rows whose neighbour besides lies in the same cell, or does but for the
        bounds of cells.
    """

    compared: jax.Array
    share: jax.Array
    near: jax.Array


def _neighbours(cell: jax.Array, label: jax.Array | None, count: jax.Array) -> _Neighbours:
    """Neighbours of one block, and along the axis of one cell; ``cell``, ``label`` ``(2, n)``."""
    used, together = cell[:, 1:] < MOST_CELLS, cell[:, 1:] == cell[:, :-1]
    allowed = jnp.ones_like(used) if label is None else label[:, 1:] == label[:, :-1]
    share, near = (
        jnp.sum(part & used, 1).astype(count.dtype) / count
        for part in (allowed, allowed & together)
    )
    share = jnp.ones_like(share) if label is None else share
    return _Neighbours(allowed & together.at[1].set(True), share, near.at[0].set(share[0]))


class _Pairs(NamedTuple):
    """Sums ``(K,)`` over the pairs of two rows of one block, in every cell.

    Attributes:
      product: of their residuals.
      square: what it would be if those were the same.
      num: of pairs, each in either order.
      leverage: of either row for the other, where level and slope are fitted, or all columns
        that such rows have in common.
    """

    product: jax.Array
    square: jax.Array
    num: jax.Array
    leverage: jax.Array


def _sum_pairs(
    ratio: jax.Array, cells: SortedCells, blocks: Blocks, used: jax.Array, columns: jax.Array
) -> _Pairs:
    dtype = ratio.dtype
    groups = group_rows(blocks, cells)
    cell, rows = groups.cell_of_row, jnp.diff(cells.bounds).astype(dtype)
    first = medians.per_row(cells.bounds[:-1].astype(dtype), cell)
    share = (blocks.order.astype(dtype) - first + 0.5) / jnp.maximum(medians.per_row(rows, cell), 1)
    # A straight line over evenly spread rows, of unit variance.
    line = (share - 0.5) * np.sqrt(12).astype(dtype)
    ones = jnp.where(used[blocks.order], 1.0, 0.0).astype(dtype)
    values = ones[:, None] * jnp.stack([ratio[blocks.order], jnp.ones_like(ones), line], 1)
    sums = groups.totals(values)
    partners = (sums[:, 1][groups.of_row] - 1) * ones
    alone = jnp.concatenate([values**2, (partners * values[:, 0] ** 2)[:, None]], 1)
    alone = cell_sums.cell_totals(alone, cell, MOST_CELLS)
    # The square of a group's sum holds all its pairs, and those of a row with itself.
    both = cell_sums.cell_totals(sums**2, groups.cell, MOST_CELLS)
    product, num, slopes = (both - alone[:, :3]).T
    leverage = ((columns - 1) * num + slopes) / jnp.maximum(rows, 1)
    return _Pairs(product, alone[:, 3], num, leverage)


def _of_blocks(pairs: _Pairs, num_rows: jax.Array, taken: jax.Array, few: jax.Array) -> jax.Array:
    """Mean correlation of any two rows of one block and cell; 0 where not significant.

    Local fits make the residuals of two rows repel each other by their leverage, and take of what
    rows of a block have in common as much as of a mean of theirs.

    Args:
      pairs: of rows.
      num_rows: rows in use.
      taken: share of a cell's rows that its fit takes.
      few: bool, few cells make the correlation of neighbours.
    """
    num = jnp.maximum(jnp.sum(pairs.num), 1)
    pooled, middle = _of_cells(pairs.product, pairs.square)
    found = jnp.where(few, middle, pooled)
    left = jnp.maximum(1 - taken * num / num_rows * (1 - found), _LEAST_LEFT)
    found = found * (1 - taken) + jnp.sum(pairs.leverage) / num
    significant = found > SIGNIFICANT / jnp.sqrt(0.5 * num)
    return jnp.where(significant, jnp.clip(found / left, 0.0, 1.0), 0.0)


def correlate(
    fit: LocalFit,
    cells: SortedCells,
    order: jax.Array,
    columns: jax.Array,
    blocks: Blocks | None = None,
) -> Correlations:
    """Correlations of neighbours along the axis and in the record.

    Args:
      fit: robust fits of cells; rows in the order of the axis.
      cells: those cells.
      order: ``(n,)`` place in the record of every row.
      columns: of the fits, those that take of what neighbours have in common.
      blocks: of rows that depend on each other, those of different ones being independent.
    """
    dtype = fit.residual.dtype
    in_use = cells.of_row < MOST_CELLS
    count = jnp.maximum(jnp.sum(in_use), 1).astype(dtype)
    size = jnp.maximum(count / jnp.maximum(cells.num, 1).astype(dtype), 1)
    scale = medians.per_row(jnp.maximum(fit.scale, jnp.finfo(dtype).tiny), cells.of_row)
    ratio = jnp.clip(fit.residual / scale, -_CLIP, _CLIP)
    used = in_use & fit.keep
    ratio = jnp.where(used, ratio, 0.0)

    def in_both(values: jax.Array) -> jax.Array:
        return jnp.stack([values, jnp.zeros_like(values).at[order].set(values)])

    ratios, cell = in_both(ratio), in_both(cells.of_row)
    label = None if blocks is None else in_both(blocks.label_along)
    pairs = _neighbours(cell, label, count)
    found, few = jax.vmap(_of_neighbours, in_axes=(0, 0, 0, None))(
        ratios, cell, pairs.compared, count
    )
    of_blocks = jnp.zeros((), dtype)
    if blocks is not None:
        sums = _sum_pairs(ratio, cells, blocks, used, columns)
        of_blocks = _of_blocks(sums, count, columns / size, few[0])
    # Local fits make the residuals of neighbours in a cell repel each other.
    share = jnp.maximum(pairs.share, 1 / count)
    found = (found + columns / size * pairs.near) / share
    shrink = jnp.maximum(1 - _DETREND / size, _LEAST_LEFT)
    limit = SIGNIFICANT / jnp.sqrt(count * share)
    rho = jnp.clip(found / shrink, 0.0, LARGEST)
    rho = jnp.where((found > limit) & (rho - of_blocks > limit), rho, 0.0)
    return Correlations(found[0], found[1], rho[0], rho[1], of_blocks)
