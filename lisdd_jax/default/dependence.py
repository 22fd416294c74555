"""Do rows depend on each other, and how many of one place count as one? (section 3.6).

Residuals of an autoregression in the order of the record, with correlation ``rho^k`` of rows ``k``
apart, make the mean of a cell vary as if it had ``1 / tau`` of its rows,

    tau = 1 + 2 sum_k rho^k (P_k - P) / (1 - P),

with ``P_k`` the share of rows that lie in one cell with the row ``k`` before, and ``P`` that of any
two rows: what is common to all cells shifts them alike. The same with neighbouring cells says how
much of a cell's mean its neighbour shares. Where blocks of dependent rows are known, any two rows
of one of them correlate, and there is a memory where neighbours do so more than others.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.default.blocks import Blocks, group_rows
from lisdd_jax.default.cells import FEWEST_CELLS, MOST_CELLS, SortedCells
from lisdd_jax.default.correlations import Correlations

LAGS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128])
"""Distances in the record at which rows are compared; sums over all go by trapezoids."""

_REPEATED = 0.2
"""Share of rows equal to another one from which repeated rows are spoken of."""

_NEIGHBOURS = 0.06
"""Correlation of neighbouring cells up to which they count as independent."""

_STRONG = 0.7
"""Correlation of neighbours along the axis above which cells cannot show their own noise, so that
nothing is certified unless blocks are known."""

_LEAST_UNITS = 2.0
"""Times the rows that count as one that a cell must have: of fewer its noise cannot be told."""

_LEAST_SHOWN = 0.3
"""What a local fit leaves at least of a dependent noise's variance, when that is corrected."""


class RowDependence(NamedTuple):
    """What rows have to do with each other.

    Attributes:
      axis_correlation, record_correlation: of neighbouring rows' residuals.
      rows: how many rows of one cell of the place count as one, at least 1.
      wide: the same of runs of cells as long as a quarter of all.
      shown: share of the noise variance that the cells' own fits show.
      correlation: of an autoregression in the order of the record; 0 where it is not significant.
      repeated: share of rows that equal another one.
      significant: bool, some of it is beyond chance.
      strong: bool, so much along the axis that nothing can be certified.
      untold: bool, found along the axis in too few cells to be told from a misfit.
    """

    axis_correlation: jax.Array
    record_correlation: jax.Array
    rows: jax.Array
    wide: jax.Array
    shown: jax.Array
    correlation: jax.Array
    repeated: jax.Array
    significant: jax.Array
    strong: jax.Array
    untold: jax.Array


def lag_weights(correlation: jax.Array, num: int) -> jax.Array:
    """``correlation^lag`` with the number of lags that each of ``LAGS`` stands for, ``(lags,)``."""
    ends = np.concatenate([[0.5], 0.5 * (LAGS[1:] + LAGS[:-1]), [1.5 * LAGS[-1]]])
    width = np.where(num > LAGS, np.diff(ends), 0.0)
    powers = correlation ** jnp.asarray(LAGS, correlation.dtype)
    return powers * jnp.asarray(width, correlation.dtype)


def rows_apart(record: jax.Array, lag: jax.Array, beyond: jax.Array | float) -> jax.Array:
    """The rows ``(..., n)`` that come ``lag <= LAGS[-1]`` later; ``beyond`` after the last."""
    pad = [(0, 0)] * (record.ndim - 1) + [(0, int(LAGS[-1]))]
    longer = jnp.pad(record, pad, constant_values=beyond)
    return lax.dynamic_slice_in_dim(longer, lag, record.shape[-1], axis=-1)


class Sharing(NamedTuple):
    """What the rows of cells share.

    Attributes:
      rows: how many rows of a cell count as one.
      neighbours: correlation of the means of neighbouring cells.
    """

    rows: jax.Array
    neighbours: jax.Array


