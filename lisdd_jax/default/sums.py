"""Sums of products per cell, in one pass over the rows (docs/method.md, section 3.2).

Rows lie along the last axis. Long tables are summed piece by piece, so that the products of all
pairs of columns never exist for all rows at once. Sorted rows make cells that are runs of rows: a
piece holds few of them, and a matrix product for each costs a tenth of adding row by row.
"""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.numerics import cell_sums

_PIECE = 1 << 12
"""Rows whose products exist at once."""

_FEW_CELLS = 4
"""Cells of short tables up to which a matrix product for each costs less than adding row by row."""


def sum_products(
    columns: jax.Array,
    cell: jax.Array,
    num_cells: int,
    weights: jax.Array | None = None,
    expand: Callable[[jax.Array], jax.Array] = lambda columns: columns,
) -> jax.Array:
    """Sums of products of all pairs of columns, per cell.

    Args:
      columns: ``(m, n)``.
      cell: ``(n,)`` int; rows with values outside ``0 .. num_cells - 1`` are left out. Of long
        tables near rows should be of near cells; others take longer.
      num_cells: number of cells (static).
      weights: ``(n,)`` of the rows; 1 where None.
      expand: makes of columns ``(m, .)`` of some rows those that are summed, ``(m', .)``: they
        never exist for all rows of a long table.

    Returns:
      ``(num_cells, m', m')`` symmetric.
    """
    if cell.shape[0] > 2 * _PIECE:
        return _sum_by_pieces(columns, cell, num_cells, weights, expand)
    columns = expand(columns)
    if num_cells <= _FEW_CELLS:
        return _sum_by_masks(columns, cell, num_cells, weights)
    return _sum_by_rows(columns, cell, num_cells, weights)


def _sum_by_masks(
    columns: jax.Array, cell: jax.Array, num_cells: int, weights: jax.Array | None
) -> jax.Array:
    own = cell[None] == jnp.arange(num_cells, dtype=cell.dtype)[:, None]
    one = jnp.ones(1, columns.dtype) if weights is None else weights
    rows = jnp.where(own, one[None], 0.0)
    return _symmetric((rows[:, None] * columns[None]) @ columns.T)


def _symmetric(total: jax.Array) -> jax.Array:
    # The two halves differ in how the weight was rounded.
    return 0.5 * (total + total.mT)


def _sum_by_rows(
    columns: jax.Array, cell: jax.Array, num_cells: int, weights: jax.Array | None
) -> jax.Array:
    size = columns.shape[0]
    pairs = list(itertools.combinations_with_replacement(range(size), 2))
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    left = columns if weights is None else columns * weights[None]
    totals = cell_sums.cell_totals((left[first] * columns[second]).T, cell, num_cells)
    place = np.zeros((size, size), np.int32)
    place[first, second] = place[second, first] = np.arange(len(pairs))
    return totals[:, place]


def _sum_by_pieces(
    columns: jax.Array,
    cell: jax.Array,
    num_cells: int,
    weights: jax.Array | None,
    expand: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    num, size = cell.shape[0], jax.eval_shape(expand, columns).shape[0]
    place = jnp.arange(_PIECE, dtype=jnp.int32)
    given = jnp.where((cell >= 0) & (cell < num_cells), cell, num_cells).astype(jnp.int32)

    def add(total: jax.Array, begin: jax.Array) -> tuple[jax.Array, None]:
        # The last piece reaches back over rows that are counted already.
        first = jnp.minimum(begin, num - _PIECE)

        def cut(values: jax.Array) -> jax.Array:
            return lax.dynamic_slice_in_dim(values, first, _PIECE, axis=-1)

        part, own = expand(cut(columns)), jnp.where(place >= begin - first, cut(given), num_cells)
        weighted = part if weights is None else part * cut(weights)[None]

        def add_cell(k: jax.Array, total: jax.Array) -> jax.Array:
            return total.at[k].add(jnp.where(own == k, weighted, 0.0) @ part.T)

        last = jnp.max(jnp.where(own < num_cells, own, -1))
        return lax.fori_loop(jnp.min(own), last + 1, add_cell, total), None

    zero = jnp.zeros((num_cells, size, size), columns.dtype)
    total, _ = lax.scan(add, zero, jnp.arange(0, num, _PIECE, dtype=jnp.int32))
    return _symmetric(total)
