"""Rows far from their own neighbourhood, found by robust fits of single cells (section 3.3).

A discrepancy shifts whole cells, and what is robust within a cell does not see it; a gross error
stands alone among its neighbours.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.default.sums import sum_products
from lisdd_jax.numerics import cell_sums, medians, small_systems, tolerances

CUT = 5.0
"""Scales beyond which a row is set aside: of Gaussian rows two in ten million."""

_SUSPICIOUS = 4.0
"""Scales below which all rows lie where there is nothing to look for."""

_MANY = 0.3
"""Share of a cell's rows above which those far away are no outliers but a part of it."""

_HUBER_STEPS, _BISQUARE_STEPS, _CUT_STEPS = 4, 3, 2
_BISQUARE = 4.685
"""Tuning constant of 95 % efficiency at the normal (Beaton and Tukey 1974)."""

_WINSOR, _WINSOR_SQUARE = 1.5, 0.7785
"""Winsorised at 1.5 deviations a standard normal has the mean square 0.7785 (Huber 1981)."""

_MEDIAN_DEVIATION = 1.4826
"""A normal's standard deviation over its median absolute deviation."""


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


def _problem_of(
    columns: jax.Array, response: jax.Array, cell: jax.Array, num_cells: int
) -> "_Problem":
    ones = (cell < num_cells).astype(response.dtype)
    count = cell_sums.cell_totals(ones[:, None], cell, num_cells)[:, 0]
    return _Problem(columns, response, cell, ones, count)


