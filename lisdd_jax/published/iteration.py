"""The clean-regime iteration: scale, flags by the energy test, refit on the cells that are left.

References:
  docs/method.md, equations 6 to 8.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.config import PublishedConfig
from lisdd_jax.dataset import Dataset
from lisdd_jax.numerics import least_squares, order, tolerances
from lisdd_jax.numerics.columns import combine
from lisdd_jax.numerics.float_order import greatest
from lisdd_jax.published.evidence import CellTest, energy_test
from lisdd_jax.statistics.cell_fits import CellSums, cell_energy, fit_cells, sum_cells


class Start(NamedTuple):
    """The rows about a first solution in the frame, so that their sums do not cancel.

    Attributes:
      solution: ``(p,)``.
      residual: ``(n,)``.
      sums: over the cells.
      smallest_scale: a noise scale up to it is rounding.
    """

    solution: jax.Array
    residual: jax.Array
    sums: CellSums
    smallest_scale: jax.Array


def begin(data: Dataset, initial: jax.Array) -> Start:
    """The rows about a first solution ``(p,)`` in the frame."""
    # An additive constant per row leaves least squares about it exact, so it needs no derivative.
    initial = lax.stop_gradient(jnp.where(jnp.isfinite(initial), initial, 0.0))
    fitted = combine(initial, data.basis.T)
    residual = data.centered - fitted
    # A residual is known to the rounding error of the terms that it is the difference of.
    largest = jnp.maximum(data.magnitude, greatest(jnp.abs(lax.stop_gradient(fitted))))
    return Start(
        initial,
        residual,
        sum_cells(data.basis, residual, data.mask, data.cell, data.num_cells),
        tolerances.RESIDUAL(residual.dtype) * largest,
    )


class Outcome(NamedTuple):
    """Outcome of the search: the last test, the flags under it, and the flags before it."""

    flagged: jax.Array
    flagged_before: jax.Array
    from_initial: jax.Array
    num_iterations: jax.Array
    stable: jax.Array
    determined: jax.Array
    test: CellTest
    scale: jax.Array


def _test_cells(data: Dataset, start: Start, step: jax.Array) -> tuple[CellTest, jax.Array]:
    """Energy test of the cells at a step from the start, and the scale of all residuals."""
    residual = start.residual - combine(step, data.basis.T)
    scale = order.median_absolute_deviation(residual, data.mask)
    scale = jnp.where(scale > start.smallest_scale, scale, 0.0)
    return energy_test(cell_energy(start.sums, step), start.sums.counts, scale), scale


class _State(NamedTuple):
    step: jax.Array
    outcome: Outcome


def _untested(num_cells: int, dtype: jnp.dtype) -> Outcome:
    """What is known before the first test."""
    unknown = jnp.full(num_cells, jnp.nan, dtype)
    return Outcome(
        flagged=jnp.zeros(num_cells, bool),
        flagged_before=jnp.zeros(num_cells, bool),
        from_initial=jnp.ones((), bool),
        num_iterations=jnp.int32(0),
        stable=jnp.zeros((), bool),
        determined=jnp.ones((), bool),
        test=CellTest(unknown, unknown),
        scale=jnp.ones((), dtype),
    )


def search(data: Dataset, start: Start, config: PublishedConfig) -> Outcome:
    """Scale, flags by the energy test, refit; until the flags repeat."""
    # What the loop searches for is discrete.
    data, start = lax.stop_gradient((data, start))
    log_alpha = jnp.log(lax.stop_gradient(config.alpha_cell))

    def body(state: _State) -> _State:
        test, scale = _test_cells(data, start, state.step)
        flagged = test.log_p_value < log_alpha
        before = state.outcome
        fit = fit_cells(start.sums, ~flagged)
        repeats = jnp.all(flagged == before.flagged) & (before.num_iterations > 0)
        return _State(
            jnp.where(fit.determined, fit.step, state.step),
            Outcome(
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

    def going_on(state: _State) -> jax.Array:
        outcome = state.outcome
        sound = outcome.determined & (outcome.scale > 0)
        return ~outcome.stable & sound & (outcome.num_iterations < config.max_iterations)

    step = jnp.zeros(data.basis.shape[1], data.basis.dtype)
    first = _State(step, _untested(data.num_cells, step.dtype))
    return lax.while_loop(going_on, body, first).outcome


def last_test(data: Dataset, start: Start, found: Outcome) -> tuple[CellTest, jax.Array]:
    """The last test of the search and its scale, with derivatives."""
    tested = fit_cells(start.sums, ~found.flagged_before)
    live = _test_cells(data, start, jnp.where(found.from_initial, 0.0, tested.step))
    return jax.tree.map(least_squares.attach, (found.test, found.scale), live)