def _shares(cells: SortedCells, dtype: jnp.dtype) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Number of rows, and chances that two rows share a cell, or lie in neighbouring ones."""
    count = jnp.diff(cells.bounds).astype(dtype)
    total = jnp.maximum(jnp.sum(count), 1)
    share = count / total
    return total, jnp.sum(share**2), 2 * jnp.sum(share[1:] * share[:-1])


def _sharing(within: jax.Array, across: jax.Array, chance: jax.Array | float = 0.0) -> Sharing:
    # Means of cells are compared with that of all, of which each is a part of the size ``chance``.
    rows = 1 + jnp.maximum(within, 0.0) / jnp.maximum(1 - chance, 0.5)
    return Sharing(rows, jnp.maximum(0.5 * across, 0.0) / rows)


def share_of_record(rho: jax.Array, cells: SortedCells, order: jax.Array) -> Sharing:
    """Sharing by an autoregression in the record; ``order (n,)`` of the sorted rows."""
    zero = jnp.zeros((), rho.dtype)
    return lax.cond(
        rho > 0, lambda: _share_of_record(rho, cells, order), lambda: _sharing(zero, zero)
    )


def _share_of_record(rho: jax.Array, cells: SortedCells, order: jax.Array) -> Sharing:
    num, dtype = order.shape[0], rho.dtype
    total, chance, chance_near = _shares(cells, dtype)
    record = jnp.zeros_like(cells.of_row).at[order].set(cells.of_row)

    def pairs(lag: jax.Array) -> jax.Array:
        left, right = rows_apart(record, lag, MOST_CELLS), record
        used = (left < MOST_CELLS) & (right < MOST_CELLS)
        apart = jnp.abs(left - right)
        return jnp.stack([jnp.sum(used & (apart == step)) for step in (0, 1)])

    weight = 2 * lag_weights(rho, num)
    shared = lax.map(pairs, jnp.asarray(LAGS, jnp.int32)).astype(dtype) / total
    within, across = weight @ (shared - jnp.stack([chance, chance_near])[None])
    return _sharing(within, across, chance)


def share_of_axis(rho: jax.Array, num_rows: jax.Array, num_cells: jax.Array) -> Sharing:
    """Sharing by an autoregression along the axis itself."""
    size = jnp.maximum(num_rows / jnp.maximum(num_cells, 1), 1).astype(rho.dtype)
    full = 2 * rho / (1 - rho)
    across = 2 * rho / (1 - rho) ** 2 / size
    return _sharing(full - jnp.minimum(across, full), jnp.minimum(across, full))


def share_of_blocks(blocks: Blocks, cells: SortedCells, likeness: jax.Array) -> Sharing:
    """Sharing by blocks, any two rows of which correlate by ``likeness``.

    Args:
      blocks: the rows by blocks.
      cells: of the rows along the axis.
      likeness: correlation.
    """
    dtype = likeness.dtype
    total, chance, chance_near = _shares(cells, dtype)
    groups = group_rows(blocks, cells)
    used = jnp.where(groups.cell_of_row < MOST_CELLS, 1.0, 0.0).astype(dtype)
    size, whole = groups.totals(used), groups.totals_of_blocks(used)
    pairs = (jnp.sum(whole**2) - total) / total
    across = 2 * jnp.sum(jnp.where(groups.beside, size[1:] * size[:-1], 0.0)) / total
    within = (jnp.sum(size**2) - total) / total
    within, across = within - chance * pairs, across - chance_near * pairs
    return _sharing(likeness * within, likeness * across, chance)


def share(
    found: Correlations, cells: SortedCells, order: jax.Array, blocks: Blocks | None
) -> Sharing:
    """What the rows of some cells share, the most of what correlations say.

    A memory does not end where a block does, if it was cut into blocks. One so strong that cells
    do not show their own noise makes all rows of a block as good as alike.
    """
    num_rows = jnp.sum(cells.of_row < MOST_CELLS).astype(found.axis.dtype)
    ways = [
        share_of_axis(found.axis_rho, num_rows, cells.num.astype(found.axis.dtype)),
        share_of_record(found.record_rho, cells, order),
    ]
    if blocks is not None:
        strong = jnp.where(found.axis_rho > _STRONG, found.axis_rho, 0.0)
        ways.append(share_of_blocks(blocks, cells, jnp.maximum(found.block_rho, strong)))
    return Sharing(*(jnp.max(jnp.stack(measures)) for measures in zip(*ways, strict=True)))


def stretch(sharing: Sharing, size: jax.Array, repeated: jax.Array) -> jax.Array:
    """By how much cells must grow for their neighbours, and their rows, to be independent enough.

    Args:
      sharing: of cells of ``size`` rows.
      size: rows of a cell.
      repeated: share of rows that equal another one.
    """
    grown = jnp.maximum(sharing.neighbours / _NEIGHBOURS, _LEAST_UNITS * sharing.rows / size)
    # Copies of a row show no noise of their own.
    return jnp.maximum(jnp.where(repeated > _REPEATED, sharing.rows, grown), 1.0)


def shown_variance(rows: jax.Array, size: jax.Array, columns: jax.Array) -> jax.Array:
    """Share of the noise variance that a fit of a cell of ``size`` rows leaves.

    Level and slope take the most of a noise that varies slowly, and every one of the fit's
    ``columns`` does where dependent rows have the same regressors.
    """
    taken = columns * (rows - 1) / jnp.maximum(size - columns, 1)
    return jnp.maximum(1 - taken, _LEAST_SHOWN)


def share_of_copies(equal: jax.Array, cells: SortedCells, dtype: jnp.dtype) -> jax.Array:
    """Share of rows that equal the one before, ``equal (n,)``."""
    used = cells.of_row < MOST_CELLS
    again = jnp.where(equal & used, 1.0, 0.0).astype(dtype)
    return jnp.sum(again) / jnp.maximum(jnp.sum(used), 1).astype(dtype)


def columns_that_take(columns: jax.Array, cells: SortedCells) -> jax.Array:
    """How many columns of a cell's fit take the most of a noise that rows have in common.

    Args:
      columns: ``(d, n)`` of ``[1, axis, physics]``: all do where dependent rows have the same.
      cells: of the rows.
    """
    same = jnp.all(columns[:, 1:] == columns[:, :-1], axis=0)
    alike = share_of_copies(jnp.pad(same, (1, 0)), cells, columns.dtype)
    return jnp.where(alike > _REPEATED, len(columns), 2).astype(columns.dtype)


def summarize_dependence(
    found: Correlations,
    sharing: Sharing,
    wide: Sharing,
    size: jax.Array,
    repeated: jax.Array,
    blocks: bool,
    coarse: SortedCells,
    columns: jax.Array,
) -> RowDependence:
    """The measures together, for cells of ``size`` rows; ``wide`` of quarters of the axis,
    ``coarse`` those in which the correlations were found, and ``columns`` how many take of it."""
    rho = jnp.stack([found.axis_rho, found.record_rho, found.block_rho])
    significant = jnp.any(rho > 0) | (repeated > _REPEATED)
    rho = jnp.zeros_like(size) if blocks else found.record_rho
    shown = shown_variance(sharing.rows, size, columns)
    along = jnp.zeros_like(size) if blocks else found.axis_rho
    return RowDependence(
        found.axis,
        found.record,
        sharing.rows,
        jnp.maximum(sharing.rows, wide.rows),
        shown,
        rho,
        repeated,
        significant,
        along > _STRONG,
        (along > 0) & (coarse.num < FEWEST_CELLS),
    )
