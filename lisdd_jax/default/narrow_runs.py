"""Runs of rows too short for cells to show (docs/method.md, section 3.4).

A few rows of a cell that lie far off together pass for its gross errors, or for its noise. Scored
one by one along the axis they stand out: gross errors come in any order.

References:
  Karlin and Altschul (1990), Methods for assessing the statistical significance of molecular
  sequence features by using general scoring schemes, PNAS 87.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.numerics import cell_sums, extremes, medians

_TOLL = 1.5
"""Noise scales that a row of a run must lie off to speak for it: what a law that holds nearly is
off by, or a slope within a cell, is less."""

_CLIP = 4.0
"""Scales beyond which a row speaks no louder: a single one makes no run."""

_FEWEST = 4
"""Rows of the shortest run."""

_FAR = 2.5
"""Scales from which rows beside a run count as gross errors."""

_BESIDE, _LEAST_BESIDE = 4, 6
"""One in so many rows of a side, and rows looked at there: with more far ones beside it, or in it
on the other side of the law, a run is a piece of a cluster of gross errors."""

_CORRELATED, _LARGEST_RHO = 2.0, 0.95
"""Standard errors from which a correlation of neighbours counts, and the largest."""

_BINS, _BISECTIONS, _LARGEST_RATE = 64, 30, 20.0


class NarrowRun(NamedTuple):
    """The run of rows that stands out most.

    Attributes:
      start, stop: int32, first row and the one after the last; both 0 where there is none.
      gain: nats, its search paid for: under the law they are exceeded with probability
        ``exp(-gain)`` at most; 0 where there is none.
    """

    start: jax.Array
    stop: jax.Array
    gain: jax.Array

    def rows(self, num: int) -> jax.Array:
        """Its rows, ``(num,)`` bool."""
        row = jnp.arange(num, dtype=jnp.int32)
        return (row >= self.start) & (row < self.stop)


def levels_nearby(level: jax.Array, num: jax.Array) -> jax.Array:
    """What the levels ``(K,)`` of a cell and its neighbours have in common: the smallest of one
    sign, else zero. A run in two of three neighbours leaves it as it is."""
    last = jnp.maximum(num - 1, 0)
    place = jnp.arange(len(level), dtype=jnp.int32)
    three = jnp.stack([level[jnp.clip(place + step, 0, last)] for step in (-1, 0, 1)])
    return jnp.maximum(jnp.min(three, 0), 0) + jnp.minimum(jnp.max(three, 0), 0)


def score_rows(
    residual: jax.Array,
    one: jax.Array,
    scale: jax.Array,
    keep: jax.Array,
    cell: jax.Array,
    num_cells: jax.Array,
    negligible: jax.Array,
) -> jax.Array:
    """Residuals ``(n,)`` about the common level of neighbouring cells, in their noise scales.

    Args:
      residual: ``(n,)`` of the law.
      one: ``(n,)`` the constant, by the rows' weights.
      scale: ``(K,)`` noise scales.
      keep: ``(n,)`` bool, rows whose levels are asked.
      cell: ``(n,)`` int; ``K`` in rows out of use.
      num_cells: cells in use.
      negligible: part of every residual that does not matter.
    """
    kept = jnp.where(keep, one, 0.0)
    moments = jnp.stack([kept * residual, kept * one], 1)
    total, square = cell_sums.cell_totals(moments, cell, len(scale)).T
    level = levels_nearby(total / jnp.where(square > 0, square, 1.0), num_cells)
    size = medians.per_row(scale, cell)
    about = residual - one * medians.per_row(level, cell)
    about = about - jnp.clip(about, -negligible * one, negligible * one)
    return jnp.clip(about / jnp.where(size > 0, size, 1.0), -_CLIP, _CLIP)


def _rate(share: jax.Array) -> jax.Array:
    """The rate at which the best sum of scores less the toll falls off, the root of
    ``E exp(rate (score - toll)) = 1``, of scores with ``share (_BINS,)`` in their bins."""
    # Scores count as the upper end of their bin: the rate is none too large.
    step = 2 * _CLIP / _BINS
    drift = jnp.asarray(-_CLIP - _TOLL + step * np.arange(1, _BINS + 1), share.dtype)

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        middle = 0.5 * (low + high)
        below = jnp.sum(share * jnp.exp(middle * drift)) <= 1
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    ends = (jnp.zeros((), share.dtype), jnp.full((), _LARGEST_RATE, share.dtype))
    return lax.fori_loop(0, _BISECTIONS, halve, ends)[0]


def _best_segment(
    score: jax.Array, asked: jax.Array, possible: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The segment of the largest sum of scores less the toll, and that sum."""
    position = jnp.arange(len(possible), dtype=jnp.int32)
    running = extremes.running_sum(jnp.where(asked, score, -_CLIP) - _TOLL)
    low = extremes.running_min(jnp.where(possible, running, jnp.inf))
    rise = jnp.where(possible, running - low, -jnp.inf)
    stop = extremes.first_max(rise)
    before = possible & (position <= stop)
    return extremes.first_max(jnp.where(before, -running, -jnp.inf)), stop, rise[stop]


