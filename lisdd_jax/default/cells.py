"""Cells of about equal numbers of rows along the axis (docs/method.md, section 3.1).

The default method lays its own cells, so that its answer does not depend on those of the map. They
begin where the axis changes, since rows at one place of the axis cannot be told apart.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import hosted

MOST_CELLS = 24
"""A place is found to a cell and its ends are refined later: more cells cost time for little."""

FEWEST_CELLS = 4
"""Of fewer cells none can be told from the others."""

_FULL_CELLS = 12
"""With so many cells, each with rows enough for a fit of its own, the cells are fitted fully."""

_SMALL_ROWS, _LEAST_ROWS = 4, 3
"""Rows wanted and needed by a cell of which only the level is fitted."""

_MOST_COUNTED = 1 << 16
"""Rows up to which places are found by counting: of so few places it costs no more than a search
and compiles in a third of the time, but takes memory for all of them at once."""


class SortedCells(NamedTuple):
    """Cells of sorted rows.

    Attributes:
      of_row: ``(n,)`` int32; ``MOST_CELLS`` in rows out of use.
      bounds: ``(MOST_CELLS + 1,)`` int32, first row of every cell and the number of rows; empty
        cells come last.
      num: int32, how many there are.
    """

    of_row: jax.Array
    bounds: jax.Array
    num: jax.Array


def rows_of_full_cell(num_physics: int) -> int:
    """Rows that a fit of ``[1, axis, physics]`` in one cell needs to show its own noise too."""
    return 3 * (num_physics + 2) + 6


def lay_cells(
    axis: jax.Array, num_rows: jax.Array, wanted: jax.Array, least: jax.Array
) -> SortedCells:
    """Cells of equal counts, moved to where the axis changes.

    Args:
      axis: ``(n,)`` increasing; rows out of use last, at ``inf``.
      num_rows: rows in use.
      wanted: cells wanted, at most ``MOST_CELLS``.
      least: rows that a cell must have; too short ones join the next.

    Returns:
      ``SortedCells``.

    Example:
      >>> import jax, numpy as np
      >>> axis = np.array([0.0, 1.0, 1.0, 1.0, 2.0, 3.0])
      >>> jax.jit(lay_cells)(axis, np.int32(6), np.int32(3), np.int32(1)).of_row.tolist()
      [0, 1, 1, 1, 2, 2]
    """
    n = axis.shape[0]
    k = jnp.arange(1, MOST_CELLS, dtype=jnp.int32)
    rank = jnp.clip((k * num_rows + wanted // 2) // jnp.maximum(wanted, 1), 0, n - 1)
    at = axis[rank]
    before, after = _rows_before(axis, at)
    cut = jnp.where(rank - before <= after - rank, before, after)
    cut = jnp.where(k < wanted, jnp.minimum(cut, num_rows), num_rows)

    def step(last: jax.Array, cut: jax.Array) -> tuple[jax.Array, jax.Array]:
        taken = (cut - last >= least) & (num_rows - cut >= least)
        return jnp.where(taken, cut, last), taken

    _, taken = lax.scan(step, jnp.int32(0), cut)
    slot = jnp.where(taken, hosted.running_sums(taken.astype(jnp.int32))[:-1], -1)
    ends = jnp.min(jnp.where(slot[None] == (k - 1)[:, None], cut[None], num_rows), axis=1)
    bounds = jnp.concatenate([jnp.zeros(1, jnp.int32), ends, num_rows[None]])
    row = jnp.arange(n, dtype=jnp.int32)
    of_row = jnp.sum(row[None] >= ends[:, None], axis=0, dtype=jnp.int32)
    of_row = jnp.where(row < num_rows, of_row, MOST_CELLS)
    return SortedCells(of_row, bounds, 1 + jnp.sum(taken, dtype=jnp.int32))


def _rows_before(axis: jax.Array, at: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Numbers of rows with less than ``at (K,)`` on the axis, and with not more."""
    if len(axis) > _MOST_COUNTED:
        sides = (jnp.searchsorted(axis, at, side=side) for side in ("left", "right"))
        before, after = (place.astype(jnp.int32) for place in sides)
        return before, after
    before = jnp.sum(axis[None] < at[:, None], axis=1, dtype=jnp.int32)
    return before, jnp.sum(axis[None] <= at[:, None], axis=1, dtype=jnp.int32)


def coarse_cells(axis: jax.Array, num_rows: jax.Array, num_physics: int) -> SortedCells:
    """Cells with rows enough for a fit of their own, however few cells that makes."""
    rows = rows_of_full_cell(num_physics)
    wanted = jnp.clip(num_rows // rows, 1, MOST_CELLS)
    return lay_cells(axis, num_rows, wanted, jnp.minimum(rows, num_rows // 2))


def fine_cells(
    axis: jax.Array, num_rows: jax.Array, num_physics: int, stretch: jax.Array
) -> tuple[SortedCells, jax.Array]:
    """The cells of the place, and whether they are fitted fully (else only their levels are).

    Args:
      axis, num_rows: as for ``lay_cells``.
      num_physics: columns of the design.
      stretch: by how much cells must be longer than those of independent rows, at least 1.
    """
    rows = rows_of_full_cell(num_physics)
    long = (rows * stretch).astype(jnp.int32)
    full = (num_rows >= _FULL_CELLS * rows) | ((stretch > 1) & (num_rows >= FEWEST_CELLS * long))
    few = jnp.maximum((_SMALL_ROWS * stretch).astype(jnp.int32), _SMALL_ROWS)
    each, most = jnp.where(full, long, few), jnp.where(full, MOST_CELLS, _FULL_CELLS)
    wanted = jnp.clip(num_rows // each, 1, most)
    least = jnp.where(full, rows, _LEAST_ROWS)
    return lay_cells(axis, num_rows, wanted, jnp.minimum(least, num_rows // 2)), full
