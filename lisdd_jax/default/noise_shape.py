"""Does the noise of rows go with a column? (docs/method.md, section 3.3).

Cells have a noise of their own, and within a cell it was one for all rows: where it grows with a
regressor, the products of that regressor with the residuals vary more than any cell shows, and a
sound law is rejected. So the log of the rows' deviations from robust fits of their cells is
regressed on how far columns are from their middle,

    log |e| = a + sum_j (b_j T_j + c_j |T_j|),    T = sign(u) log(1 + |u|),

``u`` a column about its mean in mean absolute deviations, in ``|T|`` of the prediction about zero:
the noise goes as a power of the column far from the middle, to one side or to both, or of the size
of the prediction. What no function of a column explains beyond chance is left alone, and then
nothing of this changes a single number.

References:
  Harvey (1976), Estimating regression models with multiplicative heteroscedasticity,
  Econometrica 44.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.default.cells import FEWEST_CELLS, MOST_CELLS, SortedCells
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.noise_functions import (
    find_middle,
    functions_of,
    gather_drivers,
    log_scale_of,
)
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.outliers import LocalFit, set_aside
from lisdd_jax.default.row_noise import within_cells
from lisdd_jax.default.sums import sum_products
from lisdd_jax.numerics import cell_sums, medians, small_systems, tolerances

_SIGNIFICANT = 3.5
"""Standard errors from which a function of a column counts, as for correlations."""

_MOST_FUNCTIONS = 3
"""Functions that are chosen, one after the other."""

_DISTINCT = 0.1
"""Share of a function that the chosen ones must leave of it: twins would share an exponent out
between them in opposite directions."""

_STEP, _LARGEST = 0.25, 2.0
"""Exponents are whole steps, so that they are discrete like all that is searched for, and at most
so large: the noise of a law that is exact on one side of the axis would have any."""

_LEAST = 0.05
"""Of the middle deviation, at which small ones are cut off: their logs are as long as one likes."""

_FULL_LEVERAGE = 0.95
"""Leverage up to which a deviation is corrected for what the fit of its cell took of it."""


class NoiseShape(NamedTuple):
    """How the noise of rows goes with the columns.

    Attributes:
      exponents: ``(p + 2, 2)`` of ``T`` and ``|T|`` of the axis, the physics columns, and what a
        first fit predicts.
      log_scale: ``(n,)`` log of the rows' noise scales, up to a constant; 0 where none is chosen.
    """

    exponents: jax.Array
    log_scale: jax.Array


def _unlevered(rows: Ordered, local: LocalFit, cell: jax.Array, layout: ColumnLayout) -> jax.Array:
    """Absolute deviations ``(n,)`` over the root of what the cells' fits leave of noise there."""
    columns = rows.columns[: layout.num_directions]
    gram = sum_products(columns, jnp.where(local.keep, cell, MOST_CELLS), MOST_CELLS)
    nothing = jnp.zeros(gram.shape[:-1], gram.dtype)
    inverse = small_systems.solve_with_inverse(gram, nothing, tolerances.gram(gram.dtype)).inverse
    outside = jnp.zeros((1, *inverse.shape[1:]), inverse.dtype)
    inverse = jnp.concatenate([inverse, outside])[cell]
    leverage = jnp.einsum("an,nab,bn->n", columns, inverse, columns)
    return jnp.abs(local.residual) / jnp.sqrt(1 - jnp.clip(leverage, 0.0, _FULL_LEVERAGE))


