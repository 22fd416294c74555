"""Sums of products per cell, in one pass over the rows (docs/method.md, section 3.2).

Rows lie along the last axis. Long tables are summed piece by piece, so that the products of all
pairs of columns never exist for all rows at once.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.numerics import cell_sums

_PIECE = 1 << 15
"""Rows whose products exist at once."""


def sum_products(
    columns: jax.Array, cell: jax.Array, num_cells: int, weights: jax.Array | None = None
) -> jax.Array:
    """Sums of products of all pairs of columns, per cell.

    Args:
      columns: ``(m, n)``.
      cell: ``(n,)`` int; rows with values outside ``0 .. num_cells - 1`` are left out.
      num_cells: number of cells (static).
      weights: ``(n,)`` of the rows; 1 where None.

    Returns:
      ``(num_cells, m, m)`` symmetric.
    """
    size, num = columns.shape
    pairs = list(itertools.combinations_with_replacement(range(size), 2))
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    left = columns if weights is None else columns * weights[None]

    def total(left: jax.Array, right: jax.Array, cell: jax.Array) -> jax.Array:
        products = (left[first] * right[second]).T
        return cell_sums.cell_totals(products, cell, num_cells)

    if num <= 2 * _PIECE:
        totals = total(left, columns, cell)
    else:
        pieces = -(-num // _PIECE)
        rest = pieces * _PIECE - num

        def split(values: jax.Array, fill: int) -> jax.Array:
            padded = jnp.pad(values, ((0, 0), (0, rest)), constant_values=fill)
            return jnp.swapaxes(padded.reshape(values.shape[0], pieces, _PIECE), 0, 1)

        def add(carry: jax.Array, piece: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
            left, right, cell = piece
            return carry + total(left, right, cell[0]), None

        start = jnp.zeros((num_cells, len(pairs)), columns.dtype)
        parts = (split(left, 0), split(columns, 0), split(cell[None], num_cells))
        totals = lax.scan(add, start, parts)[0]
    place = np.zeros((size, size), np.int32)
    place[first, second] = place[second, first] = np.arange(len(pairs))
    return totals[:, place]
