"""Least squares on unions of cells, from the cells' sums of products."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import cell_sums, least_squares, normal_equations


class Rows(NamedTuple):
    """Rows in the basis of a frame, the response taken about an initial fit."""

    basis: jax.Array
    residual: jax.Array
    mask: jax.Array
    cell: jax.Array
    products: jax.Array
    counts: jax.Array
    smallest_scale: jax.Array


class Refit(NamedTuple):
    """A step from the initial solution: inverse Gram matrix, residual sum, rows, and validity."""

    step: jax.Array
    inverse: jax.Array
    determined: jax.Array
    num_rows: jax.Array
    residual_sum: jax.Array


def make_rows(
    basis: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    cell: jax.Array,
    initial: jax.Array,
    num_cells: int,
    level: jax.Array,
) -> Rows:
    """Rows about an initial solution, with their sums of products per cell.

    Taking the response about a fit first keeps the sums from cancelling later.
    """
    # An additive constant per row leaves least squares about it exact, so it needs no derivative.
    initial = lax.stop_gradient(initial)
    residual = jnp.where(mask, response - basis @ initial, 0.0)
    columns = jnp.column_stack([basis, residual, jnp.where(mask, 1.0, 0.0)])
    cell = jnp.where(mask, cell, num_cells)
    return Rows(
        basis=basis,
        residual=residual,
        mask=mask,
        cell=cell,
        products=cell_sums.cell_products(columns, cell, num_cells),
        counts=cell_sums.cell_counts(cell, mask, num_cells),
        smallest_scale=least_squares.residual_rounding(basis.dtype) * level,
    )


def refit(rows: Rows, flagged: jax.Array) -> Refit:
    """Least squares on the unflagged cells, from their sums of products."""
    size = rows.basis.shape[1]
    table = jnp.sum(jnp.where(flagged[:, None, None], 0.0, rows.products), axis=0)
    fit = normal_equations.sweep(table[:size, :size], table[:size, size])
    num_rows = jnp.sum(jnp.where(flagged, 0, rows.counts))
    determined = jnp.all(fit.independent) & (num_rows > size)
    residual_sum = jnp.maximum(table[size, size] - fit.solution @ table[:size, size], 0.0)
    return Refit(fit.solution, fit.inverse, determined, num_rows, residual_sum)


def cell_energy(rows: Rows, step: jax.Array) -> jax.Array:
    """Sum of squared residuals per cell ``(R,)`` after a step from the initial solution."""
    size = rows.basis.shape[1]
    direction = jnp.concatenate([-step, jnp.ones(1, step.dtype)])
    block = rows.products[:, : size + 1, : size + 1]
    return jnp.maximum(jnp.einsum("i,rij,j->r", direction, block, direction), 0.0)
