"""Rows far from their own neighbourhood, found by robust fits of single cells (section 3.3).

A discrepancy shifts whole cells, and what is robust within a cell does not see it; a gross error
stands alone among its neighbours.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.default.robust_cells import (
    MEDIAN_DEVIATION,
    CellRows,
    Robust,
    fit_robustly,
    gather_cells,
)
from lisdd_jax.numerics import cell_sums, medians

CUT = 5.0
"""Scales beyond which a row is set aside: of Gaussian rows two in ten million."""

_MANY = 0.3
"""Share of a cell's rows above which those far away are no outliers but a part of it."""

_CUT_STEPS = 2


class LocalFit(NamedTuple):
    """Robust fits of single cells.

    Attributes:
      residual: ``(n,)``.
      scale: ``(K,)`` of the cells' own noise, the middle one of three neighbours.
      pooled: the middle one of all cells.
      keep: ``(n,)`` bool, rows in use that are not set aside.
      degrees: ``(K,)`` coefficients per cell.
    """

    residual: jax.Array
    scale: jax.Array
    pooled: jax.Array
    keep: jax.Array
    degrees: jax.Array


def _spread(problem: CellRows, residual: jax.Array, rank: jax.Array) -> jax.Array:
    """The cells' own scales by medians, which bear outliers that came together by chance."""
    freedom = problem.num_rows / jnp.maximum(problem.num_rows - rank, 1)
    spread = medians.median_per_cell(jnp.abs(residual), problem.cell, problem.num_rows)
    return MEDIAN_DEVIATION * jnp.sqrt(freedom) * spread


class _Cut(NamedTuple):
    """A fit, and what the next one is cut at: scales of cells, and the middle one of all."""

    step: jax.Array
    coefficients: jax.Array
    residual: jax.Array
    rank: jax.Array
    near: jax.Array
    pooled: jax.Array


def _cut(problem: CellRows, found: Robust) -> _Cut:
    """Least squares on the rows within the bound, where some row was far away."""
    steps = jnp.where(found.suspicious, _CUT_STEPS, 0)

    def cut(state: _Cut) -> _Cut:
        scale = lax.cond(
            found.suspicious,
            lambda: _spread(problem, state.residual, state.rank),
            lambda: found.scale,
        )
        near, pooled = problem.bounds(scale)

        def refit() -> tuple[jax.Array, jax.Array, jax.Array]:
            bound = CUT * medians.per_row(jnp.maximum(near, pooled), problem.cell)
            keep = jnp.abs(state.residual) <= bound
            coefficients, rank = problem.fit(jnp.where(keep, problem.ones, 0.0))
            return coefficients, problem.residual(coefficients), rank

        same = (state.coefficients, state.residual, state.rank)
        coefficients, residual, rank = lax.cond(state.step < steps, refit, lambda: same)
        return _Cut(state.step + 1, coefficients, residual, rank, near, pooled)

    zero = jnp.zeros((), found.scale.dtype)
    begin = _Cut(jnp.int32(0), found.coefficients, found.residual, found.rank, found.scale, zero)
    return lax.while_loop(lambda state: state.step <= steps, cut, begin)


def set_aside(columns: jax.Array, response: jax.Array, cell: jax.Array, num_cells: int) -> LocalFit:
    """Fit every cell robustly and set aside the rows that lie far from their fit.

    Robust fits, then least squares on what lies within five scales. Nothing of it runs where the
    plain fits leave no row far away. Of many rows a sample at even steps tells the scales and what
    is far.

    Args:
      columns: ``(d, n)`` local directions ``[1, axis, physics]``.
      response: ``(n,)`` about a first fit.
      cell: ``(n,)`` int; ``num_cells`` in rows out of use.
      num_cells: static.

    References:
      Huber (1981), Robust statistics, chapter 7.
    """
    problem = gather_cells(columns, response, cell, num_cells)
    # Even steps along sorted rows give each cell its share.
    step = medians.sample_step(len(response))
    sample = problem
    if step > 1:
        sample = gather_cells(columns[:, ::step], response[::step], cell[::step], num_cells)
    found = _cut(sample, fit_robustly(sample))
    near, pooled = found.near, found.pooled
    bound = CUT * medians.per_row(jnp.maximum(near, pooled), cell)
    residual, rank = found.residual, found.rank
    if step > 1:
        kept = jnp.abs(problem.residual(found.coefficients)) <= bound
        coefficients, rank = problem.fit(jnp.where(kept, problem.ones, 0.0))
        residual = problem.residual(coefficients)
    within = problem.used & (jnp.abs(residual) <= bound)
    keep = unless_many(within, problem.used, cell, problem.num_rows)
    return LocalFit(residual, near, pooled, keep, rank)


def unless_many(
    keep: jax.Array, otherwise: jax.Array, cell: jax.Array, count: jax.Array
) -> jax.Array:
    """``keep`` in cells where it leaves out few rows, ``otherwise`` in the rest."""
    used = cell < count.shape[0]
    gone = cell_sums.cell_totals((used & ~keep).astype(count.dtype)[:, None], cell, len(count))
    many = (gone[:, 0] > _MANY * count) & (gone[:, 0] >= 3)
    return jnp.where(jnp.append(many, False)[cell], otherwise, keep)
