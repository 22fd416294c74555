"""Stage 1, the trusted physics: alternate between flagging cells and refitting on the others.

The search for the flagged cells is discrete and carries no derivative; the estimate that follows
it is ordinary least squares on the clean cells and is differentiable as such.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import localization, validation
from lisdd_jax.config import Config
from lisdd_jax.numerics import cell_sums, least_squares, order
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.status import Status, first_failure, is_failure, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class CleanRegime:
    """The physics fitted on the clean cells, and the table of cells.

    Attributes:
      coefficients: ``(p,)``; NaN under a failure.
      covariance: ``(p, p)``, from the residual variance of the clean cells.
      scale: noise scale of the last test.
      count: ``(R,)`` rows per cell.
      mean, rms: ``(R,)`` residual mean and root mean square at the final coefficients.
      statistic, log_p_value: ``(R,)`` of the last test.
      flagged: ``(R,)`` bool of the last test.
      num_iterations: tests made.
      status: int32.
    """

    coefficients: jax.Array
    covariance: jax.Array
    scale: jax.Array
    count: jax.Array
    mean: jax.Array
    rms: jax.Array
    statistic: jax.Array
    log_p_value: jax.Array
    flagged: jax.Array
    num_iterations: jax.Array
    status: jax.Array


class Rows(NamedTuple):
    """Rows in the basis of a frame, the response taken about an initial fit."""

    basis: jax.Array
    residual: jax.Array
    mask: jax.Array
    cell: jax.Array
    products: jax.Array
    count: jax.Array
    smallest_scale: jax.Array


class _Refit(NamedTuple):
    step: jax.Array
    inverse: jax.Array
    determined: jax.Array
    num_rows: jax.Array
    residual_sum: jax.Array


class Search(NamedTuple):
    """Outcome of the search: the flags under the last test, and the flags before it."""

    flagged: jax.Array
    flagged_before: jax.Array
    from_initial: jax.Array
    num_iterations: jax.Array
    stable: jax.Array
    determined: jax.Array
    zero_scale: jax.Array


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
        count=cell_sums.cell_counts(cell, mask, num_cells),
        smallest_scale=1e3 * jnp.finfo(basis.dtype).eps * level,
    )


def refit(rows: Rows, flagged: jax.Array) -> _Refit:
    """Least squares on the unflagged cells, from their sums of products."""
    size = rows.basis.shape[1]
    table = jnp.sum(jnp.where(flagged[:, None, None], 0.0, rows.products), axis=0)
    fit = least_squares.sweep(table[:size, :size], table[:size, size])
    num_rows = jnp.sum(jnp.where(flagged, 0, rows.count))
    determined = jnp.all(fit.independent) & (num_rows > size)
    residual_sum = jnp.maximum(table[size, size] - fit.solution @ table[:size, size], 0.0)
    return _Refit(fit.solution, fit.inverse, determined, num_rows, residual_sum)


def cell_energy(rows: Rows, step: jax.Array) -> jax.Array:
    """Sum of squared residuals per cell ``(R,)`` after a step from the initial solution."""
    size = rows.basis.shape[1]
    direction = jnp.concatenate([-step, jnp.ones(1, step.dtype)])
    block = rows.products[:, : size + 1, : size + 1]
    return jnp.maximum(jnp.einsum("i,rij,j->r", direction, block, direction), 0.0)


def _test(rows: Rows, step: jax.Array) -> tuple[localization.CellTest, jax.Array]:
    residual = rows.residual - rows.basis @ step
    scale = order.median_absolute_deviation(residual, rows.mask)
    scale = jnp.where(scale > rows.smallest_scale, scale, 0.0)
    return localization.energy_test(cell_energy(rows, step), rows.count, scale), scale


def search(rows: Rows, alpha_cell: jax.Array, max_iterations: int) -> Search:
    """The published iteration: scale, flags by the energy test, refit; until the flags repeat."""
    rows = lax.stop_gradient(rows)
    log_alpha = jnp.log(lax.stop_gradient(alpha_cell))

    class State(NamedTuple):
        step: jax.Array
        outcome: Search

    def body(state: State) -> State:
        test, scale = _test(rows, state.step)
        flagged = test.log_p_value < log_alpha
        before = state.outcome
        fit = refit(rows, flagged)
        repeats = jnp.all(flagged == before.flagged) & (before.num_iterations > 0)
        return State(
            jnp.where(fit.determined, fit.step, state.step),
            Search(
                flagged=flagged,
                flagged_before=before.flagged,
                from_initial=before.num_iterations == 0,
                num_iterations=before.num_iterations + 1,
                stable=repeats,
                determined=fit.determined,
                zero_scale=scale <= 0,
            ),
        )

    def going_on(state: State) -> jax.Array:
        outcome = state.outcome
        sound = outcome.determined & ~outcome.zero_scale
        return ~outcome.stable & sound & (outcome.num_iterations < max_iterations)

    nothing = jnp.zeros(rows.count.shape[0], bool)
    no, yes = jnp.zeros((), bool), jnp.ones((), bool)
    start = State(
        jnp.zeros(rows.basis.shape[1], rows.basis.dtype),
        Search(nothing, nothing, yes, jnp.int32(0), no, yes, no),
    )
    return lax.while_loop(going_on, body, start).outcome


class Estimate(NamedTuple):
    """The differentiable part: everything that follows from the flags."""

    solution_step: jax.Array
    inverse: jax.Array
    variance: jax.Array
    scale: jax.Array
    test: localization.CellTest
    mean: jax.Array
    rms: jax.Array
    status: jax.Array


def estimate(rows: Rows, found: Search) -> Estimate:
    """Fit on the clean cells, and the last test, given the outcome of the search."""
    fit = refit(rows, found.flagged)
    tested = refit(rows, found.flagged_before)
    test, scale = _test(rows, jnp.where(found.from_initial, 0.0, tested.step))
    size = rows.basis.shape[1]
    count = jnp.maximum(rows.count, 1)
    sums = rows.products[:, size + 1, size] - rows.products[:, size + 1, :size] @ fit.step
    empty = rows.count == 0
    degrees = jnp.maximum(fit.num_rows - size, 1)
    status = first_failure(
        status_if(found.zero_scale, Status.ZERO_SCALE),
        status_if(~found.determined, Status.NO_CLEAN_CELLS),
        status_if(~found.stable, Status.ITERATION_LIMIT),
    )
    return Estimate(
        solution_step=fit.step,
        inverse=fit.inverse,
        variance=fit.residual_sum / degrees,
        scale=scale,
        test=test,
        mean=jnp.where(empty, jnp.nan, sums / count),
        rms=jnp.where(empty, jnp.nan, _safe_sqrt(cell_energy(rows, fit.step) / count)),
        status=status,
    )


def _safe_sqrt(values: jax.Array) -> jax.Array:
    positive = values > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, values, 1.0)), 0.0)


def summarize(
    frame: least_squares.Frame, initial: jax.Array, rows: Rows, found: Search
) -> CleanRegime:
    """The result in the units of the design."""
    result = estimate(rows, found)
    failed = is_failure(result.status)
    undefined = jnp.where(failed, jnp.nan, 1.0)
    return CleanRegime(
        coefficients=frame.coefficients(initial + result.solution_step) * undefined,
        covariance=result.variance * frame.covariance(result.inverse) * undefined,
        scale=result.scale * undefined,
        count=rows.count,
        mean=result.mean * undefined,
        rms=result.rms * undefined,
        statistic=result.test.statistic,
        log_p_value=result.test.log_p_value,
        flagged=found.flagged & ~failed,
        num_iterations=found.num_iterations,
        status=result.status,
    )


@partial(jax.jit, static_argnames="num_cells")
@full_precision
def _fit_clean_regime(
    design: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    cell: jax.Array,
    initial: jax.Array,
    num_cells: int,
    config: Config,
) -> CleanRegime:
    frame = least_squares.whiten(design, response, mask)
    basis = frame.to_basis(jnp.where(mask[:, None], design, 0.0))
    centered = frame.center_response(design, response)
    level = jnp.max(jnp.where(mask, jnp.abs(response), 0.0))
    start = frame.solution(initial)
    rows = make_rows(basis, centered, mask, cell, start, num_cells, level)
    alpha_cell = jnp.asarray(config.alpha_cell, design.dtype)
    found = search(rows, alpha_cell, config.max_iterations)
    return summarize(frame, start, rows, found)


def fit_clean_regime(
    design: Any,
    response: Any,
    cell: Any,
    initial: Any,
    *,
    num_cells: int,
    config: Config,
    mask: Any = None,
) -> CleanRegime:
    """Fit the physics on the cells in which its residual is consistent with noise.

    Repeats until the flags repeat, or ``config.max_iterations`` times: the scale is the median
    absolute deviation of all residuals, a cell is flagged when its residual energy has a
    chi-square tail below ``config.alpha_cell``, and the physics is refitted on the other cells.

    Differentiable in design and response as least squares on the final clean cells; the flags and
    the initial coefficients carry no derivative.

    Args:
      design: ``(n, p)``.
      response: ``(n,)``.
      cell: ``(n,)`` int in ``0 .. num_cells - 1``; rows with other values are left out.
      initial: ``(p,)`` coefficients to start from, such as those of ``fit_trimmed``.
      num_cells: number of cells (static).
      config: settings.
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``CleanRegime``. Coefficients, covariance and scale are NaN under ``ZERO_SCALE`` and
      ``NO_CLEAN_CELLS``; ``ITERATION_LIMIT`` is a note.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    References:
      Wang, Localized and identifiable discovery of model discrepancy, algorithm 1, lines 2 to 6.
    """
    design = validation.float_array("design", design)
    response = validation.float_array("response", response)
    initial = validation.float_array("initial", initial)
    cell = jnp.asarray(cell)
    shapes = validation.Shapes()
    shapes.check("design", design.shape, ("n", "p"))
    shapes.check("response", response.shape, ("n",))
    shapes.check("cell", cell.shape, ("n",))
    shapes.check("initial", initial.shape, ("p",))
    validation.common_dtype(design=design, response=response, initial=initial)
    if not jnp.issubdtype(cell.dtype, jnp.integer):
        raise TypeError(f"cell must hold integers, got {cell.dtype}")
    inside = (cell >= 0) & (cell < num_cells)
    mask = validation.mask_array(mask, design.shape[0]) & inside
    validation.check_finite("design", design, mask)
    validation.check_finite("response", response, mask)
    validation.check_finite("initial", initial)
    return _fit_clean_regime(design, response, mask, cell, initial, num_cells, config)