class _Problem(NamedTuple):
    """Rows in cells, to be fitted again and again with other weights.

    Attributes:
      columns: ``(d, n)`` local directions.
      response: ``(n,)``.
      cell: ``(n,)`` int; ``K`` in rows out of use.
      ones: ``(n,)`` 1 for rows in use.
      num_rows: ``(K,)`` rows in use.
    """

    columns: jax.Array
    response: jax.Array
    cell: jax.Array
    ones: jax.Array
    num_rows: jax.Array

    @property
    def used(self) -> jax.Array:
        return self.ones > 0

    @property
    def num(self) -> jax.Array:
        """Cells that hold rows."""
        return jnp.sum(self.num_rows > 0, dtype=jnp.int32)

    def totals(self, values: jax.Array) -> jax.Array:
        """Sums ``(K,)`` of values of rows."""
        return cell_sums.cell_totals(values[:, None], self.cell, len(self.num_rows))[:, 0]

    def fit(self, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Coefficients ``(d, K)`` of least squares in every cell, and its rank ``(K,)``."""
        size, dtype = len(self.columns), self.response.dtype
        both = jnp.concatenate([self.columns, self.response[None]])
        gram = sum_products(both, self.cell, len(self.num_rows), weights)
        solved = small_systems.solve(
            gram[:, :size, :size], gram[:, :size, size], tolerances.gram(dtype)
        )
        return solved.solution.T, solved.rank

    def residual(self, coefficients: jax.Array) -> jax.Array:
        """Residuals ``(n,)`` of ``coefficients (d, K)``."""
        # Column by column: a gather of whole rows costs several times as much.
        each = zip(self.columns, coefficients, strict=True)
        outside = jnp.zeros(1, self.response.dtype)
        fitted = sum(column * jnp.append(own, outside)[self.cell] for column, own in each)
        return self.response - fitted

    def bounds(self, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Scales ``(K,)`` of cells beside their neighbours, and the middle one of all."""
        return medians.middle_of_three(scale, self.num), medians.median_of_positive(
            scale, self.num_rows > 0
        )


class _Robust(NamedTuple):
    """A robust fit under way: coefficients, residuals, the cells' scales and ranks, and whether a
    row is far away."""

    step: jax.Array
    coefficients: jax.Array
    residual: jax.Array
    scale: jax.Array
    rank: jax.Array
    suspicious: jax.Array


def _pooled_scale(problem: _Problem, residual: jax.Array) -> jax.Array:
    total = jnp.sum(problem.ones)
    left = total - (len(problem.columns) * problem.num).astype(total.dtype)
    freedom = total / jnp.maximum(left, 1)
    spread = medians.median_of_positive(jnp.abs(residual), problem.used)
    return _MEDIAN_DEVIATION * spread * jnp.sqrt(jnp.maximum(freedom, 1))


def _winsorised(
    problem: _Problem, residual: jax.Array, scale: jax.Array, rank: jax.Array
) -> jax.Array:
    bound = _WINSOR * medians.per_row(scale, problem.cell)
    square = jnp.minimum(jnp.abs(residual), bound) ** 2
    squares = problem.totals(jnp.where(problem.used, square, 0.0))
    return jnp.sqrt(squares / jnp.maximum(problem.num_rows - rank, 1) / _WINSOR_SQUARE)


def _reweight(problem: _Problem, state: _Robust) -> _Robust:
    """One step: plain, then Huber's weights, then bisquare ones."""
    step, cell = state.step, problem.cell
    ratio = jnp.abs(state.residual) / medians.per_row(state.scale, cell)
    huber = 1 / jnp.maximum(ratio, 1.0)
    bisquare = jnp.where(ratio < _BISQUARE, (1 - (ratio / _BISQUARE) ** 2) ** 2, 0.0)
    weights = jnp.where(step <= _HUBER_STEPS, huber, bisquare)
    coefficients, rank = problem.fit(problem.ones * jnp.where(step == 0, 1.0, weights))
    residual = problem.residual(coefficients)
    pooled = _pooled_scale(problem, residual)
    scale = _winsorised(problem, residual, jnp.where(step == 0, pooled, state.scale), rank)
    scale = jnp.clip(scale, 0.2 * pooled, 3 * pooled)
    far = jnp.abs(residual) > _SUSPICIOUS * medians.per_row(jnp.maximum(scale, pooled), cell)
    suspicious = jnp.any(far & problem.used)
    return _Robust(step + 1, coefficients, residual, scale, rank, suspicious)


def _fit_robustly(problem: _Problem) -> _Robust:
    dtype, num_cells = problem.response.dtype, len(problem.num_rows)

    def goes_on(state: _Robust) -> jax.Array:
        return (state.step == 0) | (
            state.suspicious & (state.step <= _HUBER_STEPS + _BISQUARE_STEPS)
        )

    zero = jnp.zeros(num_cells, dtype)
    nothing = jnp.zeros((len(problem.columns), num_cells), dtype)
    yes = jnp.ones((), bool)
    start = _Robust(jnp.int32(0), nothing, problem.response, zero + 1, zero, yes)
    return lax.while_loop(goes_on, lambda state: _reweight(problem, state), start)


def _spread(problem: _Problem, residual: jax.Array, rank: jax.Array) -> jax.Array:
    """The cells' own scales by medians, which bear outliers that came together by chance."""
    freedom = problem.num_rows / jnp.maximum(problem.num_rows - rank, 1)
    spread = medians.median_per_cell(jnp.abs(residual), problem.cell, problem.num_rows)
    return _MEDIAN_DEVIATION * jnp.sqrt(freedom) * spread


class _Cut(NamedTuple):
    """A fit, and what the next one is cut at: scales of cells, and the middle one of all."""

    step: jax.Array
    coefficients: jax.Array
    residual: jax.Array
    rank: jax.Array
    near: jax.Array
    pooled: jax.Array


def _cut(problem: _Problem, found: _Robust) -> _Cut:
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

    Four steps of Huber's weights, three of bisquare weights, then least squares on what lies within
    five scales. Nothing of it runs where the plain fits leave no row far away. Of many rows a
    sample at even steps tells the scales and what is far.

    Args:
      columns: ``(d, n)`` local directions ``[1, axis, physics]``.
      response: ``(n,)`` about a first fit.
      cell: ``(n,)`` int; ``num_cells`` in rows out of use.
      num_cells: static.

    References:
      Huber (1981), Robust statistics, chapter 7.
    """
    problem = _problem_of(columns, response, cell, num_cells)
    # Even steps along sorted rows give each cell its share.
    step = medians.sample_step(len(response))
    sample = problem
    if step > 1:
        sample = _problem_of(columns[:, ::step], response[::step], cell[::step], num_cells)
    found = _cut(sample, _fit_robustly(sample))
    near, pooled = found.near, found.pooled
    bound = CUT * medians.per_row(jnp.maximum(near, pooled), cell)
    residual, rank = found.residual, found.rank
    if step > 1:
        kept = jnp.abs(problem.residual(found.coefficients)) <= bound
        coefficients, rank = problem.fit(jnp.where(kept, problem.ones, 0.0))
        residual = problem.residual(coefficients)
    within = problem.used & (jnp.abs(residual) <= bound)
    keep = _unless_many(within, problem.used, cell, problem.num_rows)
    return LocalFit(residual, near, pooled, keep, rank)


def _unless_many(
    keep: jax.Array, otherwise: jax.Array, cell: jax.Array, count: jax.Array
) -> jax.Array:
    """``keep`` in cells where it leaves out few rows, ``otherwise`` in the rest."""
    used = cell < count.shape[0]
    gone = cell_sums.cell_totals((used & ~keep).astype(count.dtype)[:, None], cell, len(count))
    many = (gone[:, 0] > _MANY * count) & (gone[:, 0] >= 3)
    return jnp.where(jnp.append(many, False)[cell], otherwise, keep)


def near_law(
    residual: jax.Array,
    local: jax.Array,
    scale: jax.Array,
    cell: jax.Array,
    num_cells: int,
    clean: jax.Array,
) -> jax.Array:
    """Rows to keep once a law is known: those near to it, in cells that obey it.

    Other cells keep the rows near to their own fit: judged about the law, they would lose those
    rows that show best what is wrong there. So do cells most of which lies elsewhere.

    Args:
      residual: ``(n,)`` of the law.
      local: ``(n,)`` bool, rows near to robust fits of their cells.
      scale: ``(num_cells,)`` noise scales.
      cell: ``(n,)`` int.
      num_cells: static.
      clean: ``(num_cells,)`` bool, cells that obey the law.

    Returns:
      ``(n,)`` bool.
    """
    used = cell < num_cells
    ones = used.astype(residual.dtype)
    count = cell_sums.cell_totals(ones[:, None], cell, num_cells)[:, 0]
    near = used & (jnp.abs(residual) <= CUT * medians.per_row(scale, cell))
    near = jnp.where(jnp.append(clean, False)[cell], near, local)
    return _unless_many(near, local, cell, count)
