"""Cells of the operating axis: half-open intervals, the last one closed."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import validation
from lisdd_jax.numerics import cell_sums, order
from lisdd_jax.numerics.hosted import namespace


def check_edges(edges: Any, axis: jax.Array, mask: jax.Array, num_cells: int) -> jax.Array:
    """Edges of the type of the axis; refuse those that do not cover the rows in use.

    Under a trace what depends on values is not checked: see ``Status.ROWS_OUTSIDE_EDGES``.

    Args:
      edges: ``(R + 1,)``; equal widths over the rows in use where None.
      axis: ``(n,)``.
      mask: ``(n,)`` bool, rows in use.
      num_cells: cells where no edges are given.

    Returns:
      ``(R + 1,)`` edges.

    Raises:
      ValueError, TypeError: edges are too few, decrease, or leave rows in use outside.
    """
    if edges is None:
        return equal_width_edges(axis, num_cells, mask)
    edges = validation.float_array("edges", edges).astype(axis.dtype)
    validation.Shapes().check("edges", edges.shape, ("R + 1",))
    if edges.shape[0] < 3:
        raise ValueError(f"edges must bound at least 2 cells, got {edges.shape[0]} edges")
    # In NumPy, since JAX traces even operations on known values under a transform.
    if validation.is_concrete(edges) and not np.all(np.diff(np.asarray(edges)) >= 0):
        raise ValueError(f"edges must not decrease, got {edges.tolist()}")
    if all(map(validation.is_concrete, (edges, axis, mask))):
        low, high = np.asarray(edges)[[0, -1]]
        used = np.asarray(axis)[np.asarray(mask)]
        outside = int(np.sum((used < low) | (used > high)))
        if outside:
            raise ValueError(
                f"edges must cover the axis, but {outside} rows in use lie outside"
                f" {low:g} to {high:g}; mask them or move the edges"
            )
    return edges


def equal_width_edges(axis: Any, num_cells: int, mask: Any) -> Any:
    """Edges ``(num_cells + 1,)`` of cells of equal width over the range of the rows in use.

    In NumPy where the rows are, so that nothing is compiled for them.
    """
    xp = namespace(axis, mask)
    low = xp.min(xp.where(mask, axis, xp.inf))
    high = xp.max(xp.where(mask, axis, -xp.inf))
    steps = xp.arange(num_cells, dtype=axis.dtype) / np.asarray(num_cells, axis.dtype)
    # Without a row in use there is no range, and edges are NaN.
    with np.errstate(invalid="ignore"):
        return xp.append(low + (high - low) * steps, high)


@partial(jax.jit, static_argnames="num_cells")
def quantile_edges(axis: jax.Array, num_cells: int, mask: jax.Array) -> jax.Array:
    """Edges ``(num_cells + 1,)`` at data values that share the rows in use out evenly.

    With ties some edges coincide; the cell between them is empty.
    """
    values = jnp.where(mask, axis, jnp.inf)
    count = jnp.sum(mask, dtype=jnp.int32)
    ranks = 1 + (jnp.arange(num_cells + 1, dtype=jnp.int32) * (count - 1)) // num_cells
    return jax.lax.map(lambda rank: order.kth_smallest(values, jnp.maximum(rank, 1)), ranks)


def cell_index(axis: jax.Array, edges: jax.Array, mask: jax.Array) -> jax.Array:
    """Cell of every row; rows out of use or outside the edges get the number of cells.

    Args:
      axis: ``(n,)``.
      edges: ``(R + 1,)`` non-decreasing.
      mask: ``(n,)`` bool, rows in use.

    Returns:
      ``(n,)`` int32 in ``0 .. R``. A value on an inner edge belongs to the cell above it, the
      largest edge to the last cell that is not empty of width.

    Example:
      >>> import jax, numpy as np
      >>> x = np.array([0.0, 1.0, 2.0])
      >>> jax.jit(cell_index)(x, x, np.ones(3, bool)).tolist()
      [0, 1, 1]
    """
    num_cells = edges.shape[0] - 1
    index = jnp.sum(axis[:, None] >= edges[None], axis=1, dtype=jnp.int32) - 1
    last = jnp.max(jnp.where(edges[:-1] < edges[-1], jnp.arange(num_cells), 0)).astype(jnp.int32)
    index = jnp.where(axis == edges[-1], last, index)
    inside = mask & (axis >= edges[0]) & (axis <= edges[-1])
    return jnp.where(inside, index, num_cells).astype(jnp.int32)


@jax.jit
def merge_small_cells(
    axis: jax.Array, edges: jax.Array, mask: jax.Array, minimum: jax.Array | int
) -> jax.Array:
    """Merge each cell with fewer rows than ``minimum`` into its neighbour.

    The number of edges stays, so that shapes are fixed: a merged cell has width zero and no rows.

    Args:
      axis: ``(n,)``.
      edges: ``(R + 1,)``.
      mask: ``(n,)`` bool, rows in use.
      minimum: least number of rows per remaining cell.

    Returns:
      ``(R + 1,)`` edges.
    """
    num_cells = edges.shape[0] - 1
    counts = cell_sums.cell_counts(cell_index(axis, edges, mask), mask, num_cells)

    def close(gathered: jax.Array, count: jax.Array) -> tuple[jax.Array, jax.Array]:
        gathered = gathered + count
        full = gathered >= minimum
        return jnp.where(full, 0, gathered), full

    _, closes = jax.lax.scan(close, jnp.int32(0), counts)
    # The last full cell reaches to the end, so that it takes in what is left over there.
    last_full = jnp.max(jnp.where(closes, jnp.arange(num_cells), -1))
    closes = closes & (jnp.arange(num_cells) != last_full)
    kept = jnp.concatenate([jnp.ones(1, bool), closes[:-1], jnp.ones(1, bool)])
    filled = jnp.where(kept, edges, -jnp.inf)
    return jax.lax.cummax(filled)
