"""Residual sums of hinges and jumps beside every end (docs/method.md, section 3.7).

Beside an end the residuals are ``a + b t + c h(t - place)`` with a hinge ``h`` that bends over
``place +- w``: ``(u + w)^2 / (4 w)`` there, ``u`` beyond. Places and widths are tried on a grid,
and running sums over the rows give all products of the hinge at once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.default.ends import Placed, Spans
from lisdd_jax.default.lines import LineSums, line_left, solve_left
from lisdd_jax.numerics import extremes, tolerances

_NUM_PLACES = 96
_SOFTNESS = np.array([0.0, 0.04, 0.08, 0.16, 0.32])
"""Places tried for a kink, and half widths over which it bends, as shares of the searched span."""

_NUM_POWERS = 5
"""Powers of the axis in the running sums; rows from here on are products with the residual."""


class EndRows(NamedTuple):
    """Rows beside ends, in the order of the axis.

    Attributes:
      axis: ``(n,)``; infinite in rows out of use.
      residual: ``(n,)`` about the law.
      corrected: ``(n,)`` what the regions' corrections leave of them.
      weight: ``(n,)``.
      num: rows in use.
    """

    axis: jax.Array
    residual: jax.Array
    corrected: jax.Array
    weight: jax.Array
    num: jax.Array


class EndProfiles(NamedTuple):
    """What hinges and jumps leave beside every end: starts, then stops; ``P`` places, ``W`` widths.

    Of the rows up to the neighbours, then of those up to the middle of a region that has two ends:
    it may rise and fall.

    Attributes:
      hinges: ``(2, 2, R, P, W)`` residual sums of a line and a hinge.
      jumps: ``(2, 2, R, P)`` of two separate lines.
      corrected: ``(2, 2, R)`` of the corrections.
      num_rows: ``(2, 2, R)`` weights of the rows, at least 1.
      place: ``(2, R, P)`` tried, on the axis.
      width: ``(2, R, W)`` half widths tried, on the axis.
    """

    hinges: jax.Array
    jumps: jax.Array
    corrected: jax.Array
    num_rows: jax.Array
    place: jax.Array
    width: jax.Array


class _Beside(NamedTuple):
    """Rows beside every end, and their working axis ``t = (z - middle) / span``.

    Each end has an axis of its own: on one for all a hinge far from its middle would cancel, and in
    single precision leave less than nothing.

    Attributes:
      first, last: ``(2, 2, R)`` int32, first row and the one after the last: of starts and of
        stops, of all rows up to the neighbours and of those up to the middle of the region.
      middle, span: ``(2, R)`` of the axis, over all.
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
        """The working axis ``(n,)`` of rows beside the ends ``(R,)`` of one side; 0 elsewhere.

        No row is beside two of them.
        """
        row = jnp.arange(axis.shape[0], dtype=jnp.int32)
        work = jnp.zeros_like(axis)
        for r in range(len(present)):
            own = (row >= self.first[0, r]) & (row < self.last[0, r]) & present[r]
            work = jnp.where(own, (axis - self.middle[r]) / self.span[r], work)
        return work


