"""The final ends, and which rows serve what (docs/method.md, section 3.7)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default import ends
from lisdd_jax.default.cells import MOST_CELLS
from lisdd_jax.default.ends import Placed, Spans
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.hinges import EndRows
from lisdd_jax.default.kinks import Kinks, fit_kinks
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.leaks import leaking_rows
from lisdd_jax.default.noise_tail import continue_tail
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.outliers import CUT
from lisdd_jax.default.rows import Apart, OpenRegions, residual_of
from lisdd_jax.numerics import medians
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.precision import full_precision

_ENOUGH = 0.25
"""Share of the rows outside of the regions that must lie beyond the bounds of the ends."""


class Settled(NamedTuple):
    """The final ends, and which rows serve what.

    Attributes:
      lower, upper: ``(R,)`` on the axis; infinite at the ends of the axis, NaN where absent.
      lower_interval, upper_interval: ``(R, 2)``; NaN where an end lies at the end of the axis.
      is_kink, softness: ``(2, R)`` of lower and upper ends.
      slot: ``(n,)`` int32 region of every row, ``R`` outside.
      kept: ``(n,)`` bool, rows in use that are not set aside.
      law: ``(n,)`` bool, rows of the law.
      tail: ``(n,)`` bool, rows set aside that it would have as the tail of its noise.
      num_rows: ``(R,)`` int32 rows inside.
      outlier: ``(n,)`` bool, rows set aside, in the order of the record.
    """

    lower: jax.Array
    upper: jax.Array
    lower_interval: jax.Array
    upper_interval: jax.Array
    is_kink: jax.Array
    softness: jax.Array
    slot: jax.Array
    kept: jax.Array
    law: jax.Array
    tail: jax.Array
    num_rows: jax.Array
    outlier: jax.Array


def _between(axis: jax.Array, position: jax.Array, num_rows: jax.Array) -> jax.Array:
    """The axis halfway between the rows beside positions; infinite at the ends."""
    last = axis.shape[0] - 1
    below, above = axis[jnp.clip(position - 1, 0, last)], axis[jnp.clip(position, 0, last)]
    half = 0.5 * below + 0.5 * above
    half = jnp.where(position <= 0, -jnp.inf, half)
    return jnp.where(position >= num_rows, jnp.inf, half)


def _around(axis: jax.Array, interval: jax.Array, num_rows: jax.Array) -> jax.Array:
    """The rows around positions ``interval (2, R, 2)``: a jump may be anywhere between the rows
    beside it; infinite at the ends."""
    last = axis.shape[0] - 1
    first, final = interval[..., 0], interval[..., 1]
    below, above = axis[jnp.clip(first - 1, 0, last)], axis[jnp.clip(final, 0, last)]
    below = jnp.where(first <= 0, -jnp.inf, below)
    return jnp.stack([below, jnp.where(final >= num_rows, jnp.inf, above)], -1)


class _Ends(NamedTuple):
    """Ends on the axis, each ``(2, R)``: starts, then stops.

    Attributes:
      position: int32 first row inside, and first beyond.
      place: on the axis; infinite at its ends, NaN where absent.
      interval: ``(2, R, 2)``; NaN at the ends of the axis.
      chosen: the same of the kink or jump that was chosen, alone: it says which rows may serve
        the law.
      is_kink: bool.
      softness: half width over which a kink bends.
    """

    position: jax.Array
    place: jax.Array
    interval: jax.Array
    chosen: jax.Array
    is_kink: jax.Array
    softness: jax.Array


def _place_on_axis(
    rows: Ordered, spans: Spans, placed: Placed, kinks: Kinks, jumps: jax.Array
) -> _Ends:
    """The ends: kinks where they serve best, else jumps with intervals ``jumps (2, R, 2)``; what is
    reported holds kinks that are possible, too."""
    at_end = jnp.stack([placed.start <= 0, placed.stop >= rows.num_rows])
    kink = kinks.is_kink & ~at_end
    position = jnp.stack([placed.start, placed.stop])
    row = jnp.searchsorted(rows.axis, kinks.place).astype(jnp.int32)
    moved = jnp.where(kink, jnp.clip(row, spans.low[None], spans.high[None]), position)
    # A region between two kinks that have passed each other keeps the ends of the correction.
    kink = kink & (moved[0] < moved[1])[None]
    position = jnp.where(kink, moved, position)
    place = jnp.where(kink, kinks.place, _between(rows.axis, position, rows.num_rows))
    bounds = jnp.stack([kinks.lower, kinks.upper], -1)
    chosen = jnp.where(kink[..., None], bounds, _around(rows.axis, jumps, rows.num_rows))
    lower = jnp.fmin(chosen[..., 0], kinks.possible[..., 0])
    interval = jnp.stack([lower, jnp.fmax(chosen[..., 1], kinks.possible[..., 1])], -1)
    known = (spans.present[None] & ~at_end)[..., None]
    return _Ends(
        position=position,
        place=jnp.where(spans.present[None], place, jnp.nan),
        interval=jnp.where(known, interval, jnp.nan),
        chosen=jnp.where(known, chosen, jnp.nan),
        is_kink=kink,
        softness=jnp.where(kink, kinks.softness, 0.0),
    )


def _doubtful(rows: Ordered, spans: Spans, found: _Ends, begun: jax.Array) -> jax.Array:
    """Rows ``(n,)`` up to the outer bound of an end, or where a kink sets in, or of a correction
    ``begun (R, n)`` that a kink is reported for: they serve no law for certain."""
    place, soft = found.place, found.softness
    outer = jnp.stack([found.chosen[0, :, 0], found.chosen[1, :, 1]])
    begin = jnp.stack([place[0] - soft[0], place[1] + soft[1]])
    outer = jnp.stack([jnp.minimum(outer[0], begin[0]), jnp.maximum(outer[1], begin[1])])
    open_end = jnp.array([[-jnp.inf], [jnp.inf]], outer.dtype)
    outer = jnp.where(jnp.isnan(outer), open_end, outer)
    # A row at the bound of a start lies outside for certain.
    sides = zip(outer, ("right", "left"), strict=True)
    wide = [jnp.searchsorted(rows.axis, end, side=side).astype(jnp.int32) for end, side in sides]
    return jnp.any(ends.inside(spans, wide[0], wide[1], rows.axis.shape[0]) | begun, axis=0)


def _rows_of_law(outside: jax.Array, doubtful: jax.Array) -> jax.Array:
    """Rows that serve the law: those outside for certain, or all of them where ends are so little
    known that hardly any is certain."""
    certain = outside & ~doubtful
    enough = jnp.mean(certain) >= _ENOUGH * jnp.mean(outside)
    return jnp.where(enough, certain, outside)


def _height(
    correction: jax.Array, inside: jax.Array, placed: Placed, columns: jax.Array
) -> jax.Array:
    """Corrections at their ends over their root mean squares inside, ``(2, R)``.

    Args:
      correction: ``(n,)`` of the rows' own regions.
      inside: ``(R, n)`` bool.
      placed: the ends, and coefficients ``(R, m)`` of the first columns.
      columns: ``(.., n)``.
    """
    count = jnp.maximum(jnp.sum(inside, axis=1), 1).astype(correction.dtype)
    square = jnp.sum(jnp.where(inside, correction[None] ** 2, 0.0), axis=1) / count
    rows = jnp.stack([placed.start, placed.stop - 1])
    at_ends = columns[: placed.coefficients.shape[1], jnp.clip(rows, 0, columns.shape[1] - 1)]
    there = jnp.sum(placed.coefficients.T[:, None] * at_ends, axis=0)
    return jnp.abs(there) / jnp.sqrt(jnp.where(square > 0, square, 1.0))[None]


def _correction(rows: Ordered, spans: Spans, placed: Placed, ends_at: jax.Array) -> jax.Array:
    """Corrections ``(n,)`` of the regions with ends at positions ``(2, R)``."""
    every = jnp.arange(rows.axis.shape[0], dtype=jnp.int32)
    slot = ends.slots(spans, ends_at[0], ends_at[1], every)
    return ends.correct(placed.coefficients, rows.columns, slot)


def _near_again(remaining: jax.Array, look: FirstLook, apart: Apart) -> jax.Array:
    """Rows ``(n,)`` near to the law and the corrections, by the scales that rows were kept by.

    What is far from the fit of a cell that an end divides may be near to what holds on its side.
    """
    bound = CUT * medians.per_row(apart.scale, look.cells.of_row)
    return (jnp.abs(remaining) <= bound) & ~apart.runs.rows(len(remaining))


@compiled(static_argnames=("layout",))
@full_precision
def settle(
    rows: Ordered,
    look: FirstLook,
    region: OpenRegions,
    apart: Apart,
    law: tuple[jax.Array, jax.Array],
    placed: Placed,
    layout: ColumnLayout,
) -> Settled:
    """Intervals of the ends, jumps or kinks, and the rows of the law.

    Args:
      rows, look, region, apart, placed: what was found.
      law: ``theta (p,)``, and the variance of the noise.
      layout: columns.
    """
    theta, variance = law
    spans, num, weight = region.spans, rows.axis.shape[0], region.weight
    inflation = look.dependence.rows
    residual = residual_of(rows, theta, layout)
    begun = ends.inside(spans, placed.start, placed.stop, num)
    correction = _correction(rows, spans, placed, jnp.stack([placed.start, placed.stop]))
    height = _height(correction, begun, placed, rows.columns)
    beside = EndRows(rows.axis, residual, residual - correction, weight, rows.num_rows)
    kinks = fit_kinks(beside, height, spans, placed, inflation)
    jumps = ends.jump_intervals(placed.gain, placed, spans, variance * inflation)
    found = _place_on_axis(rows, spans, placed, kinks, jumps)

    own = ends.inside(spans, found.position[0], found.position[1], num)
    inside = jnp.any(own, axis=0)
    used = look.cells.of_row < MOST_CELLS
    remaining = residual - _correction(rows, spans, placed, found.position)
    kept = (weight > 0) | (used & _near_again(remaining, look, apart))
    far = used & ~kept
    serves = _rows_of_law(used & ~inside & region.sound, _doubtful(rows, spans, found, begun))
    serves = serves & ~leaking_rows(
        residual, serves & kept, spans, found.position, variance * inflation
    )
    return Settled(
        lower=found.place[0],
        upper=found.place[1],
        lower_interval=found.interval[0],
        upper_interval=found.interval[1],
        is_kink=found.is_kink,
        softness=found.softness,
        slot=jnp.where(inside, jnp.argmax(own, axis=0), own.shape[0]).astype(jnp.int32),
        kept=kept,
        law=serves & kept,
        tail=continue_tail(residual, region.bound, serves & far, serves & kept),
        num_rows=jnp.sum(own, axis=1, dtype=jnp.int32),
        outlier=jnp.zeros(num, bool).at[rows.order].set(far),
    )
