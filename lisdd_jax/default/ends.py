"""The ends of regions at single rows, and their intervals (docs/method.md, section 3.7).

With a correction ``f`` of the residuals ``r``, a row gains ``rho(r) - rho(r - f)``, squares cut off
at the bound of outliers, and the best region is the interval with the largest sum of gains: a
difference of two values of the cumulated gain. Fitting the correction and moving the ends take
turns.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.cells import SortedCells
from lisdd_jax.numerics import extremes, small_systems, tolerances

NUM_REACH = 2
"""Cells beyond a run into which its ends may move: a run is found to a cell or two."""

_NUM_TURNS = 3
"""Fits of the correction, each followed by a move of the ends; they settle in two or three."""

JUMP_95 = 7.35
"""95 % quantile of the likelihood ratio of a jump's place, ``(1 - exp(-x / 2))^2 = 0.95``."""


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


def spans_of_runs(inside: jax.Array, cells: SortedCells) -> Spans:
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
    return _within(spans, start, stop, jnp.arange(num, dtype=jnp.int32))


def _within(spans: Spans, start: jax.Array, stop: jax.Array, row: jax.Array) -> jax.Array:
    """Whether rows ``(n,)`` lie in the regions, ``(R, n)`` bool."""
    row = row[None]
    return (row >= start[:, None]) & (row < stop[:, None]) & spans.present[:, None]


def slots(spans: Spans, start: jax.Array, stop: jax.Array, row: jax.Array) -> jax.Array:
    """Region of rows ``row (n,)``, int32; ``R`` outside."""
    own = _within(spans, start, stop, row)
    return jnp.where(jnp.any(own, 0), jnp.argmax(own, 0), own.shape[0]).astype(jnp.int32)


def _at_slot(values: jax.Array, slot: jax.Array) -> jax.Array:
    """Values ``(R,)`` of the regions at their rows; 0 outside."""
    return jnp.append(values, jnp.zeros(1, values.dtype))[slot]


def correct(coefficients: jax.Array, columns: jax.Array, slot: jax.Array) -> jax.Array:
    """Corrections ``(n,)`` with coefficients ``(R, m)`` of the rows' own regions; 0 outside.

    They are of the first ``m`` of the columns.
    """
    # Column by column: a gather of whole rows costs several times as much, and so does a copy.
    each = enumerate(coefficients.T)
    return sum((_at_slot(own, slot) * columns[k] for k, own in each), jnp.zeros_like(columns[0]))


class Placed(NamedTuple):
    """Ends and correction.

    Attributes:
      start, stop: ``(R,)`` int32.
      coefficients: ``(R, m)``.
      gain: ``(n + 1,)`` cumulated gain of the corrections, each in the rows that its ends may take.
    """

    start: jax.Array
    stop: jax.Array
    coefficients: jax.Array
    gain: jax.Array


