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

from lisdd_jax import cell_fits, localization, validation
from lisdd_jax.config import Config
from lisdd_jax.numerics import least_squares, order, scaling
from lisdd_jax.numerics.frame import Frame, whiten
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class CleanRegime:
    """The physics fitted on the clean cells, and the table of cells.

    Attributes:
      coefficients: ``(p,)``; NaN under ``NO_CLEAN_CELLS``.
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


class Search(NamedTuple):
    """Outcome of the search: the last test, the flags under it, and the flags before it."""

    flagged: jax.Array
    flagged_before: jax.Array
    from_initial: jax.Array
    num_iterations: jax.Array
    stable: jax.Array
    determined: jax.Array
    test: localization.CellTest
    scale: jax.Array


def _test(rows: cell_fits.Rows, step: jax.Array) -> tuple[localization.CellTest, jax.Array]:
    residual = rows.residual - rows.basis @ step
    scale = order.median_absolute_deviation(residual, rows.mask)
    scale = jnp.where(scale > rows.smallest_scale, scale, 0.0)
    return localization.energy_test(cell_fits.cell_energy(rows, step), rows.counts, scale), scale


def search(rows: cell_fits.Rows, alpha_cell: jax.Array, max_iterations: int) -> Search:
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
        fit = cell_fits.refit(rows, flagged)
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
                test=test,
                scale=scale,
            ),
        )

    def going_on(state: State) -> jax.Array:
        outcome = state.outcome
        sound = outcome.determined & (outcome.scale > 0)
        return ~outcome.stable & sound & (outcome.num_iterations < max_iterations)

    nothing = jnp.zeros(rows.counts.shape[0], bool)
    no, yes = jnp.zeros((), bool), jnp.ones((), bool)
    untested = jnp.full(rows.counts.shape[0], jnp.nan, rows.basis.dtype)
    unknown = localization.CellTest(untested, untested)
    one = jnp.ones((), rows.basis.dtype)
    start = State(
        jnp.zeros(rows.basis.shape[1], rows.basis.dtype),
        Search(nothing, nothing, yes, jnp.int32(0), no, yes, unknown, one),
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


def estimate(rows: cell_fits.Rows, found: Search) -> Estimate:
    """Fit on the clean cells, and the last test, given the outcome of the search."""
    fit = cell_fits.refit(rows, found.flagged)
    tested = cell_fits.refit(rows, found.flagged_before)
    # The search has the values; what follows gives them derivatives.
    test, scale = jax.tree.map(
        least_squares.attach,
        (found.test, found.scale),
        _test(rows, jnp.where(found.from_initial, 0.0, tested.step)),
    )
    size = rows.basis.shape[1]
    count = jnp.maximum(rows.counts, 1)
    sums = rows.products[:, size + 1, size] - rows.products[:, size + 1, :size] @ fit.step
    empty = rows.counts == 0
    degrees = jnp.maximum(fit.num_rows - size, 1)
    status = first_failure(
        status_if(found.scale <= 0, Status.ZERO_SCALE),
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
        rms=jnp.where(empty, jnp.nan, scaling.root(cell_fits.cell_energy(rows, fit.step) / count)),
        status=status,
    )


def summarize(
    frame: Frame, initial: jax.Array, rows: cell_fits.Rows, found: Search, before: jax.Array
) -> CleanRegime:
    """The result in the units of the design; ``before`` is the status of what led here."""
    result = estimate(rows, found)
    status = first_failure(before, result.status)
    failed = is_failure(status)
    shown = partial(nan_where, failed)
    # Without a scale no cell can be tested, but the robust start stands.
    no_scale = status == Status.ZERO_SCALE
    step = jnp.where(no_scale, 0.0, result.solution_step)
    return CleanRegime(
        coefficients=nan_where(failed & ~no_scale, frame.coefficients(initial + step)),
        covariance=shown(result.variance * frame.covariance(result.inverse)),
        scale=jnp.where(no_scale, 0.0, shown(result.scale)),
        count=rows.counts,
        mean=shown(result.mean),
        rms=shown(result.rms),
        statistic=result.test.statistic,
        log_p_value=result.test.log_p_value,
        flagged=found.flagged & ~failed,
        num_iterations=found.num_iterations,
        status=status,
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
    sound = mask & jnp.isfinite(response) & jnp.all(jnp.isfinite(design), axis=1)
    nonfinite = jnp.any(mask & ~sound) | ~jnp.all(jnp.isfinite(initial))
    mask = sound
    design = jnp.where(mask[:, None], design, 0.0)
    response = jnp.where(mask, response, 0.0)
    initial = jnp.where(nonfinite, 0.0, initial)
    frame = whiten(design, response, mask)
    status = first_failure(
        status_if(nonfinite, Status.NONFINITE_INPUT),
        status_if(jnp.sum(mask) <= design.shape[1], Status.TOO_FEW_ROWS),
        status_if(~jnp.all(frame.independent), Status.RANK_DEFICIENT_DESIGN),
    )
    basis = frame.to_basis(design)
    centered = frame.center_response(design, response)
    # A residual is known to the rounding error of the terms that it is the difference of.
    level = jnp.max(jnp.maximum(jnp.abs(response), jnp.abs(design @ initial)))
    start = frame.solution(initial)
    rows = cell_fits.make_rows(basis, centered, mask, cell, start, num_cells, level)
    found = search(rows, config.alpha_cell, config.max_iterations)
    return summarize(frame, start, rows, found, status)


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
      A ``CleanRegime``. Coefficients, covariance and scale are NaN under ``NO_CLEAN_CELLS``. Under
      ``ZERO_SCALE`` no cell is tested, the coefficients are the initial ones and the scale is 0.
      ``ITERATION_LIMIT`` is a note.

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
    validation.check_filled(design=design)
    validation.check_count("num_cells", num_cells, 1)
    config = config.checked(response.dtype)
    inside = (cell >= 0) & (cell < num_cells)
    mask = validation.mask_array(mask, design.shape[0]) & inside
    validation.check_finite("design", design, mask)
    validation.check_finite("response", response, mask)
    validation.check_finite("initial", initial)
    return _fit_clean_regime(design, response, mask, cell, initial, num_cells, config)
