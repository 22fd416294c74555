"""Regression rows from trajectories.

A trusted law gives the rate of a state, but what is measured is the state. ``project`` turns a
record into rows that ``diagnose`` takes, whose noise is exactly as independent as that of the
measurements.
"""

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
from lisdd_jax.numerics import scaling
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.status import nan_where


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Projected:
    """Rows of the integral form, ``m`` = windows x tests; NaN where ``mask`` is False.

    Attributes:
      response: ``(m,)`` projections of the state, in its units.
      columns: ``(m, c)`` projections of the integrated rates, in the same order.
      means: ``(m, c)`` plain means of the rates over the window: where a row lies.
      time: ``(m,)`` middle of the window.
      mask: ``(m,)`` bool, rows of a window: the mask of ``diagnose``. All are True for a record in
        one piece.
      num_left_over: int32, samples in use that lie in no window, at the ends of pieces.
    """

    response: jax.Array
    columns: jax.Array
    means: jax.Array
    time: jax.Array
    mask: jax.Array
    num_left_over: jax.Array


def _interval_integrals(record: Record, rates: jax.Array) -> jax.Array:
    """Integrals ``(n - 1, c)`` between neighbouring samples, 0 between pieces.

    By the cubic through four samples of the piece, or by the trapezoid in pieces of fewer.
    """
    num, times = len(record.times), record.times
    length = jnp.where(record.together, jnp.diff(times), 0.0)
    trapezoid = 0.5 * length[:, None] * (rates[1:] + rates[:-1])
    if num < 4:
        return trapezoid
    here = jnp.arange(num - 1, dtype=jnp.int32)
    first, stop = record.first[:-1], record.stop[:-1]
    cubic = record.together & (stop - first >= 4)
    begin = jnp.where(cubic, jnp.clip(here - 1, first, stop - 4), 0)
    nodes = begin[:, None] + jnp.arange(4, dtype=jnp.int32)[None]
    safe = jnp.where(cubic, length, 1.0)
    stand_in = jnp.arange(4, dtype=times.dtype)[None]
    away = times[nodes] - times[:-1, None]
    place = jnp.where(cubic[:, None], away / safe[:, None], stand_in)
    total = jnp.zeros_like(trapezoid)
    for i in range(4):
        a, b, c = (place[:, k] for k in range(4) if k != i)
        s = place[:, i]
        area = 0.25 - (a + b + c) / 3 + (a * b + b * c + c * a) / 2 - a * b * c
        weight = length * area / ((s - a) * (s - b) * (s - c))
        total = total + weight[:, None] * rates[nodes[:, i]]
    return jnp.where(cubic[:, None], total, trapezoid)


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