class _Grid(NamedTuple):
    """Hinges tried beside every end, ``P`` places and ``W`` half widths, in the working axis.

    Attributes:
      place: ``(2, 1, R, P, 1)``.
      width: ``(2, 1, R, 1, W)``.
      sign: ``(2, 1, 1, 1, 1)``, 1 where the hinge rises to the right (starts).
      start, end: ``(2, 2, R, P, W)`` int32, rows beside the end.
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
    inner = (placed.start > 0) & (placed.stop < num_rows)
    half = (placed.start + placed.stop) // 2

    def both(*ends: jax.Array) -> jax.Array:
        """Starts and stops, each as far as the neighbour and to the middle of the region."""
        return jnp.stack(ends).reshape(2, 2, -1).astype(jnp.int32)

    first = both(before, before, placed.start, jnp.where(inner, half, placed.start))
    last = both(placed.stop, jnp.where(inner, half, placed.stop), after, after)
    last = jnp.maximum(last, first)
    most = axis.shape[0] - 1
    low, high = (axis[jnp.clip(row[:, 0], 0, most)] for row in (first, last - 1))
    span = jnp.maximum(high - low, jnp.finfo(axis.dtype).tiny)
    span = jnp.where(high > low, span, 1.0)
    return _Beside(first, last, 0.5 * low + 0.5 * high, span)


def _running_sums(
    work: jax.Array, residual: jax.Array, corrected: jax.Array, weight: jax.Array
) -> jax.Array:
    """Running sums ``(10, n + 1)`` of ``t^0 .. t^4``, ``r t^0 .. r t^2``, ``r^2`` and corrected."""

    def sum_one(which: tuple[jax.Array, jax.Array]) -> jax.Array:
        power, kind = which
        value = weight
        for exponent in range(1, _NUM_POWERS):
            value = value * jnp.where(power >= exponent, work, 1.0)
        others = [jnp.ones_like(work), residual, residual**2, corrected**2]
        return extremes.running_sum(value * lax.select_n(kind, *others))

    # One after the other: what is summed would take as much memory as the sums.
    power = np.array([*range(_NUM_POWERS), 0, 1, 2, 0, 0], np.int32)
    kind = np.array([0] * _NUM_POWERS + [1, 1, 1, 2, 3], np.int32)
    return lax.map(sum_one, (jnp.asarray(power), jnp.asarray(kind)))


def _grid_of(axis: jax.Array, beside: _Beside, spans: Spans) -> tuple[_Grid, jax.Array]:
    """The hinges tried, and their places on the axis ``(2, R, P)``; ``axis (n,)`` is infinite in
    rows out of use."""
    num, dtype = axis.shape[0], axis.dtype
    low, high = (axis[jnp.clip(end, 0, num - 1)] for end in (spans.low, spans.high - 1))
    low, high = (jnp.where(jnp.isfinite(end), end, 0.0) for end in (low, high))
    length = jnp.where(high > low, high - low, 1.0)
    share = jnp.linspace(-0.5, 0.5, _NUM_PLACES).astype(dtype)
    place = (0.5 * low + 0.5 * high)[:, None] + length[:, None] * share[None]
    ends = beside.middle.shape
    place = jnp.broadcast_to(place[None, ..., None], (*ends, _NUM_PLACES, 1))
    width = length[:, None] * jnp.asarray(_SOFTNESS, dtype)[None]
    width = jnp.broadcast_to(width[None, :, None], (*ends, 1, len(_SOFTNESS)))
    shape = (*beside.first.shape, _NUM_PLACES, len(_SOFTNESS))
    start, end = (
        jnp.broadcast_to(edge[..., None, None], shape) for edge in (beside.first, beside.last)
    )
    edges = jnp.stack([place - width, place + width])
    found = jnp.searchsorted(axis, edges.reshape(-1)).reshape(edges.shape).astype(jnp.int32)
    bend, straight = jnp.clip(found[:, :, None], start[None], end[None])
    sign = jnp.array([1.0, -1.0], dtype)[:, None, None, None, None]
    at, half = beside.to_work(place), width / beside.span[..., None, None]
    return _Grid(at[:, None], half[:, None], sign, start, end, bend, straight), place[..., 0]


def _line_left(sums: jax.Array) -> jax.Array:
    """Residual sums of a straight line, from running sums over its rows."""
    return line_left(LineSums(sums[0], sums[1], sums[2], sums[5], sums[6], sums[8]))


def _energy(weights: jax.Array, sums: jax.Array) -> jax.Array:
    """Sum of squares of a polynomial of coefficients ``weights (k, ...)``."""
    size = weights.shape[0]
    products = jnp.stack([sums[j : j + size] for j in range(size)])
    return jnp.sum(weights[:, None] * weights[None] * products, axis=(0, 1))


def _kink_left(grid: _Grid, sums: jax.Array) -> jax.Array:
    """Residual sums ``(2, R, P, W)`` of a line and a hinge, of starts or of stops."""
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
    """Residual sums ``(2, R, P)`` of two separate lines, parted at the places."""
    start, cut, end = (part[..., 0] for part in (grid.start, grid.bend, grid.end))
    middle = sums[:, cut]
    both = jnp.stack([middle - sums[:, start], sums[:, end] - middle], axis=1)
    return jnp.sum(_line_left(both), axis=0)


def profile_ends(rows: EndRows, spans: Spans, placed: Placed) -> EndProfiles:
    """Residual sums of every hinge and jump beside every end.

    Args:
      rows: sorted.
      spans, placed: regions and their ends.
    """
    axis = jnp.where(jnp.isfinite(rows.axis), rows.axis, 0.0)
    beside = _beside(axis, spans, placed, rows.num)
    grid, places = _grid_of(rows.axis, beside, spans)

    def side(part: tuple[_Grid, _Beside]) -> tuple[jax.Array, ...]:
        grid, beside = part
        work = beside.of_rows(axis, spans.present)
        sums = _running_sums(work, rows.residual, rows.corrected, rows.weight)
        whole = sums[:, beside.last] - sums[:, beside.first]
        return _kink_left(grid, sums), _jump_left(grid, sums), whole

    # One after the other: sums over all rows of a long table are what needs most memory.
    hinges, jumps, whole = lax.map(side, (grid, beside))
    width = grid.width[:, 0, :, 0] * beside.span[..., None]
    parts = (hinges, jumps, whole[:, 9], jnp.maximum(whole[:, 0], 1.0))
    hinges, jumps, corrected, num_rows = (jnp.moveaxis(part, 1, 0) for part in parts)
    return EndProfiles(hinges, jumps, corrected, num_rows, places, width)
