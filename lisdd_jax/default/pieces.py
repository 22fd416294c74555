"""Does a law that breaks explain what looks like dependence among few rows? (section 3.6).

The median over cells tells a misfit from dependence; a short table has too few cells for that.
There two or three straight lines along the axis compete with one line whose errors are an
autoregression, and with a cubic: breaks of many noise scales, which neither an autoregression nor a
law that bends everywhere makes, decide.

References:
  Schwarz (1978), Estimating the dimension of a model, Annals of Statistics 6.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.lines import LineSums, line_left
from lisdd_jax.numerics import extremes, small_systems, tolerances

MOST_ROWS = 64
"""Rows up to which pieces are tried: beyond, a table has cells enough for their median."""

_LEAST_ROWS = 3
"""Rows of a piece: one more than its coefficients."""

DECISIVE = 28.0
"""Difference of Schwarz's criterion (twice the nats) from which breaks explain the correlation: one
in a hundred autoregressions of .5 to .95 over 16 to 24 rows exceeds it, and fewer longer ones."""


class _Series(NamedTuple):
    """A short series along the axis: place ``(n,)``, residual of one line ``(n,)``, 1 in use."""

    place: jax.Array
    residual: jax.Array
    ones: jax.Array


def _sums(series: _Series) -> jax.Array:
    place, residual, ones = series
    rows = [ones, place, place**2, residual, residual * place, residual**2]
    return jnp.stack(rows) * ones[None]


def _without_line(place: jax.Array, response: jax.Array, ones: jax.Array) -> _Series:
    """The series about its own line, the axis between 0 and 1."""
    count = jnp.maximum(jnp.sum(ones), 1)
    low = jnp.min(jnp.where(ones > 0, place, jnp.inf))
    high = jnp.max(jnp.where(ones > 0, place, -jnp.inf))
    place = jnp.where(ones > 0, (place - low) / jnp.where(high > low, high - low, 1.0), 0.0)
    middle = jnp.sum(place) / count
    along = ones * (place - middle)
    square = jnp.sum(along**2)
    level = jnp.sum(ones * response) / count
    slope = jnp.sum(along * response) / jnp.where(square > 0, square, 1.0)
    return _Series(place, ones * (response - level) - slope * along, ones)


def _pieces_left(series: _Series) -> tuple[jax.Array, jax.Array]:
    """Least residual sums of two lines and of three."""
    running = extremes.running_sum(_sums(series))
    parts = running[:, None, :] - running[:, :, None]
    left = jnp.where(parts[0] >= _LEAST_ROWS, line_left(LineSums(*parts)), jnp.inf)
    two = jnp.min(left[0] + left[:, -1])
    head = jnp.min(left[0][:, None] + left, axis=0)
    return two, jnp.min(head + left[:, -1])


def _errors_left(residual: jax.Array, ones: jax.Array) -> jax.Array:
    """Sum of squares of the innovations of an autoregression, rows out of use last."""
    before, after = residual[:-1] * ones[1:], residual[1:] * ones[1:]
    square = jnp.sum(before**2)
    rho = jnp.sum(before * after) / jnp.where(square > 0, square, 1.0)
    rho = jnp.clip(rho, -1.0, 1.0)
    return jnp.sum((after - rho * before) ** 2) + (1 - rho**2) * residual[0] ** 2


def _curve_left(series: _Series) -> jax.Array:
    """Residual sum of a cubic."""
    powers = series.place[None] ** jnp.arange(4, dtype=series.place.dtype)[:, None]
    columns = powers * series.ones[None]
    gram, moment = columns @ columns.T, columns @ series.residual
    solved = small_systems.solve(gram, moment, tolerances.gram(gram.dtype))
    return jnp.sum((series.residual - solved.solution @ columns) ** 2)


def breaks_explain(
    axis: jax.Array, response: jax.Array, order: jax.Array, num_rows: jax.Array
) -> jax.Array:
    """Whether breaks along the axis describe a short table decisively better than what is smooth.

    Args:
      axis: ``(n,)`` increasing; rows out of use last.
      response: ``(n,)`` about a first fit.
      order: ``(n,)`` place in the record of every row.
      num_rows: rows in use.

    Returns:
      bool; False for tables of more than ``MOST_ROWS`` rows.
    """
    axis, response, order = (values[:MOST_ROWS] for values in (axis, response, order))
    dtype = response.dtype
    ones = (jnp.arange(len(axis), dtype=jnp.int32) < num_rows).astype(dtype)
    series = _without_line(axis, response, ones)
    last = jnp.iinfo(order.dtype).max
    record = jnp.argsort(jnp.where(ones > 0, order, last))
    orders = jnp.stack([series.residual, series.residual[record]])
    errors = jnp.min(jax.vmap(_errors_left, in_axes=(0, None))(orders, ones))
    two, three = _pieces_left(series)
    floor = tolerances.CANCELLATION(dtype) * jnp.sum(series.residual**2)
    floor = jnp.maximum(floor, jnp.finfo(dtype).tiny)
    count = jnp.maximum(num_rows, 2).astype(dtype)

    def criterion(left: jax.Array, coefficients: int) -> jax.Array:
        return count * jnp.log(jnp.maximum(left, floor)) + coefficients * jnp.log(count)

    # Two coefficients and an autoregression; two coefficients a piece, and the places of breaks.
    pieces = jnp.minimum(criterion(two, 5), criterion(three, 8))
    smooth = jnp.minimum(criterion(errors, 3), criterion(_curve_left(series), 4))
    return (smooth - pieces > DECISIVE) & (num_rows <= MOST_ROWS)