def _choose(gram: jax.Array, count: jax.Array) -> jax.Array:
    """Exponents ``(m,)`` of the functions that explain deviations beyond chance; 0 of the others.

    Args:
      gram: ``(m + 1, m + 1)`` products of the functions and of the logs, about their means.
      count: rows.
    """
    square = jnp.diagonal(gram)[:-1]
    place = jnp.arange(len(square), dtype=jnp.int32)
    # Of a column with two values both functions are one, of which ``|T|`` hardly varies. Of the
    # prediction, the last, ``|T|`` is counted from elsewhere.
    both = jnp.diagonal(gram, 1)[:-1]
    twin = both**2 > (1 - _DISTINCT) * square[:-1] * square[1:]
    possible = jnp.append(jnp.ones(1, bool), ~twin | (place[1:] % 2 == 0)).at[-1].set(True)

    def step(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        left, chosen = state
        own = jnp.diagonal(left)[:-1]
        allowed = possible & ~chosen & (own > _DISTINCT * square) & (square > 0)
        gain = jnp.where(allowed, left[:-1, -1] ** 2 / jnp.where(allowed, own, 1.0), 0.0)
        # Of equals the first, as the one regressor beside the prediction: rounding would decide.
        least = (1 - tolerances.gram(gain.dtype)) * jnp.max(gain)
        best = jnp.argmax(gain >= least).astype(jnp.int32)
        rest = jnp.maximum(left[-1, -1] - gain[best], 0.0)
        counts = gain[best] * count > _SIGNIFICANT**2 * rest
        row = left[best]
        less = left - row[:, None] * row[None] / jnp.where(counts, row[best], 1.0)
        return jnp.where(counts, less, left), chosen | (counts & (place == best))

    nothing = jnp.zeros(len(square), bool)
    _, chosen = lax.fori_loop(0, _MOST_FUNCTIONS, step, (gram, nothing))
    both = chosen[:, None] & chosen[None]
    system = jnp.where(both, gram[:-1, :-1], jnp.eye(len(square), dtype=gram.dtype))
    moment = jnp.where(chosen, gram[:-1, -1], 0.0)
    found = small_systems.solve(system, moment, tolerances.gram(gram.dtype)).solution
    return jnp.clip(_STEP * jnp.round(found / _STEP), -_LARGEST, _LARGEST)


def _without_odd_cells(logs: jax.Array, kept: jax.Array, cells: SortedCells) -> jax.Array:
    """``logs (n,)`` with the mean of every cell moved to the middle one of three neighbours.

    A law that breaks within a cell leaves deviations there, and in none beside it.
    """
    both = jnp.stack([kept, kept * logs], 1)
    count, total = cell_sums.cell_totals(both, cells.of_row, MOST_CELLS).T
    mean = total / jnp.maximum(count, 1)
    odd = mean - medians.middle_of_three(mean, cells.num)
    return logs - jnp.append(odd, 0.0)[cells.of_row]


def _sampled(rows: Ordered, local: LocalFit, step: int) -> tuple[Ordered, LocalFit]:
    """Every ``step``-th row, of what is read here."""
    if step == 1:
        return rows, local
    thinner = local._replace(residual=local.residual[::step], keep=local.keep[::step])
    return rows._replace(columns=rows.columns[:, ::step]), thinner


def _measure(
    rows: Ordered, local: LocalFit, cells: SortedCells, layout: ColumnLayout
) -> NoiseShape:
    """The shape of the noise about robust fits of cells; of many rows a sample tells it."""
    step = medians.sample_step(len(local.residual))
    few, near = _sampled(rows, local, step)
    drivers = gather_drivers(few, layout)
    middle = find_middle(drivers)
    size = _unlevered(few, near, cells.of_row[::step], layout)
    typical = medians.median_of_positive(size, near.keep)
    known = (typical > rows.rounding) & (cells.num >= FEWEST_CELLS)
    logs = jnp.log(jnp.maximum(size / jnp.where(known, typical, 1.0), _LEAST))
    kept = near.keep.astype(logs.dtype)
    logs = _without_odd_cells(logs, kept, cells._replace(of_row=cells.of_row[::step]))
    both = jnp.concatenate([functions_of(drivers, middle), logs[None]])
    count = jnp.maximum(jnp.sum(kept), 1)
    both = jnp.where(near.keep[None], both - (both @ kept / count)[:, None], 0.0)
    exponents = jnp.where(known, _choose(both @ both.T, count), 0.0)

    def scale() -> jax.Array:
        every = gather_drivers(rows, layout)
        logs = log_scale_of(exponents @ functions_of(every, middle), every.used)
        return jnp.where(every.used, logs, 0.0)

    nothing = jnp.zeros_like(local.residual)
    log_scale = lax.cond(jnp.any(exponents != 0), scale, lambda: nothing)
    return NoiseShape(exponents.reshape(-1, 2), log_scale)


def fit_weighed(
    rows: Ordered, cells: SortedCells, layout: ColumnLayout
) -> tuple[LocalFit, NoiseShape]:
    """Fit cells robustly; once more with rows weighted where their noise goes with a column.

    Measured again about the weighted fits, the shape would take more and more of a misfit for noise
    where a law holds only nearly.

    Args:
      rows: in the order of the axis.
      cells: with rows enough for a fit each.
      layout: columns.
    """
    n, dtype = rows.axis.shape[0], rows.columns.dtype
    zero, num = jnp.zeros(n, dtype), layout.num_physics + 2
    each = jnp.zeros(MOST_CELLS, dtype)
    nothing = LocalFit(zero, each, jnp.zeros((), dtype), jnp.zeros(n, bool), each)
    equal = NoiseShape(jnp.zeros((num, 2), dtype), zero)

    def goes_on(state: tuple[jax.Array, LocalFit, NoiseShape]) -> jax.Array:
        step, _, shape = state
        return (step == 0) | ((step == 1) & jnp.any(shape.exponents != 0))

    def body(
        state: tuple[jax.Array, LocalFit, NoiseShape],
    ) -> tuple[jax.Array, LocalFit, NoiseShape]:
        step, _, shape = state
        relative = within_cells(shape.log_scale, cells.of_row, MOST_CELLS).relative
        directions = rows.columns[: layout.num_directions] / relative[None]
        response = rows.columns[-1] / relative
        local = set_aside(directions, response, cells.of_row, MOST_CELLS)
        shape = lax.cond(step == 0, lambda: _measure(rows, local, cells, layout), lambda: shape)
        return step + 1, local, shape

    _, local, shape = lax.while_loop(goes_on, body, (jnp.int32(0), nothing, equal))
    return local, shape
