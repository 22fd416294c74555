"""Ends at which a correction grows from zero: kinks, sharp or soft (section 3.7).

Beside an end the residuals are ``a + b t + c h(t - place)`` with a hinge ``h`` that bends over
``place +- w``: ``(u + w)^2 / (4 w)`` there, ``u`` beyond. Places and widths are tried on a grid,
and running sums over the rows give all products of the hinge at once. The least residual sum over
``a, b, c`` and ``w`` is a profile of the place.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.default.ends import JUMP_95, Placed, Spans
from lisdd_jax.default.lines import LineSums, line_left, solve_left
from lisdd_jax.numerics import extremes, tolerances

_KINK_95 = 3.84
"""95 % quantile of chi-square with one degree of freedom: a kink's place is a regular parameter."""

_DOUBT = 4.0
"""Variances by which two lines must be better for a jump to be possible (Akaike's two for the
coefficient that they have more, and two for the search for the place at which it serves best)."""

_LEVEL, _VANISHING = 0.9, 0.2
"""Shares of its root mean square that a correction has at an end up to which it is level, and at
one where it vanishes: a parabola from zero has less than that over its first third."""

_FURTHER = 3.0
"""Parameters at ``log n`` variances each (Schwarz). A kink has so many beyond a level correction: a
slope, its place on either side and its width for one level. And so many may a correction that
vanishes save: a curve that grows from zero describes its beginning no better than a hinge does,
and the rows far from there better."""

_NUM_PLACES = 96
_SOFTNESS = np.array([0.0, 0.04, 0.08, 0.16, 0.32])
"""Places tried for a kink, and half widths over which it bends, as shares of the searched span."""

_NUM_POWERS = 5
"""Powers of the axis in the running sums; rows from here on are products with the residual."""


class Kinks(NamedTuple):
    """The ends as kinks, each ``(2, R)``: starts, then stops.

    Attributes:
      is_kink: bool, the correction grows from zero there.
      place: on the axis.
      lower, upper: 95 % confidence interval of the place; where two separate lines, or the
        correction, describe the rows better, though not by what a kink is granted, it holds the
        places of their jump, or the end of the correction, too.
      softness: half width over which the correction bends; 0 for a sharp kink.
    """

    is_kink: jax.Array
    place: jax.Array
    lower: jax.Array
    upper: jax.Array
    softness: jax.Array


class _Beside(NamedTuple):
    """Rows beside every end, and their working axis ``t = (z - middle) / span``, each ``(2, R)``.

    Each end has an axis of its own: on one for all a hinge far from its middle would cancel, and in
    single precision leave less than nothing.

    Attributes:
      first, last: int32, first row and the one after the last.
      middle, span: of the axis there.
    """

    first: jax.Array
    last: jax.Array
    middle: jax.Array
    span: jax.Array

    def to_work(self, values: jax.Array) -> jax.Array:
        """Values ``(2, R, ...)`` of the axis in the working unit."""
        shape = self.middle.shape + (1,) * (values.ndim - 2)
        return (values - self.middle.reshape(shape)) / self.span.reshape(shape)

    def of_rows(self, axis: jax.Array, present: jax.Array) -> jax.Array:
        """The working axis ``(2, n)`` of rows beside starts, and beside stops; 0 elsewhere."""
        row = jnp.arange(axis.shape[0], dtype=jnp.int32)[None, None]
        own = (row >= self.first[..., None]) & (row < self.last[..., None])
        every = jnp.broadcast_to(axis[None, None], (*self.first.shape, *axis.shape))
        return jnp.sum(jnp.where(own & present[None, :, None], self.to_work(every), 0.0), 1)


class _Grid(NamedTuple):
    """Hinges tried beside every end, ``P`` places and ``W`` half widths, in the working axis.

    Attributes:
      place: ``(2, R, P, 1)``.
      width: ``(2, R, 1, W)``.
      sign: ``(2, 1, 1, 1)``, 1 where the hinge rises to the right (starts).
      start, end: ``(2, R, P, W)`` int32, rows beside the end.
      bend, straight: the same, first row of the bend and the first after it.
    """

    place: jax.Array
    width: jax.Array
    sign: jax.Array
    start: jax.Array
    end: jax.Array
    bend: jax.Array
    straight: jax.Array


def _beside(axis: jax.Array, spans: Spans, placed: Placed, num_rows: jax.Array) -> _Beside:
    """The rows beside every end up to the neighbours; ``axis (n,)`` is finite."""
    zero = jnp.zeros(1, jnp.int32)
    before = jnp.concatenate([zero, placed.stop[:-1]])
    following = jnp.where(spans.present[1:], placed.start[1:], num_rows)
    after = jnp.concatenate([following, num_rows[None]])
    first = jnp.stack([before, placed.start]).astype(jnp.int32)
    last = jnp.maximum(jnp.stack([placed.stop, after]).astype(jnp.int32), first)
    most = axis.shape[0] - 1
    low, high = (axis[jnp.clip(row, 0, most)] for row in (first, last - 1))
    span = jnp.maximum(high - low, jnp.finfo(axis.dtype).tiny)
    span = jnp.where(high > low, span, 1.0)
    return _Beside(first, last, 0.5 * low + 0.5 * high, span)


