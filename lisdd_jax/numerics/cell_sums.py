"""Sums of products per cell: what lets a refit on any union of cells cost nothing in rows."""

import itertools

import jax
import jax.numpy as jnp
from jax import lax


def cell_totals(values: jax.Array, cell: jax.Array, num_cells: int) -> jax.Array:
    """Sum rows by cell.

    Args:
      values: ``(n, m)``.
      cell: ``(n,)`` int; rows with a cell outside ``0 .. num_cells - 1`` are left out.
      num_cells: number of cells (static).

    Returns:
      ``(num_cells, m)`` totals.
    """

    def by_scatter(values: jax.Array, cell: jax.Array) -> jax.Array:
        return (
            jnp.zeros((num_cells, values.shape[1]), values.dtype).at[cell].add(values, mode="drop")
        )

    def by_product(values: jax.Array, cell: jax.Array) -> jax.Array:
        membership = jax.nn.one_hot(cell, num_cells, axis=0, dtype=values.dtype)
        return jnp.matmul(membership, values, precision="highest")

    cell = jnp.where(cell < 0, num_cells, cell)
    # Scattered sums run in order on CPU; elsewhere they are atomic, so their order, and with it
    # the last bits, would change from run to run.
    return lax.platform_dependent(values, cell, cpu=by_scatter, default=by_product)


def cell_products(columns: jax.Array, cell: jax.Array, num_cells: int) -> jax.Array:
    """Sums of products of columns, per cell.

    Args:
      columns: ``(n, m)``.
      cell: ``(n,)`` int, as for ``cell_totals``.
      num_cells: number of cells (static).

    Returns:
      ``(num_cells, m, m)`` symmetric matrices.
    """
    size = columns.shape[1]
    pairs = list(itertools.combinations_with_replacement(range(size), 2))
    rows = jnp.array([i for i, _ in pairs])
    others = jnp.array([j for _, j in pairs])
    totals = cell_totals(columns[:, rows] * columns[:, others], cell, num_cells)
    place = [[pairs.index((min(i, j), max(i, j))) for j in range(size)] for i in range(size)]
    return totals[:, jnp.array(place)]


def cell_counts(cell: jax.Array, mask: jax.Array, num_cells: int) -> jax.Array:
    """Rows in use per cell, ``(num_cells,)`` int32."""
    target = jnp.where(mask & (cell >= 0), cell, num_cells)
    return jnp.zeros(num_cells, jnp.int32).at[target].add(1, mode="drop")
