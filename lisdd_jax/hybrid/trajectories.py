"""Dynamical systems: regression rows from trajectories, and trajectories from a model.

A trusted law gives the rate of a state, but what is measured is the state. ``project`` turns a
record into rows that ``diagnose`` takes, whose noise is exactly as independent as that of the
measurements; ``rollout`` integrates a corrected law.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.numerics import normal_equations, scaling
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.status import Status, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Projected:
    """Rows of the integral form, ``m`` = windows x tests.

    Attributes:
      response: ``(m,)`` projections of the state, in its units.
      columns: ``(m, c)`` projections of the integrated rates, in the same order.
      means: ``(m, c)`` plain means of the rates over the window: where a row lies.
      time: ``(m,)`` middle of the window.
    """

    response: jax.Array
    columns: jax.Array
    means: jax.Array
    time: jax.Array


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Smoothed:
    """Local polynomial estimates.

    Attributes:
      values: ``(n, ...)``.
      noise_gain: ``(n,)`` standard deviation of an estimate over that of the measurement noise.
    """

    values: jax.Array
    noise_gain: jax.Array


def _check_times(times: Any, name: str, values: Any) -> tuple[jax.Array, jax.Array]:
    times, values = validation.float_array("times", times), validation.float_array(name, values)
    if times.ndim != 1 or values.ndim < 1 or values.shape[:1] != times.shape:
        raise ValueError(
            f"{name} must have one row per time, got shapes {values.shape} and {times.shape}"
        )
    if not times.shape[0]:
        raise ValueError("times must have at least one entry, got none")
    validation.common_dtype(**{"times": times, name: values})
    validation.check_finite("times", times)
    validation.check_finite(name, values)
    if validation.is_concrete(times) and not np.all(np.diff(np.asarray(times)) > 0):
        worst = int(np.argmin(np.diff(np.asarray(times))))
        raise ValueError(
            f"times must increase, got {times[worst]:g} and then {times[worst + 1]:g} at row"
            f" {worst + 1}"
        )
    return times, values


@full_precision
def local_polynomial(
    times: Any, values: Any, *, half_window: int, degree: int = 3, derivative: int = 0
) -> Smoothed:
    """Smooth a record, or estimate its rate, by least squares on moving windows.

    For evenly spaced times it is the filter of Savitzky and Golay; times may be uneven.
    Neighbouring estimates share measurements, so their errors are correlated.

    Args:
      times: ``(n,)`` increasing.
      values: ``(n, ...)``.
      half_window: samples on either side; windows at the ends are moved inside (static).
      degree: of the polynomial (static).
      derivative: which derivative to give, from 0 to ``degree`` (static).

    Returns:
      A ``Smoothed``, differentiable in values and times.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    References:
      Savitzky and Golay (1964), Smoothing and differentiation of data by simplified least squares
      procedures, Analytical Chemistry 36.
    """
    times, values = _check_times(times, "values", values)
    validation.check_count("half_window", half_window, 1)
    validation.check_count("degree", degree, 0)
    validation.check_count("derivative", derivative, 0)
    size = 2 * half_window + 1
    if not derivative <= degree < size <= len(times):
        raise ValueError(
            "half_window, degree and derivative must satisfy derivative <= degree < 2 half_window"
            f" + 1 <= rows, got {half_window}, {degree}, {derivative} and {len(times)} rows"
        )
    flat = values.reshape(len(times), -1)
    first = np.clip(np.arange(len(times)) - half_window, 0, len(times) - size)
    rows = first[:, None] + np.arange(size)
    factorial = float(np.prod(np.arange(1, derivative + 1)))

    def estimate(rows: jax.Array, here: jax.Array) -> tuple[jax.Array, jax.Array]:
        reach = lax.stop_gradient(jnp.max(jnp.abs(times[rows] - here)))
        powers = ((times[rows] - here) / reach)[:, None] ** np.arange(degree + 1)
        inverse = normal_equations.sweep(powers.T @ powers, powers[0]).inverse
        weights = (inverse @ powers.T)[derivative] * factorial / reach**derivative
        return weights @ flat[rows], scaling.root(jnp.sum(weights**2))

    smoothed, gain = jax.vmap(estimate)(jnp.asarray(rows), times)
    return Smoothed(values=smoothed.reshape(values.shape), noise_gain=gain)


def _interval_integrals(times: jax.Array, rates: jax.Array) -> jax.Array:
    """Integrals ``(n - 1, c)`` between neighbouring times, by the cubic through four samples."""
    num = len(times)
    if num < 4:
        return 0.5 * jnp.diff(times)[:, None] * (rates[1:] + rates[:-1])
    nodes = np.clip(np.arange(num - 1) - 1, 0, num - 4)[:, None] + np.arange(4)
    length = jnp.diff(times)
    place = (times[nodes] - times[:-1, None]) / length[:, None]
    total = jnp.zeros((num - 1, rates.shape[1]), rates.dtype)
    for i in range(4):
        a, b, c = (place[:, k] for k in range(4) if k != i)
        s = place[:, i]
        area = 0.25 - (a + b + c) / 3 + (a * b + b * c + c * a) / 2 - a * b * c
        weight = length * area / ((s - a) * (s - b) * (s - c))
        total = total + weight[:, None] * rates[nodes[:, i]]
    return total


def _test_functions(times: jax.Array, num_tests: int) -> jax.Array:
    """Orthonormal polynomials ``(q, num_tests)`` on a window, without the constant one."""
    middle = (times[0] + times[-1]) / 2
    scaled = (times - middle) / (times[-1] - middle)
    chosen = [jnp.full(times.shape, 1 / np.sqrt(times.shape[0]), times.dtype)]
    for degree in range(1, num_tests + 1):
        column = scaled**degree
        for _ in range(2):
            for other in chosen:
                column = column - other * (other @ column)
        chosen.append(column / scaling.root(jnp.sum(column**2)))
    return jnp.stack(chosen[1:], axis=1)


@full_precision
def project(times: Any, state: Any, rates: Any, *, window: int, num_tests: int = 1) -> Projected:
    """Rows for regression from a measured state, without differentiating it.

    On a window of ``q`` samples, weights ``a`` with ``sum a = 0`` give

        ``sum_i a_i u(t_i) = sum_j (sum_{i > j} a_i) integral_j u' dt``

    exactly. With ``u'`` a combination of ``rates``, both sides are linear in its coefficients. The
    weights are orthonormal polynomials in time (of degrees 1 to ``num_tests``) and windows do not
    overlap, so noise of the state that is independent with one variance stays so in the rows, and
    the scale that ``diagnose`` reports is that of the measurements. Degree 1 is the local slope.

    Assumes rates that are known well: noise in them, where they are functions of the measured
    state, biases coefficients as in any regression with errors in the regressors. Smooth the state
    first (``local_polynomial``). Integrals are those of the cubic through four samples.

    Args:
      times: ``(n,)`` increasing.
      state: ``(n,)`` measured.
      rates: ``(n, c)`` physics columns, terms and axis, evaluated along the record.
      window: samples per window; the last ``n`` modulo ``window`` samples are left over (static).
      num_tests: rows per window, less than ``window`` (static).

    Returns:
      A ``Projected``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    References:
      Messenger and Bortz (2021), Weak SINDy for partial differential equations, Journal of
      Computational Physics 443 (weak form with test functions).
    """
    times, state = _check_times(times, "state", state)
    times, rates = _check_times(times, "rates", rates)
    validation.Shapes().check("state", state.shape, ("n",))
    validation.Shapes().check("rates", rates.shape, ("n", "c"))
    validation.check_count("num_tests", num_tests, 1)
    validation.check_count("window", window, num_tests + 1)
    num_windows = len(times) // window
    if not num_windows:
        raise ValueError(f"window must be at most the {len(times)} rows, got {window}")
    integrals = jnp.pad(_interval_integrals(times, rates), [(0, 1), (0, 0)])

    def one(first: jax.Array) -> tuple[jax.Array, ...]:
        def part(values: jax.Array) -> jax.Array:
            return lax.dynamic_slice_in_dim(values, first, window)

        weights = _test_functions(part(times), num_tests)
        beyond = jnp.cumsum(weights[::-1], axis=0)[::-1][1:]
        mean = jnp.broadcast_to(jnp.mean(part(rates), axis=0), (num_tests, rates.shape[1]))
        middle = jnp.full(num_tests, jnp.mean(part(times)))
        return weights.T @ part(state), beyond.T @ part(integrals)[:-1], mean, middle

    parts = jax.vmap(one)(jnp.arange(num_windows) * window)
    response, columns, means, time = (part.reshape(-1, *part.shape[2:]) for part in parts)
    return Projected(response=response, columns=columns, means=means, time=time)


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """A simulated trajectory.

    Attributes:
      states: ``(n, ...)`` for every leaf of the state.
      status: int32; ``DIVERGED`` where the state left the range of floating-point numbers. States
        from there on are NaN or infinite.
    """

    states: Any
    status: jax.Array


def rollout(
    rate: Callable[[jax.Array, Any], Any], initial: Any, times: Any, *, num_substeps: int = 1
) -> Rollout:
    """Integrate ``state' = rate(time, state)`` by the classical Runge-Kutta method.

    Differentiable in what ``rate`` closes over, the initial state and the times.

    Args:
      rate: traceable; close over parameters and forcing (``jnp.interp`` for a measured one).
      initial: state at the first time, a pytree of arrays.
      times: ``(n,)`` increasing.
      num_substeps: steps between neighbouring times (static).

    Returns:
      A ``Rollout``; the first state is ``initial``.

    Raises:
      ValueError, TypeError: times do not increase, or are not finite.
    """
    times, _ = _check_times(times, "times", times)
    validation.check_count("num_substeps", num_substeps, 1)

    def moved(state: Any, slope: Any, by: jax.Array) -> Any:
        return jax.tree.map(lambda value, change: value + by * change, state, slope)

    def step(state: Any, span: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        time, length = span
        first = rate(time, state)
        second = rate(time + length / 2, moved(state, first, length / 2))
        third = rate(time + length / 2, moved(state, second, length / 2))
        fourth = rate(time + length, moved(state, third, length))
        slope = jax.tree.map(
            lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, first, second, third, fourth
        )
        return moved(state, slope, length), None

    def advance(state: Any, ends: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        start, stop = ends
        length = (stop - start) / num_substeps
        begins = start + length * jnp.arange(num_substeps)
        lengths = jnp.broadcast_to(length, begins.shape)
        state, _ = lax.scan(step, state, (begins, lengths))
        return state, state

    initial = jax.tree.map(lambda leaf: validation.float_array("initial", leaf), initial)
    _, later = lax.scan(advance, initial, (times[:-1], times[1:]))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), initial, later)
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(states)])
    return Rollout(states=states, status=status_if(~jnp.all(finite), Status.DIVERGED))