def _running_sums(
    work: jax.Array, residual: jax.Array, corrected: jax.Array, weight: jax.Array
) -> jax.Array:
    """Running sums ``(10, n + 1)`` of ``t^0 .. t^4``, ``r t^0 .. r t^2``, ``r^2`` and corrected."""
    powers = work[None] ** jnp.arange(_NUM_POWERS, dtype=work.dtype)[:, None] * weight[None]
    squares = weight[None] * jnp.stack([residual, corrected]) ** 2
    return extremes.running_sum(jnp.concatenate([powers, powers[:3] * residual[None], squares]))


def _grid_of(axis: jax.Array, beside: _Beside, spans: Spans) -> tuple[_Grid, jax.Array]:
    """The hinges tried, and their places on the axis ``(2, R, P)``; ``axis (n,)`` is infinite in
    rows out of use."""
    num, dtype = axis.shape[0], axis.dtype
    low, high = (axis[jnp.clip(end, 0, num - 1)] for end in (spans.low, spans.high - 1))
    low, high = (jnp.where(jnp.isfinite(end), end, 0.0) for end in (low, high))
    length = jnp.where(high > low, high - low, 1.0)
    share = jnp.linspace(-0.5, 0.5, _NUM_PLACES).astype(dtype)
    place = (0.5 * low + 0.5 * high)[:, None] + length[:, None] * share[None]
    place = jnp.broadcast_to(place[None, ..., None], (*beside.first.shape, _NUM_PLACES, 1))
    width = length[:, None] * jnp.asarray(_SOFTNESS, dtype)[None]
    width = jnp.broadcast_to(width[None, :, None], (*beside.first.shape, 1, len(_SOFTNESS)))
    shape = (*beside.first.shape, _NUM_PLACES, len(_SOFTNESS))
    start, end = (
        jnp.broadcast_to(edge[..., None, None], shape) for edge in (beside.first, beside.last)
    )
    edges = jnp.stack([place - width, place + width])
    found = jnp.searchsorted(axis, edges.reshape(-1)).reshape(edges.shape).astype(jnp.int32)
    bend, straight = jnp.clip(found, start[None], end[None])
    sign = jnp.array([1.0, -1.0], dtype)[:, None, None, None]
    work = beside.to_work(place), width / beside.span[..., None, None]
    return _Grid(*work, sign, start, end, bend, straight), place[..., 0]


def _line_left(sums: jax.Array) -> jax.Array:
    """Residual sums of a straight line, from running sums over its rows."""
    return line_left(LineSums(sums[0], sums[1], sums[2], sums[5], sums[6], sums[8]))


def _energy(weights: jax.Array, sums: jax.Array) -> jax.Array:
    """Sum of squares of a polynomial of coefficients ``weights (k, ...)``."""
    size = weights.shape[0]
    products = jnp.stack([sums[j : j + size] for j in range(size)])
    return jnp.sum(weights[:, None] * weights[None] * products, axis=(0, 1))


def _kink_left(grid: _Grid, sums: jax.Array) -> jax.Array:
    """Residual sums ``(R, P, W)`` of a line and a hinge, of starts or of stops."""
    shape = grid.start.shape
    forward = jnp.broadcast_to(grid.sign > 0, shape)
    beyond = (
        jnp.where(forward, grid.straight, grid.start),
        jnp.where(forward, grid.end, grid.bend),
    )
    bounds = (grid.start, grid.end), (grid.bend, grid.straight), beyond
    whole, bent, far = (sums[:, high] - sums[:, low] for low, high in bounds)
    soft = grid.width > 0
    safe = jnp.where(soft, grid.width, 1.0)
    shift = grid.width - grid.sign * grid.place
    parts = (shift**2, 2 * grid.sign * shift, jnp.ones_like(shift))
    quadratic = jnp.stack(
        [jnp.broadcast_to(jnp.where(soft, part / (4 * safe), 0.0), shape) for part in parts]
    )
    ends = (-grid.sign * grid.place, jnp.broadcast_to(grid.sign, grid.place.shape))
    linear = jnp.stack([jnp.broadcast_to(part, shape) for part in ends])

    def moment(offset: int) -> jax.Array:
        """Sums of the hinge with ``t^offset``, or with the residual from ``_NUM_POWERS`` on."""
        curve = jnp.sum(quadratic * bent[offset : offset + 3], axis=0)
        return curve + jnp.sum(linear * far[offset : offset + 2], axis=0)

    square = _energy(quadratic, bent) + _energy(linear, far)
    one, along = moment(0), moment(1)
    products = [one, along, square, moment(_NUM_POWERS)]
    # Of a hinge over few rows single precision knows nothing, and the line alone is left.
    rounding = tolerances.RUNNING_SUM(square.dtype) * sums[0, -1]
    largest = jnp.sum(jnp.abs(quadratic), axis=0) + jnp.sum(jnp.abs(linear), axis=0)
    known = square > rounding * largest**2
    one, along, square, cross = (jnp.where(known, part, 0.0) for part in products)
    gram = [[whole[0], whole[1], one], [whole[1], whole[2], along], [one, along, square]]
    return solve_left(gram, [whole[5], whole[6], cross], whole[8])