def _stands_alone(
    score: jax.Array, asked: jax.Array, start: jax.Array, stop: jax.Array
) -> jax.Array:
    """Whether the rows beside a run, and those in it, are not far off too, on either side."""
    row = jnp.arange(len(score), dtype=jnp.int32)
    reach = jnp.maximum(stop - start, _LEAST_BESIDE)
    within = (row >= start) & (row < stop)
    beside = (row >= start - reach) & (row < stop + reach) & ~within
    far = asked & ((beside & (jnp.abs(score) > _FAR)) | (within & (score < -_FAR)))
    return _BESIDE * jnp.sum(far, dtype=jnp.int32) <= reach


def _rows_as_one(score: jax.Array, alone: jax.Array) -> jax.Array:
    """Rows that count as one by the correlation of neighbours among ``alone (n,)``, of an
    autoregression; those of a run would correlate by what they have in common."""
    used = jnp.where(alone, score, 0.0)
    count = jnp.maximum(jnp.sum(alone), 1).astype(score.dtype)
    square = jnp.sum(used**2)
    rho = jnp.sum(used[1:] * used[:-1]) / jnp.where(square > 0, square, 1.0)
    rho = jnp.where(rho * jnp.sqrt(count) > _CORRELATED, jnp.clip(rho, 0.0, _LARGEST_RHO), 0.0)
    return (1 + rho) / (1 - rho)


def find_narrow_run(
    score: jax.Array, asked: jax.Array, possible: jax.Array, shared: jax.Array
) -> NarrowRun:
    """The run of rows that stands out most on one side of the law.

    Sums of scores less a toll drift down, and their largest rise from some place on exceeds ``w``
    with probability ``exp(-rate w)`` at most; all places where a run may begin pay for the search,
    and so do the two sides.

    Args:
      score: ``(n,)`` of rows along the axis, at most ``_CLIP`` in size.
      asked: ``(n,)`` bool, rows that may belong to a run.
      possible: ``(n + 1,)`` bool, positions where a run may begin and end.
      shared: most rows that count as one, where they depend on each other.
    """
    dtype = score.dtype
    count = jnp.maximum(jnp.sum(asked), 1).astype(dtype)
    bin_of = jnp.clip(((score + _CLIP) * (_BINS / (2 * _CLIP))).astype(jnp.int32), 0, _BINS - 1)
    bin_of = jnp.where(asked, bin_of, _BINS)
    share = cell_sums.cell_totals(jnp.ones((len(score), 1), dtype), bin_of, _BINS)[:, 0] / count
    places = jnp.maximum(jnp.sum(possible), 1).astype(dtype)

    def one_side(sign: jax.Array) -> NarrowRun:
        start, stop, rise = _best_segment(sign * score, asked, possible)
        rate = _rate(jnp.where(sign > 0, share, share[::-1]))
        row = jnp.arange(len(score), dtype=jnp.int32)
        others = asked & ((row < start) | (row >= stop))
        as_one = jnp.minimum(shared, _rows_as_one(score, others))
        gain = rate * rise / as_one - jnp.log(2 * places)
        usable = stop - start >= _FEWEST
        usable = usable & _stands_alone(sign * score, asked, start, stop)
        return NarrowRun(start, stop, jnp.where(usable, jnp.maximum(gain, 0.0), 0.0))

    both = lax.map(one_side, jnp.array([1.0, -1.0], dtype))
    best = jnp.argmax(both.gain)
    some = both.gain[best] > 0
    return NarrowRun(*(jnp.where(some, part[best], 0).astype(part.dtype) for part in both))
