"""The ends of regions at single rows, and their intervals (docs/method.md, section 3.7).

With a correction ``f`` of the residuals ``r``, a row gains ``rho(r) - rho(r - f)``, with squares cut
off at the bound of outliers, and the best region is the interval with the largest sum of gains: a
difference of two values of the cumulated gain. Fitting the correction and moving the ends take
turns.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.default.cells import Cells
from lisdd_jax.numerics import extremes, small_systems, tolerances

NUM_REACH = 2
"""Cells beyond a run into which its ends may move: a run is found to a cell or two."""

_NUM_TURNS = 3
"""Fits of the correction, each followed by a move of the ends; they settle in two or three."""

_JUMP_95 = 7.35
"""95 % quantile of the likelihood ratio of a jump's place, ``(1 - exp(-x / 2))^2 = 0.95``."""

_KINK_95 = 3.84
"""95 % quantile of chi-square with one degree of freedom: a kink's place is a regular parameter."""

_NUM_PLACES = 96
_SOFTNESS = np.array([0.0, 0.04, 0.08, 0.16, 0.32])
"""Places tried for a kink, and half widths over which it bends, as shares of the searched span."""


class Spans(NamedTuple):
    """Regions as half-open spans of sorted rows in ``R`` slots, and where their ends may lie.

    Attributes:
      present: ``(R,)`` bool.
      start, stop: ``(R,)`` int32, first row and the one after the last.
      low, high: ``(R,)`` int32, bounds of the ends.
      cells: ``(R, K)`` bool, cells of the run.
    """

    present: jax.Array
    start: jax.Array
    stop: jax.Array
    low: jax.Array
    high: jax.Array
    cells: jax.Array


