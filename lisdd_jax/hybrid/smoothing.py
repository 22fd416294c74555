"""Smooth values and rates of a record, by least squares on moving windows."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.hybrid import records
from lisdd_jax.hybrid.records import Record
from lisdd_jax.numerics import normal_equations, scaling
from lisdd_jax.numerics.precision import full_precision


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Smoothed:
    """Local polynomial estimates; NaN in rows out of use and in pieces shorter than a window.

    Attributes:
      values: ``(n, ...)``.
      noise_gain: ``(n,)`` standard deviation of an estimate over that of the measurement noise.
    """

    values: jax.Array
    noise_gain: jax.Array


@full_precision
def local_polynomial(
    times: Any,
    values: Any,
    *,
    half_window: int,
    degree: int = 3,
    derivative: int = 0,
    segment: Any = None,
    largest_gap: Any = None,
    mask: Any = None,
) -> Smoothed:
    """Smooth a record, or estimate its rate, by least squares on moving windows.

    For evenly spaced times it is the filter of Savitzky and Golay; times may be uneven.
    Neighbouring estimates share measurements, so their errors are correlated. No window straddles a
    gap or the border of two trajectories.

    Args:
      times: ``(n,)`` increasing within a segment.
      values: ``(n, ...)``.
      half_window: samples on either side; windows at the ends of a piece of the record are moved
        inside (static).
      degree: of the polynomial (static).
      derivative: which derivative to give, from 0 to ``degree`` (static).
      segment, largest_gap, mask: as for ``project``.

    Returns:
      A ``Smoothed``, differentiable in values and times.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> t = jnp.linspace(0.0, 1.0, 11)
      >>> slope = local_polynomial(t, t**2, half_window=2, derivative=1)
      >>> slope.values[5].round(6).tolist()
      1.0

    References:
      Savitzky and Golay (1964), Smoothing and differentiation of data by simplified least squares
      procedures, Analytical Chemistry 36.
    """
    record, mask = records.record(times, mask, segment, largest_gap)
    values = records.check_values("values", values, record.times, mask)
    validation.check_count("half_window", half_window, 1)
    validation.check_count("degree", degree, 0)
    validation.check_count("derivative", derivative, 0)
    num, size = len(record.times), 2 * half_window + 1
    if not derivative <= degree < size <= num:
        raise ValueError(
            "half_window, degree and derivative must satisfy derivative <= degree < 2 half_window"
            f" + 1 <= rows, got {half_window}, {degree}, {derivative} and {num} rows"
        )
    long = _have_window(record, size)
    if validation.is_concrete(long) and not np.any(long):
        raise ValueError(
            f"half_window must leave some piece of the record with {size} samples in a row, got"
            f" {half_window}; gaps, segments and missing samples divide it"
        )
    return _estimate(record, values, long, half_window, degree, derivative)


@partial(jax.jit, static_argnames="size")
def _have_window(record: Record, size: int) -> jax.Array:
    """Positions in pieces of at least so many samples, ``(n,)`` bool."""
    return record.used & (record.stop - record.first >= size)


@partial(jax.jit, static_argnames=("half_window", "degree", "derivative"))
def _estimate(
    record: Record,
    values: jax.Array,
    long: jax.Array,
    half_window: int,
    degree: int,
    derivative: int,
) -> Smoothed:
    num, size = len(record.times), 2 * half_window + 1
    centre = jnp.arange(num, dtype=jnp.int32)
    begin = jnp.clip(centre - half_window, record.first, record.stop - size)
    # Short pieces have no window; any other stands in, and its estimate is not shown.
    rows = jnp.where(long, begin, 0)[:, None] + jnp.arange(size, dtype=jnp.int32)[None]
    flat = record.take(values).reshape(num, -1)
    factorial = float(np.prod(np.arange(1, derivative + 1)))

    def estimate(rows: jax.Array, here: jax.Array, long: jax.Array) -> tuple[jax.Array, jax.Array]:
        away = jnp.where(long, record.times[rows] - here, jnp.arange(size, dtype=here.dtype))
        reach = lax.stop_gradient(jnp.max(jnp.abs(away)))
        powers = jnp.stack([(away / reach) ** power for power in range(degree + 1)], axis=1)
        inverse = normal_equations.sweep(powers.T @ powers, powers[0]).inverse
        weights = (inverse @ powers.T)[derivative] * factorial / reach**derivative
        return weights @ flat[rows], scaling.root(jnp.sum(weights**2))

    smoothed, gain = jax.vmap(estimate)(rows, record.times, long)
    return Smoothed(
        values=record.put(smoothed.reshape(values.shape), long),
        noise_gain=record.put(gain, long),
    )
