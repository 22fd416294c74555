"""The trusted physics: alternate between flagging cells and refitting on the others.

The search for the flagged cells is discrete and carries no derivative; the estimate that follows
it is ordinary least squares on the clean cells and is differentiable as such.

References:
  docs/method.md, equations 4 to 8.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.config import PublishedConfig, check_published
from lisdd_jax.dataset import Dataset, prepare
from lisdd_jax.numerics import scaling
from lisdd_jax.numerics.columns import combine
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.published import iteration
from lisdd_jax.statistics.cell_fits import cell_energy, cell_means, fit_cells
from lisdd_jax.statistics.trimmed.search import Found, search_each
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if

_NUM_CANDIDATES = 10
"""Starts that are concentrated on all rows: the iteration forgives one that is not the best."""


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


class Physics(NamedTuple):
    """The clean regime, and residuals ``(n,)`` of its physics; zero where there is none."""

    regime: CleanRegime
    residuals: jax.Array


def fit_from(
    data: Dataset, initial: jax.Array, before: jax.Array, config: PublishedConfig
) -> Physics:
    """The clean-regime iteration from a first solution.

    Differentiable in the rows as least squares on the final clean cells; the search for the flags
    and the first solution carry no derivative.

    Args:
      data: the data set.
      initial: ``(p,)`` first solution, in the frame.
      before: status of what led here.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Physics``.
    """
    unit = scaling.binary_unit(data.magnitude)
    data = dataclasses.replace(data, centered=data.centered / unit, magnitude=data.magnitude / unit)
    start = iteration.begin(data, initial / unit)
    found = iteration.search(data, start, config)
    test, scale = iteration.last_test(data, start, found)
    fit = fit_cells(start.sums, ~found.flagged)
    status = first_failure(
        before,
        status_if(found.scale <= 0, Status.ZERO_SCALE),
        status_if(~found.determined, Status.NO_CLEAN_CELLS),
        status_if(~found.stable, Status.ITERATION_LIMIT),
    )
    failed = is_failure(status)
    # Without a scale no cell can be tested, but the robust start stands.
    no_scale = status == Status.ZERO_SCALE.value
    known = ~failed | no_scale
    step = jnp.where(no_scale, 0.0, fit.step)
    degrees = jnp.maximum(fit.num_rows - initial.shape[0], 1).astype(step.dtype)
    variance = fit.residual_sum / degrees
    counts = start.sums.counts
    per_row = 1 / jnp.maximum(counts, 1).astype(step.dtype)
    rms = scaling.root(cell_energy(start.sums, fit.step) * per_row)
    shown = partial(nan_where, failed)
    regime = CleanRegime(
        coefficients=nan_where(~known, data.frame.coefficients(unit * (start.solution + step))),
        covariance=shown(variance * unit * data.frame.covariance(fit.inverse) * unit),
        scale=jnp.where(no_scale, 0.0, shown(unit * scale)),
        count=counts,
        mean=shown(unit * cell_means(start.sums, fit.step)),
        rms=shown(jnp.where(counts > 0, unit * rms, jnp.nan)),
        statistic=test.statistic,
        log_p_value=test.log_p_value,
        flagged=found.flagged & ~failed,
        num_iterations=found.num_iterations,
        status=status,
    )
    residuals = unit * (start.residual - combine(step, data.basis.T))
    return Physics(regime, jnp.where(known, residuals, 0.0))


def fit_each(
    keys: Sequence[jax.Array],
    samples: Sequence[Dataset],
    before: jax.Array,
    config: PublishedConfig,
) -> list[Physics]:
    """Trimmed start and clean-regime iteration on several samples.

    Args:
      keys: typed keys of the starts.
      samples: as many data sets, which may differ in their numbers of rows.
      before: status of the data; under its failures the physics is undefined.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Physics`` for each.
    """
    starts = _search_each(keys, samples, config)
    pairs = zip(samples, starts, strict=True)
    return [fit_about(data, start, before, config) for data, start in pairs]


def _search_each(
    keys: Sequence[jax.Array], samples: Sequence[Dataset], config: PublishedConfig
) -> list[Found]:
    return search_each(
        keys,
        [(data.basis, data.centered, data.mask) for data in samples],
        config.trim,
        num_starts=config.num_starts,
        num_candidates=_NUM_CANDIDATES,
    )


def search_start(key: jax.Array, data: Dataset, config: PublishedConfig) -> Found:
    """The trimmed start of one data set: the first half of ``fit_each``."""
    return _search_each([key], [data], config)[0]


def fit_about(data: Dataset, start: Found, before: jax.Array, config: PublishedConfig) -> Physics:
    """The clean-regime iteration from a trimmed start: the second half of ``fit_each``."""
    too_few = data.num_rows <= data.design.shape[1] + 1
    status = first_failure(before, status_if(too_few, Status.TOO_FEW_ROWS), start.status)
    return fit_from(data, start.solution, status, config)


def fit_physics(
    key: jax.Array, data: Dataset, before: jax.Array, config: PublishedConfig
) -> Physics:
    """``fit_each`` for one data set."""
    return fit_about(data, search_start(key, data, config), before, config)


@partial(jax.jit, static_argnames="num_cells")
@full_precision
def _fit_clean_regime(
    design: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    cell: jax.Array,
    initial: jax.Array,
    num_cells: int,
    config: PublishedConfig,
) -> CleanRegime:
    dtype = response.dtype
    # The axis counts the cells, and each holds the middle of its interval.
    place = cell.astype(dtype) + 0.5
    edges = jnp.arange(num_cells + 1, dtype=dtype)
    features = jnp.zeros((response.shape[0], 0), dtype)
    data, status = prepare(design, response, place, features, edges, mask)
    unknown = ~jnp.all(jnp.isfinite(initial))
    status = first_failure(status_if(unknown, Status.NONFINITE_INPUT), status)
    start = data.frame.solution(jnp.where(unknown, 0.0, initial))
    return fit_from(data, start, status, config).regime


def fit_clean_regime(
    design: Any,
    response: Any,
    cell: Any,
    initial: Any,
    *,
    num_cells: int,
    config: PublishedConfig,
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
      config: settings of the published method.
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``CleanRegime``. Coefficients, covariance and scale are NaN under ``NO_CLEAN_CELLS``. Under
      ``ZERO_SCALE`` no cell is tested, the coefficients are the initial ones and the scale is 0.
      ``ITERATION_LIMIT`` is a note.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> t = np.linspace(0.0, 1.0, 60)
      >>> y = 2 * t + np.where(t >= 0.75, 1.0, 0.0) + 0.1 * np.sin(997 * t**2)
      >>> cell = np.minimum((4 * t).astype(int), 3)
      >>> found = fit_clean_regime(
      ...     t[:, None], y, cell, np.array([2.1]), num_cells=4, config=PublishedConfig()
      ... )
      >>> found.flagged.tolist(), found.coefficients.round(1).tolist()
      ([False, False, False, True], [2.0])

    References:
      Wang, Localized and identifiable discovery of model discrepancy, algorithm 1, lines 2 to 6.
    """
    design = validation.float_array("design", design)
    response = validation.float_array("response", response)
    initial = validation.float_array("initial", initial)
    cell = cell if isinstance(cell, jax.Array) else np.asarray(cell)
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
    config = check_published(config).checked(response.dtype)
    inside = (cell >= 0) & (cell < num_cells)
    mask = validation.mask_array(mask, design.shape[0]) & inside
    validation.check_finite("design", design, mask)
    validation.check_finite("response", response, mask)
    validation.check_finite("initial", initial)
    return _fit_clean_regime(design, response, mask, cell, initial, num_cells, config)