def spans_of_runs(inside: jax.Array, cells: Cells) -> Spans:
    """Runs of cells ``inside (R, K)`` as spans of rows."""
    num_cells = inside.shape[1]
    bounds = cells.bounds
    present = jnp.any(inside, axis=1)
    first = jnp.argmax(inside, axis=1).astype(jnp.int32)
    last = (num_cells - 1 - jnp.argmax(inside[:, ::-1], axis=1)).astype(jnp.int32)
    start = jnp.where(present, bounds[first], 0)
    stop = jnp.where(present, bounds[last + 1], 0)
    num = bounds[-1]
    zero = jnp.zeros(1, jnp.int32)
    before = jnp.concatenate([zero, stop[:-1]])
    following = jnp.where(present[1:], start[1:], num)
    after = jnp.concatenate([following, num[None]])
    # Neighbours share the rows between them; the ends of the axis are no neighbours.
    low = jnp.where(before > 0, (before + start + 1) // 2, 0)
    high = jnp.where(after < num, (after + stop) // 2, num)
    low = jnp.maximum(low, bounds[jnp.maximum(first - NUM_REACH, 0)])
    high = jnp.minimum(high, bounds[jnp.minimum(last + 1 + NUM_REACH, cells.num)])
    return Spans(present, start, stop, low, high, inside)


def inside(spans: Spans, start: jax.Array, stop: jax.Array, num: int) -> jax.Array:
    """Rows of the regions, ``(R, num)`` bool."""
    row = jnp.arange(num, dtype=jnp.int32)[None]
    return (row >= start[:, None]) & (row < stop[:, None]) & spans.present[:, None]


class Placed(NamedTuple):
    """Ends and correction.

    Attributes:
      start, stop: ``(R,)`` int32.
      coefficients: ``(R, m)``.
      gain: ``(R, n + 1)`` cumulated gain of the correction.
    """

    start: jax.Array
    stop: jax.Array
    coefficients: jax.Array
    gain: jax.Array


def _cut_off(residual: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.minimum(residual**2, bound**2)


def place_ends(
    columns: jax.Array,
    residual: jax.Array,
    weight: jax.Array,
    bound: jax.Array,
    use: jax.Array,
    shared: jax.Array,
    spans: Spans,
    begin: tuple[jax.Array, jax.Array],
    possible: jax.Array,
    num_rows: jax.Array,
    bonus: jax.Array,
) -> Placed:
    """Fit a correction in every region and move the ends to where it gains most, by turns.

    Args:
      columns: ``(m, n)`` directions and terms.
      residual: ``(n,)`` of the law.
      weight: ``(n,)`` of the rows in the fit of the correction; 0 for those set aside.
      bound: ``(n,)`` residual at which squares are cut off.
      use: ``(R, m)`` bool, columns of each region's correction.
      shared: bool, one correction for all regions.
      spans: the regions.
      begin: ``(R,)`` start and stop to begin with.
      possible: ``(n + 1,)`` bool, positions where an end may lie.
      num_rows: rows in use.
      bonus: gain granted to an end at the end of the axis, which is no parameter.
    """
    num = residual.shape[0]
    position = jnp.arange(num + 1, dtype=jnp.int32)[None]
    within = (position >= spans.low[:, None]) & (position <= spans.high[:, None])
    allowed = within & possible[None]
    head = jnp.where(position == 0, bonus, 0.0)
    tail = jnp.where(position == num_rows, bonus, 0.0)
    both = use[:, :, None] & use[:, None, :]

    def fit(start: jax.Array, stop: jax.Array) -> jax.Array:
        rows = jnp.where(inside(spans, start, stop, num), weight[None], 0.0)
        rows = jnp.where(shared, jnp.sum(rows, axis=0, keepdims=True), rows)
        weighted = rows[:, None] * columns[None]
        gram = jnp.where(both, weighted @ columns.T, 0.0)
        moment = jnp.where(use, weighted @ residual, 0.0)
        return small_systems.solve(gram, moment, tolerances.gram(residual.dtype)).solution

    def turn(_: int, state: Placed) -> Placed:
        coefficients = fit(state.start, state.stop)
        left = _cut_off(residual, bound)[None]
        gained = left - _cut_off(residual[None] - coefficients @ columns, bound[None])
        gain = extremes.running_sum(gained)
        ahead = allowed & (position > state.start[:, None])
        stop = extremes.first_max(jnp.where(ahead, gain + tail, -jnp.inf)).astype(jnp.int32)
        behind = allowed & (position < stop[:, None])
        start = extremes.first_max(jnp.where(behind, head - gain, -jnp.inf)).astype(jnp.int32)
        start, stop = (jnp.where(spans.present, end, 0) for end in (start, stop))
        return Placed(start, stop, coefficients, gain)

    zero = jnp.zeros((use.shape[0], num + 1), residual.dtype)
    nothing = jnp.zeros(use.shape, residual.dtype)
    return jax.lax.fori_loop(0, _NUM_TURNS, turn, Placed(*begin, nothing, zero))


def jump_intervals(gain: jax.Array, placed: Placed, spans: Spans, variance: jax.Array) -> jax.Array:
    """95 % confidence intervals of ends at which the correction jumps, ``(2, R, 2)`` positions.

    An interval holds all positions whose cumulated gain is within the 95 % quantile of its
    likelihood ratio from the best.

    References:
      Hansen (2000), Sample splitting and threshold estimation, Econometrica 68, equation 6.
    """
    position = jnp.arange(gain.shape[1], dtype=jnp.int32)[None]
    cut = _JUMP_95 * variance
    within = (position >= spans.low[:, None]) & (position <= spans.high[:, None])

    def at(end: jax.Array) -> jax.Array:
        return jnp.take_along_axis(gain, end[:, None], axis=1)

    starts = within & (position <= placed.stop[:, None]) & (gain <= at(placed.start) + cut)
    stops = within & (position >= placed.start[:, None]) & (gain >= at(placed.stop) - cut)
    both = jnp.stack([starts, stops])
    last = gain.shape[1] - 1 - jnp.argmax(both[..., ::-1], axis=-1)
    return jnp.stack([jnp.argmax(both, axis=-1), last], axis=-1).astype(jnp.int32)


class Kinks(NamedTuple):
    """The ends as kinks, each ``(2, R)``: starts, then stops.

    Attributes:
      is_kink: bool, the correction grows from zero there.
      place: on the axis.
      lower, upper: 95 % confidence interval of the place.
      softness: half width over which the correction bends; 0 for a sharp kink.
    """

    is_kink: jax.Array
    place: jax.Array
    lower: jax.Array
    upper: jax.Array
    softness: jax.Array


def _windows(spans: Spans, placed: Placed, num_rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rows beside every end up to the neighbours, ``(2, R)`` first and last but one."""
    zero = jnp.zeros(1, jnp.int32)
    before = jnp.concatenate([zero, placed.stop[:-1]])
    following = jnp.where(spans.present[1:], placed.start[1:], num_rows)
    after = jnp.concatenate([following, num_rows[None]])
    first = jnp.stack([before, placed.start])
    last = jnp.stack([placed.stop, after])
    return first, jnp.maximum(last, first)


def _gain_of(placed: Placed) -> jax.Array:
    """Gain ``(R,)`` of the correction over each region."""
    start, stop = (
        jnp.take_along_axis(placed.gain, end[:, None], axis=1)[:, 0]
        for end in (placed.start, placed.stop)
    )
    return stop - start


def fit_kinks(
    axis: jax.Array,
    residual: jax.Array,
    weight: jax.Array,
    spans: Spans,
    placed: Placed,
    num_rows: jax.Array,
    inflation: jax.Array,
) -> Kinks:
    """Fit every end as a kink, sharp or soft, against a jump.

    Beside an end the residuals are ``a + b z + c h(z - place)`` with a hinge ``h`` that bends over
    ``place +- w``: ``(u + w)^2 / (4 w)`` there, ``u`` beyond. The residual sum, smallest over ``a,
    b, c`` and ``w``, is a profile of the place.

    Args:
      axis, residual, weight: ``(n,)`` sorted rows.
      spans, placed: regions and their ends.
      num_rows: rows in use.
      inflation: rows that count as one.
    """
    num, dtype = axis.shape[0], axis.dtype
    known = jnp.where(jnp.isfinite(axis), axis, 0.0)
    first, last = _windows(spans, placed, num_rows)
    low, high = (known[jnp.clip(end, 0, num - 1)] for end in (spans.low, spans.high - 1))
    center = jnp.broadcast_to(0.5 * (low + high)[None], first.shape)
    length = jnp.broadcast_to((high - low)[None], first.shape)
    length = jnp.where(length > 0, length, 1.0)
    # Powers of the axis are taken about the middle of all, and shifted to that of each end below.
    middle = 0.5 * (known[0] + known[jnp.maximum(num_rows - 1, 0)])
    span = jnp.maximum(known[jnp.maximum(num_rows - 1, 0)] - known[0], jnp.finfo(dtype).tiny)
    t = (known - middle) / span
    powers = t[None] ** jnp.arange(5, dtype=dtype)[:, None] * weight[None]
    rows = jnp.concatenate(
        [powers, powers[:3] * residual[None], (weight * residual**2)[None]]
    )
    sums = extremes.running_sum(rows)
    center, length = (center - middle) / span, length / span
    sign = jnp.array([[1.0], [-1.0]], dtype)
    grid = jnp.linspace(-0.5, 0.5, _NUM_PLACES).astype(dtype)
    place = center[..., None] + length[..., None] * grid[None, None]
    width = length[..., None] * jnp.asarray(_SOFTNESS, dtype)[None, None]
    place, width = place[..., None], width[..., None, :]
    lower_row, upper_row = (
        jnp.searchsorted(axis, (edge * span + middle).reshape(-1)).reshape(edge.shape)
        for edge in (place - width, place + width)
    )
    shape = place.shape[:3] + (len(_SOFTNESS),)
    start, end = (
        jnp.broadcast_to(edge[..., None, None], shape).astype(jnp.int32) for edge in (first, last)
    )
    bend, straight = (
        jnp.clip(edge.astype(jnp.int32), start, end) for edge in (lower_row, upper_row)
    )
    forward = jnp.broadcast_to((sign > 0)[..., None, None], shape)
    far_start, far_end = jnp.where(forward, straight, start), jnp.where(forward, end, bend)

    def total(low: jax.Array, high: jax.Array) -> jax.Array:
        return sums[:, high] - sums[:, low]

    whole, mid, far = total(start, end), total(bend, straight), total(far_start, far_end)
    sign = sign[..., None, None]
    safe = jnp.where(width > 0, width, 1.0)
    shift = width - sign * place
    quadratic = jnp.stack(
        [
            jnp.broadcast_to(part / (4 * safe), shape)
            for part in (shift**2, 2 * sign * shift, jnp.ones_like(shift))
        ]
    )
    quadratic = jnp.where((width > 0)[None], quadratic, 0.0)
    linear = jnp.stack([jnp.broadcast_to(part, shape) for part in (-sign * place, sign)])

    def moment(offset: int) -> jax.Array:
        """Sums of the hinge with ``t^offset``, or with the residual from row 5 on."""
        bent = sum(quadratic[k] * mid[k + offset] for k in range(3))
        return bent + sum(linear[k] * far[k + offset] for k in range(2))

    square = sum(quadratic[j] * quadratic[k] * mid[j + k] for j in range(3) for k in range(3))
    square = square + sum(linear[j] * linear[k] * far[j + k] for j in range(2) for k in range(2))
    with_one, with_axis, with_residual = moment(0), moment(1), moment(5)
    gram = jnp.stack(
        [
            jnp.stack([whole[0], whole[1], with_one], -1),
            jnp.stack([whole[1], whole[2], with_axis], -1),
            jnp.stack([with_one, with_axis, square], -1),
        ],
        -2,
    )
    cross = jnp.stack([whole[5], whole[6], with_residual], -1)
    tolerance = tolerances.gram(dtype)
    solution = small_systems.solve(gram, cross, tolerance).solution
    left = whole[8] - jnp.sum(solution * cross, -1)

    def straight_line(sums: jax.Array) -> jax.Array:
        gram = jnp.stack([jnp.stack([sums[0], sums[1]], -1), jnp.stack([sums[1], sums[2]], -1)], -2)
        cross = jnp.stack([sums[5], sums[6]], -1)
        fitted = small_systems.solve(gram, cross, tolerance).solution
        return sums[8] - jnp.sum(fitted * cross, -1)

    cut = bend[..., 0]
    jump = straight_line(total(start[..., 0], cut)) + straight_line(total(cut, end[..., 0]))
    count = jnp.maximum(whole[0, ..., 0, 0], 1.0)
    profile = jnp.min(left, -1)
    best = jnp.min(profile, -1)
    least_jump = jnp.min(jump, -1)
    variance = jnp.minimum(best, least_jump) / jnp.maximum(count - 5, 1) * inflation
    variance = jnp.maximum(variance, jnp.finfo(dtype).tiny)
    corrected = whole[8, ..., 0, 0] - _gain_of(placed)[None]
    rival = jnp.minimum(least_jump, corrected)
    is_kink = best <= rival + variance * jnp.log(count)
    likely = profile <= (best + _KINK_95 * variance)[..., None]
    chosen = jnp.argmin(profile, -1)
    soft = jnp.take_along_axis(left, chosen[..., None, None], axis=2)[..., 0, :]
    sharp_enough = soft[..., 0] <= best + _KINK_95 * variance
    which = jnp.where(sharp_enough, 0, jnp.argmin(soft, -1))
    places = place[..., 0] * span + middle
    step = jnp.abs(places[..., 1] - places[..., 0])
    found = jnp.take_along_axis(places, chosen[..., None], -1)[..., 0]
    return Kinks(
        is_kink=is_kink & spans.present[None],
        place=found,
        lower=jnp.min(jnp.where(likely, places, jnp.inf), -1) - step,
        upper=jnp.max(jnp.where(likely, places, -jnp.inf), -1) + step,
        softness=jnp.take_along_axis(width[:, :, 0] * span, which[..., None], -1)[..., 0],
    )