def _jump_left(grid: _Grid, sums: jax.Array) -> jax.Array:
    """Residual sums ``(R, P)`` of two separate lines, parted at the places."""
    start, cut, end = (part[..., 0] for part in (grid.start, grid.bend, grid.end))
    middle = sums[:, cut]
    both = jnp.stack([middle - sums[:, start], sums[:, end] - middle], axis=1)
    return jnp.sum(_line_left(both), axis=0)


def fit_kinks(
    axis: jax.Array,
    residual: jax.Array,
    corrected: jax.Array,
    height: jax.Array,
    weight: jax.Array,
    spans: Spans,
    placed: Placed,
    num_rows: jax.Array,
    inflation: jax.Array,
) -> Kinks:
    """Fit every end as a kink, sharp or soft, against a jump.

    Args:
      axis, residual, weight: ``(n,)`` sorted rows.
      corrected: ``(n,)`` residuals that the regions' corrections leave.
      height: ``(2, R)`` the corrections at their ends over their root mean squares.
      spans, placed: regions and their ends.
      num_rows: rows in use.
      inflation: rows that count as one.
    """
    known = jnp.where(jnp.isfinite(axis), axis, 0.0)
    beside = _beside(known, spans, placed, num_rows)
    grid, places = _grid_of(axis, beside, spans)

    def side(part: tuple[_Grid, jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        grid, work, first, last = part
        sums = _running_sums(work, residual, corrected, weight)
        return _kink_left(grid, sums), _jump_left(grid, sums), sums[:, last] - sums[:, first]

    # One after the other: sums over all rows of a long table are what needs most memory.
    parts = (grid, beside.of_rows(known, spans.present), beside.first, beside.last)
    left, jumps, whole = jax.lax.map(side, parts)
    whole = jnp.moveaxis(whole, 1, 0)
    profile = jnp.min(left, -1)
    best, jump = jnp.min(profile, -1), jnp.min(jumps, -1)
    count = jnp.maximum(whole[0], 1.0)
    variance = jnp.minimum(best, jump) / jnp.maximum(count - 5, 1) * inflation
    variance = jnp.maximum(variance, jnp.finfo(axis.dtype).tiny)
    price = variance * jnp.log(count)
    further = jnp.where(height < _VANISHING, 1.0, jnp.where(height > _LEVEL, -1.0, 0.0))
    by_terms = whole[9] + further * _FURTHER * price
    # Schwarz: a jump has one parameter more, and a kink is what most laws end with.
    is_kink = (best <= jnp.minimum(jump, by_terms) + price) & spans.present[None]
    cut = best + _KINK_95 * variance
    chosen = jnp.argmin(profile, -1)
    soft = jnp.take_along_axis(left, chosen[..., None, None], axis=2)[..., 0, :]
    which = jnp.where(soft[..., 0] <= cut, 0, jnp.argmin(soft, -1))
    likely = profile <= cut[..., None]
    also = (jumps <= (jump + JUMP_95 * variance)[..., None]) & (jump + _DOUBT * variance < best)[
        ..., None
    ]
    step = jnp.abs(places[..., 1] - places[..., 0])
    width = jnp.take_along_axis(grid.width[:, :, 0], which[..., None], -1)[..., 0]
    likely = likely | also
    ends = jnp.stack(
        [axis[jnp.clip(end, 0, axis.shape[0] - 1)] for end in (placed.start, placed.stop - 1)]
    )
    ends = jnp.where(whole[9] + _DOUBT * variance < best, ends, jnp.nan)
    return Kinks(
        is_kink=is_kink,
        place=jnp.take_along_axis(places, chosen[..., None], -1)[..., 0],
        lower=jnp.fmin(jnp.min(jnp.where(likely, places, jnp.inf), -1) - step, ends),
        upper=jnp.fmax(jnp.max(jnp.where(likely, places, -jnp.inf), -1) + step, ends),
        softness=width * beside.span,
    )
