"""Sums of products per cell, in one pass over the rows (docs/method.md, section 3.2).

Rows lie along the last axis. Long tables are summed piece by piece, so that the products of all
pairs of columns never exist for all rows at once.
"""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.numerics import cell_sums

_PIECE = 1 << 15
"""Rows whose products exist at once."""


def sum_pieces(
    total: Callable[..., jax.Array], live: jax.Array, *arrays: jax.Array | None
) -> jax.Array:
    """``total(live, *arrays)`` as a sum over pieces of the rows where there are many.

    Args:
      total: gives sums over rows, in which those that are not live count nothing.
      live: ``(n,)`` bool.
      *arrays: ``(..., n)``, or None.
    """
    num = live.shape[0]
    if num <= 2 * _PIECE:
        return total(live, *arrays)
    place = jnp.arange(_PIECE, dtype=jnp.int32)

    def add(carry: jax.Array, begin: jax.Array) -> tuple[jax.Array, None]:
        # The last piece reaches back over rows that are counted already.
        first = jnp.minimum(begin, num - _PIECE)

        def cut(values: jax.Array) -> jax.Array:
            return lax.dynamic_slice_in_dim(values, first, _PIECE, axis=-1)

        parts = (None if values is None else cut(values) for values in arrays)
        return carry + total(cut(live) & (place >= begin - first), *parts), None

    whole = jax.eval_shape(total, live, *arrays)
    begins = jnp.arange(0, num, _PIECE, dtype=jnp.int32)
    return lax.scan(add, jnp.zeros(whole.shape, whole.dtype), begins)[0]


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
    size = columns.shape[0]
    pairs = list(itertools.combinations_with_replacement(range(size), 2))
    first, second = (np.array(side) for side in zip(*pairs, strict=True))

    def total(
        live: jax.Array, columns: jax.Array, cell: jax.Array, weights: jax.Array | None
    ) -> jax.Array:
        left = columns if weights is None else columns * weights[None]
        products = (left[first] * columns[second]).T
        return cell_sums.cell_totals(products, jnp.where(live, cell, num_cells), num_cells)

    totals = sum_pieces(total, jnp.ones(cell.shape, bool), columns, cell, weights)
    place = np.zeros((size, size), np.int32)
    place[first, second] = place[second, first] = np.arange(len(pairs))
    return totals[:, place]