class _Windows(NamedTuple):
    """Where the ends of regions may lie.

    Attributes:
      slot: ``(n,)`` int32 region whose ends may take a row; ``R`` for none.
      before, after: ``(n + 1,)`` the same of the row before and after a position.
      possible: ``(n + 1,)`` bool.
      head, tail: ``(n + 1,)`` gain granted to a start and a stop.
    """

    slot: jax.Array
    before: jax.Array
    after: jax.Array
    possible: jax.Array
    head: jax.Array
    tail: jax.Array

    def best_ends(self, gain: jax.Array, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Starts and stops ``(R,)`` of the largest gain, the stop beyond a given start."""
        num_regions = len(start)
        ahead = self.possible & (_positions(gain) > _at_slot(start, self.before))
        gained = jnp.where(ahead, gain + self.tail, -jnp.inf)
        stop = extremes.first_max_of_groups(gained, self.before, num_regions)
        behind = self.possible & (_positions(gain) < _at_slot(stop, self.after))
        lost = jnp.where(behind, self.head - gain, -jnp.inf)
        return extremes.first_max_of_groups(lost, self.after, num_regions), stop


def _positions(values: jax.Array) -> jax.Array:
    return jnp.arange(len(values), dtype=jnp.int32)


def _windows_of(
    spans: Spans, possible: jax.Array, num_rows: jax.Array, bonus: jax.Array
) -> _Windows:
    position = _positions(possible)
    slot = slots(spans, spans.low, spans.high, position[:-1])
    nowhere = jnp.full(1, len(spans.low), jnp.int32)
    return _Windows(
        slot=slot,
        before=jnp.concatenate([nowhere, slot]),
        after=jnp.concatenate([slot, nowhere]),
        possible=possible,
        head=jnp.where(position == 0, bonus, 0.0),
        tail=jnp.where(position == num_rows, bonus, 0.0),
    )


class _Turn(NamedTuple):
    """Turns made, where they led, and whether an end moved in the last."""

    num: jax.Array
    placed: Placed
    moved: jax.Array


def _cut_off(residual: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.minimum(residual**2, bound**2)


def place_ends(
    columns: jax.Array,
    residual: jax.Array,
    sums_between: Callable[[jax.Array, jax.Array], jax.Array],
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
      columns: of which the first ``m`` are directions and terms, ``(.., n)``.
      residual: ``(n,)`` of the law.
      sums_between: sums ``(R, m + 1, m + 1)`` of products of columns and residual, over the rows
        of the fit of a correction between ends ``(R,)``.
      bound: ``(n,)`` residual at which squares are cut off.
      use: ``(R, m)`` bool, columns of each region's correction.
      shared: bool, one correction for all regions.
      spans: the regions.
      begin: ``(R,)`` start and stop to begin with.
      possible: ``(n + 1,)`` bool, positions where an end may lie.
      num_rows: rows in use.
      bonus: gain granted to an end at the end of the axis, which is no parameter.
    """
    windows = _windows_of(spans, possible, num_rows, bonus)
    left = _cut_off(residual, bound)
    both = use[:, :, None] & use[:, None, :]

    def fit(start: jax.Array, stop: jax.Array) -> jax.Array:
        sums = sums_between(start, stop)
        sums = jnp.where(shared, jnp.sum(sums, axis=0, keepdims=True), sums)
        gram = jnp.where(both, sums[:, :-1, :-1], 0.0)
        moment = jnp.where(use, sums[:, :-1, -1], 0.0)
        return small_systems.solve(gram, moment, tolerances.gram(residual.dtype)).solution

    def turn(state: _Turn) -> _Turn:
        begun = state.placed
        coefficients = fit(begun.start, begun.stop)
        corrected = residual - correct(coefficients, columns, windows.slot)
        gain = extremes.running_sum(left - _cut_off(corrected, bound))
        start, stop = windows.best_ends(gain, begun.start)
        start, stop = (jnp.where(spans.present, end, 0) for end in (start, stop))
        moved = jnp.any((start != begun.start) | (stop != begun.stop))
        return _Turn(state.num + 1, Placed(start, stop, coefficients, gain), moved)

    def goes_on(state: _Turn) -> jax.Array:
        # Ends that stayed would stay again.
        return state.moved & (state.num < _NUM_TURNS)

    zero = jnp.zeros(possible.shape, residual.dtype)
    nothing = jnp.zeros(use.shape, residual.dtype)
    first = _Turn(jnp.int32(0), Placed(*begin, nothing, zero), jnp.ones((), bool))
    return jax.lax.while_loop(goes_on, turn, first).placed


def jump_intervals(gain: jax.Array, placed: Placed, spans: Spans, variance: jax.Array) -> jax.Array:
    """95 % confidence intervals of ends at which the correction jumps, ``(2, R, 2)`` positions.

    An interval holds all positions whose cumulated gain is within the 95 % quantile of its
    likelihood ratio from the best.

    References:
      Hansen (2000), Sample splitting and threshold estimation, Econometrica 68, equation 6.
    """
    position = jnp.arange(len(gain), dtype=jnp.int32)[None]
    cut = JUMP_95 * variance
    within = (position >= spans.low[:, None]) & (position <= spans.high[:, None])
    low, high = gain[placed.start] + cut, gain[placed.stop] - cut
    starts = within & (position <= placed.stop[:, None]) & (gain[None] <= low[:, None])
    stops = within & (position >= placed.start[:, None]) & (gain[None] >= high[:, None])
    both = jnp.stack([starts, stops])
    last = len(gain) - 1 - jnp.argmax(both[..., ::-1], axis=-1)
    return jnp.stack([jnp.argmax(both, axis=-1), last], axis=-1).astype(jnp.int32)