@partial(jax.jit, static_argnames="window")
def _windows(record: Record, window: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Where windows begin, ``(n // window,)``, which of them there are, and the longest piece.

    They follow each other from the beginning of every piece.
    """
    num = len(record.times)
    place = jnp.arange(num, dtype=jnp.int32)
    inside = record.used & (place + window <= record.stop)
    begins = inside & ((place - record.first) % window == 0)
    starts = jnp.nonzero(begins, size=num // window, fill_value=0)[0]
    there = jnp.arange(num // window) < jnp.sum(begins)
    longest = jnp.max(jnp.where(record.used, record.stop - record.first, 0))
    return starts, there, longest


def _checked_windows(record: Record, window: int) -> tuple[jax.Array, jax.Array]:
    """The windows of a record.

    Raises:
      ValueError: none fits into a piece of a known record.
    """
    num = len(record.times)
    if window > num:
        raise ValueError(f"window must be at most the {num} rows, got {window}")
    starts, there, longest = _windows(record, window)
    if validation.is_concrete(there) and not np.any(there):
        raise ValueError(
            f"window must be at most the {int(longest)} samples of the longest piece of the record,"
            f" got {window}; gaps, segments and missing samples divide it"
        )
    return starts, there


@full_precision
def project(
    times: Any,
    state: Any,
    rates: Any,
    *,
    window: int,
    num_tests: int = 1,
    segment: Any = None,
    largest_gap: Any = None,
    mask: Any = None,
) -> Projected:
    """Rows for regression from a measured state, without differentiating it.

    On a window of ``q`` samples, weights ``a`` with ``sum a = 0`` give

        ``sum_i a_i u(t_i) = sum_j (sum_{i > j} a_i) integral_j u' dt``

    exactly. With ``u'`` a combination of ``rates``, both sides are linear in its coefficients. The
    weights are orthonormal polynomials in time (of degrees 1 to ``num_tests``) and windows do not
    overlap, so noise of the state that is independent with one variance stays so in the rows, and
    the scale that ``diagnose`` reports is that of the measurements. Degree 1 is the local slope.

    A record falls into pieces at the borders of segments and at gaps; windows and integrals stay
    inside a piece, and the samples left over at its end are counted.

    Assumes rates that are known well: noise in them, where they are functions of the measured
    state, biases coefficients as in any regression with errors in the regressors. Smooth the state
    first (``local_polynomial``). Integrals are those of the cubic through four samples. Where
    trajectories are joined and time goes on evenly, nothing in the record tells: ``segment`` must.

    Args:
      times: ``(n,)`` increasing within a segment.
      state: ``(n,)`` measured.
      rates: ``(n, c)`` physics columns, terms and axis, evaluated along the record.
      window: samples per window (static).
      num_tests: rows per window, less than ``window`` (static).
      segment: ``(n,)`` integer labels of trajectories, each a run of rows; one where None.
      largest_gap: longest interval to integrate over, in units of the times; five times the median
        interval where None.
      mask: ``(n,)`` bool, samples to use, the others being missing or padding; all where None.
        Integrals bridge a missing sample as far as ``largest_gap`` allows.

    Returns:
      A ``Projected``, differentiable in times, state and rates.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit, or no window fits into any
        piece of a record that is known outside a trace.

    Example:
      >>> t = np.linspace(0.0, 1.0, 11)
      >>> state = np.exp(-2 * t)
      >>> rows = project(t, state, state[:, None], window=5)
      >>> rate = np.linalg.lstsq(rows.columns[rows.mask], rows.response[rows.mask])[0]
      >>> rate.round(2).tolist()
      [-2.0]

    References:
      Messenger and Bortz (2021), Weak SINDy for partial differential equations, Journal of
      Computational Physics 443 (weak form with test functions).
    """
    record, mask = records.record(times, mask, segment, largest_gap)
    state = records.check_values("state", state, record.times, mask)
    rates = records.check_values("rates", rates, record.times, mask)
    validation.Shapes().check("state", state.shape, ("n",))
    validation.Shapes().check("rates", rates.shape, ("n", "c"))
    validation.check_count("num_tests", num_tests, 1)
    validation.check_count("window", window, num_tests + 1)
    starts, there = _checked_windows(record, window)
    return _project_windows(record, state, rates, starts, there, window, num_tests)


@partial(jax.jit, static_argnames=("window", "num_tests"))
def _project_windows(
    record: Record,
    state: jax.Array,
    rates: jax.Array,
    starts: jax.Array,
    there: jax.Array,
    window: int,
    num_tests: int,
) -> Projected:
    state, rates = record.take(state), record.take(rates)
    integrals = jnp.pad(_interval_integrals(record, rates), [(0, 1), (0, 0)])

    def one(first: jax.Array, there: jax.Array) -> tuple[jax.Array, ...]:
        def part(values: jax.Array) -> jax.Array:
            return lax.dynamic_slice_in_dim(values, first, window)

        here = jnp.where(there, part(record.times), jnp.arange(window, dtype=state.dtype))
        weights = _test_functions(here, num_tests)
        beyond = jnp.cumsum(weights[::-1], axis=0)[::-1][1:]
        mean = jnp.broadcast_to(jnp.mean(part(rates), axis=0), (num_tests, rates.shape[1]))
        middle = jnp.full(num_tests, jnp.mean(here))
        shown = weights.T @ part(state), beyond.T @ part(integrals)[:-1], mean, middle
        return *(nan_where(~there, each) for each in shown), jnp.full(num_tests, there)

    parts = jax.vmap(one)(starts, there)
    response, columns, means, time, rows = (part.reshape(-1, *part.shape[2:]) for part in parts)
    count = jnp.sum(record.used, dtype=jnp.int32)
    return Projected(
        response=response,
        columns=columns,
        means=means,
        time=time,
        mask=rows,
        num_left_over=count - window * jnp.sum(there, dtype=jnp.int32),
    )
