"""Ends at which a correction grows from zero: kinks, sharp or soft (section 3.7)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.default.ends import Placed, Spans
from lisdd_jax.numerics import extremes, small_systems, tolerances

_KINK_95 = 3.84
"""95 % quantile of chi-square with one degree of freedom: a kink's place is a regular parameter."""

_NUM_PLACES = 96
_SOFTNESS = np.array([0.0, 0.04, 0.08, 0.16, 0.32])
"""Places tried for a kink, and half widths over which it bends, as shares of the searched span."""


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
    rows = jnp.concatenate([powers, powers[:3] * residual[None], (weight * residual**2)[None]])
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
    shape = (*place.shape[:3], len(_SOFTNESS))
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
        bent = jnp.sum(quadratic * mid[offset : offset + 3], axis=0)
        return bent + jnp.sum(linear * far[offset : offset + 2], axis=0)

    def energy(weights: jax.Array, sums: jax.Array) -> jax.Array:
        size = weights.shape[0]
        products = jnp.stack([sums[j : j + size] for j in range(size)])
        return jnp.sum(weights[:, None] * weights[None] * products, axis=(0, 1))

    square = energy(quadratic, mid) + energy(linear, far)
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
