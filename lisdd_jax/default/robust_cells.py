"""Robust fits of single cells, from two beginnings (docs/method.md, section 3.3)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.default.sums import sum_products
from lisdd_jax.numerics import cell_sums, medians, small_systems, tolerances

_SUSPICIOUS = 4.0
"""Scales below which all rows lie where there is nothing to look for."""

_AS_WELL = 1.1
"""Scale over that of a fit of all columns up to which a level describes a cell as well."""

_HUBER_STEPS, _BISQUARE_STEPS = 4, 3
_BISQUARE = 4.685
"""Tuning constant of 95 % efficiency at the normal (Beaton and Tukey 1974)."""

WINSOR, WINSOR_SQUARE = 1.5, 0.7785
"""Winsorised at 1.5 deviations a standard normal has the mean square 0.7785 (Huber 1981)."""

MEDIAN_DEVIATION = 1.4826
"""A normal's standard deviation over its median absolute deviation."""


class CellRows(NamedTuple):
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
        """Which rows are in use, ``(n,)`` bool."""
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


def gather_cells(
    columns: jax.Array, response: jax.Array, cell: jax.Array, num_cells: int
) -> CellRows:
    """The rows of cells, to be fitted.

    Args:
      columns: ``(d, n)`` local directions, a constant first.
      response: ``(n,)``.
      cell: ``(n,)`` int; ``num_cells`` in rows out of use.
      num_cells: static.
    """
    ones = (cell < num_cells).astype(response.dtype)
    count = cell_sums.cell_totals(ones[:, None], cell, num_cells)[:, 0]
    return CellRows(columns, response, cell, ones, count)


class Robust(NamedTuple):
    """A robust fit under way: coefficients, residuals, the cells' scales and ranks, and whether a
    row is far away."""

    step: jax.Array
    coefficients: jax.Array
    residual: jax.Array
    scale: jax.Array
    rank: jax.Array
    suspicious: jax.Array


def _pooled_scale(problem: CellRows, residual: jax.Array) -> jax.Array:
    total = jnp.sum(problem.ones)
    left = total - (len(problem.columns) * problem.num).astype(total.dtype)
    freedom = total / jnp.maximum(left, 1)
    spread = medians.median_of_positive(jnp.abs(residual), problem.used)
    return MEDIAN_DEVIATION * spread * jnp.sqrt(jnp.maximum(freedom, 1))


def _winsorised(
    problem: CellRows, residual: jax.Array, scale: jax.Array, rank: jax.Array
) -> jax.Array:
    bound = WINSOR * medians.per_row(scale, problem.cell)
    square = jnp.minimum(jnp.abs(residual), bound) ** 2
    squares = problem.totals(jnp.where(problem.used, square, 0.0))
    return jnp.sqrt(squares / jnp.maximum(problem.num_rows - rank, 1) / WINSOR_SQUARE)


def _reweight(problem: CellRows, state: Robust) -> Robust:
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
    return Robust(step + 1, coefficients, residual, scale, rank, suspicious)


def _steps(problem: CellRows, start: Robust, last: int) -> Robust:
    """Steps up to ``last``, after the first while some row is far away."""

    def goes_on(state: Robust) -> jax.Array:
        return (state.step == 0) | (state.suspicious & (state.step <= last))

    return lax.while_loop(goes_on, lambda state: _reweight(problem, state), start)


def _choose(problem: CellRows, other: jax.Array, new: Robust, old: Robust) -> Robust:
    """``new`` in the cells ``other (K,)``, ``old`` in the rest."""
    of_row = jnp.append(other, False)[problem.cell]
    return old._replace(
        coefficients=jnp.where(other[None], new.coefficients, old.coefficients),
        residual=jnp.where(of_row, new.residual, old.residual),
        scale=jnp.where(other, new.scale, old.scale),
        rank=jnp.where(other, new.rank, old.rank),
    )


def fit_robustly(problem: CellRows) -> Robust:
    """The better in every cell of a fit that begins with all columns, and one with a level.

    Of few rows with many columns gross errors can bend the first towards them; the second, about
    the first fit of all rows, bears more of them.
    """
    dtype, num_cells = problem.response.dtype, len(problem.num_rows)
    zero, yes = jnp.zeros(num_cells, dtype), jnp.ones((), bool)
    nothing = jnp.zeros((len(problem.columns), num_cells), dtype)
    start = Robust(jnp.int32(0), nothing, problem.response, zero + 1, zero, yes)
    last = _HUBER_STEPS + _BISQUARE_STEPS
    first = _steps(problem, start, last)

    def both() -> Robust:
        alone = problem._replace(columns=problem.columns[:1])
        level = _steps(alone, start._replace(coefficients=nothing[:1]), last)
        level = level._replace(coefficients=nothing.at[:1].set(level.coefficients))
        begin = level._replace(step=jnp.int32(_HUBER_STEPS + 1), suspicious=yes)
        second = _steps(problem, begin, last)
        better = _choose(problem, second.scale < first.scale, second, first)
        return _choose(problem, level.scale <= _AS_WELL * better.scale, level, better)

    return lax.cond(first.suspicious, both, lambda: first)
