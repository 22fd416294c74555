"""Least squares on unions of cells, from the cells' sums of products (docs/method.md, equation 6).

The sums are taken once, about a first solution, so that they do not cancel later; a refit on any
union of cells then costs nothing in rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.numerics import cell_sums, normal_equations


class CellSums(NamedTuple):
    """Sums of products per cell.

    Attributes:
      products: ``(R, p + 2, p + 2)`` of the basis, the residual of a first solution, and ones.
      counts: ``(R,)`` int32, rows.
    """

    products: jax.Array
    counts: jax.Array


class CellFit(NamedTuple):
    """Least squares on some cells.

    Attributes:
      step: ``(p,)`` from the first solution, in the basis.
      inverse: ``(p, p)`` of the Gram matrix.
      determined: bool, every column is independent and rows are left for the noise.
      num_rows: rows fitted.
      residual_sum: sum of squared residuals.
    """

    step: jax.Array
    inverse: jax.Array
    determined: jax.Array
    num_rows: jax.Array
    residual_sum: jax.Array


def sum_cells(
    basis: jax.Array, residual: jax.Array, mask: jax.Array, cell: jax.Array, num_cells: int
) -> CellSums:
    """Sums over the rows in use.

    Args:
      basis: ``(n, p)`` physics in a frame, zero in rows out of use.
      residual: ``(n,)`` of a first solution, likewise.
      mask: ``(n,)`` bool, rows in use.
      cell: ``(n,)`` int; the number of cells where out of use.
      num_cells: number of cells (static).

    Returns:
      A ``CellSums``.
    """
    columns = jnp.column_stack([basis, residual, mask.astype(basis.dtype)])
    return CellSums(
        cell_sums.cell_products(columns, cell, num_cells),
        cell_sums.cell_counts(cell, mask, num_cells),
    )


def fit_cells(sums: CellSums, chosen: jax.Array) -> CellFit:
    """Least squares on the cells in ``chosen (R,)``."""
    size = sums.products.shape[-1] - 2
    table = jnp.sum(jnp.where(chosen[:, None, None], sums.products, 0.0), axis=0)
    fit = normal_equations.sweep(table[:size, :size], table[:size, size])
    num_rows = jnp.sum(jnp.where(chosen, sums.counts, 0))
    determined = jnp.all(fit.independent) & (num_rows > size)
    residual_sum = jnp.maximum(table[size, size] - fit.solution @ table[:size, size], 0.0)
    return CellFit(fit.solution, fit.inverse, determined, num_rows, residual_sum)


def cell_energy(sums: CellSums, step: jax.Array) -> jax.Array:
    """Sum of squared residuals per cell ``(R,)`` after a step from the first solution."""
    direction = jnp.concatenate([-step, jnp.ones(1, step.dtype)])
    block = sums.products[:, :-1, :-1]
    return jnp.maximum(jnp.einsum("i,rij,j->r", direction, block, direction), 0.0)


def cell_means(sums: CellSums, step: jax.Array) -> jax.Array:
    """Mean residual per cell ``(R,)`` after a step from the first solution; NaN without rows."""
    total = sums.products[:, -1, -2] - sums.products[:, -1, :-2] @ step
    count = jnp.maximum(sums.counts, 1).astype(step.dtype)
    return jnp.where(sums.counts > 0, total / count, jnp.nan)
