"""Runs of rows too short for cells to show (docs/method.md, section 3.4).

A few rows of a cell that lie far off together pass for its gross errors, or for its noise. Scored
one by one along the axis they stand out: gross errors come in any order.

References:
  Karlin and Altschul (1990), Methods for assessing the statistical significance of molecular
  sequence features by using general scoring schemes, PNAS 87.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.default.cells import SortedCells
from lisdd_jax.default.row_scores import CLIP, Scores
from lisdd_jax.numerics import cell_sums, extremes
from lisdd_jax.numerics.hosted import namespace

_TOLL = 1.5
"""Noise scales that a row of a run must lie off to speak for it: what a law that holds nearly is
off by, or a slope within a cell, is less."""

_FEWEST = 3
"""Rows of the shortest run."""

MOST_RUNS = 4
"""Runs sought one after the other: as many as a result has regions by default."""

_GAP = 3.0
"""How much more a row short of the toll speaks against a run than one beyond it for it: gross
errors that stand together leave rows between them where they were, a wrong law does not."""

_BESIDE, _LENT = 8, 4
"""Rows at least that are looked at beside a run for gross errors, and that all others lend to
them."""

_CORRELATED, _LARGEST_RHO = 2.0, 0.95
"""Standard errors from which a correlation of neighbours counts, and the largest."""

_BINS = 64
_RATES = np.geomspace(0.05, 20.0, 48)
"""Rates between which that of the data is found."""


class NarrowRun(NamedTuple):
    """A run of rows that stands out, or several ``(...)``.

    Attributes:
      start, stop: int32, first row and the one after the last; both 0 where there is none.
      gain: nats, its search paid for: under the law they are exceeded with probability
        ``exp(-gain)`` at most; 0 where there is none.
    """

    start: Any
    stop: Any
    gain: Any

    def rows(self, num: int) -> Any:
        """Rows of any of them, ``(num,)`` bool; of NumPy where they are."""
        xp = namespace(self.start)
        row = xp.arange(num, dtype=np.int32)[None]
        start, stop = (xp.reshape(end, (-1, 1)) for end in (self.start, self.stop))
        return xp.any((row >= start) & (row < stop), 0)

    def of_cells(self, bounds: Any) -> Any:
        """Cells, of first rows ``bounds (K + 1,)``, that hold rows of each of ``(M,)``, bool."""
        start, stop, bounds = self.start[:, None], self.stop[:, None], bounds[None]
        return (bounds[:, :-1] < stop) & (bounds[:, 1:] > start) & (stop > start)


def cells_to_search(clean: jax.Array, num: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cells in which a run may lie, and those of them that are excluded, ``(K,)`` bool.

    Beside excluded cells rows may be of a region, whose ends will tell. But one or two cells may
    be excluded for a run in them.

    Args:
      clean: ``(K,)`` bool, cells of the law.
      num: cells in use.
    """
    used = jnp.arange(len(clean), dtype=jnp.int32) < num
    bad = jnp.pad(used & ~clean, 2)
    here, before, after = bad[2:-2], bad[1:-3], bad[3:-1]
    long = here & ((before & bad[:-4]) | (before & after) | (after & bad[4:]))
    short = here & ~long
    return short | (used & clean & ~before & ~after), short


def is_narrow(run: NarrowRun, excluded: jax.Array, cells: SortedCells) -> jax.Array:
    """Whether a run is far narrower than cells ``excluded (K,)`` that hold an end of it.

    Else those cells are the better place: rows at soft ends say nothing for a run.
    """
    first, last = (cells.of_row[row] for row in (run.start, jnp.maximum(run.stop - 1, 0)))
    held = cells.bounds[last + 1] - cells.bounds[first]
    return ~(excluded[first] | excluded[last]) | (2 * (run.stop - run.start) < held)


def _for_a_run(score: Any) -> Any:
    """What scores, of NumPy or traced, say for a run to their side."""
    beyond = score - _TOLL
    return namespace(score).where(beyond > 0, beyond, _GAP * beyond)


def _rate(share: jax.Array) -> jax.Array:
    """The rate at which the best sum of what rows say falls off, the root of
    ``log E exp(rate said) = 0``, of scores with ``share (_BINS,)`` in their bins.

    The logarithm is convex: a chord of it between two rates has a smaller root.
    """
    # Scores count as the upper end of their bin: the rate is none too large.
    ends = -CLIP + 2 * CLIP / _BINS * np.arange(1, _BINS + 1)
    powers = np.exp(_RATES[:, None] * _for_a_run(ends))
    value = jnp.log(jnp.matmul(jnp.asarray(powers, share.dtype), share, precision="highest"))
    place = jnp.minimum(jnp.sum(value <= 0, dtype=jnp.int32), len(_RATES) - 1)
    rates = jnp.asarray(_RATES, share.dtype)
    low, high = value[jnp.maximum(place - 1, 0)], value[place]
    low, begin = (jnp.where(place > 0, part, 0.0) for part in (low, rates[place - 1]))
    part = jnp.where(high > 0, -low / jnp.where(high > low, high - low, 1.0), 1.0)
    return begin + part * (rates[place] - begin)


def _best_segment(
    score: jax.Array, asked: jax.Array, possible: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The segment whose rows say most for a run, and what they say."""
    position = jnp.arange(len(possible), dtype=jnp.int32)
    running = extremes.running_sum(_for_a_run(jnp.where(asked, score, -CLIP)))
    low = extremes.running_min(jnp.where(possible, running, jnp.inf))
    rise = jnp.where(possible, running - low, -jnp.inf)
    stop = extremes.first_max(rise)
    before = possible & (position <= stop)
    return extremes.first_max(jnp.where(before, -running, -jnp.inf)), stop, rise[stop]


def _in_bins(score: jax.Array, used: jax.Array) -> jax.Array:
    """Rows of every bin of scores, ``(_BINS,)``."""
    place = jnp.clip(((score + CLIP) * (_BINS / (2 * CLIP))).astype(jnp.int32), 0, _BINS - 1)
    ones = jnp.ones((len(score), 1), score.dtype)
    return cell_sums.cell_totals(ones, jnp.where(used, place, _BINS), _BINS)[:, 0]


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
    score: Scores, asked: jax.Array, possible: jax.Array, shared: jax.Array
) -> NarrowRun:
    """The run of rows that stands out most on one side of the law.

    Sums of what rows say drift down, and their largest rise from some place on exceeds ``w`` with
    probability ``exp(-rate w)`` at most; all places where a run may begin pay for the search, and
    so do the two sides. Where rows beside the run lie far off as well, the rate is theirs.

    Args:
      score: of rows along the axis, at most ``CLIP`` in size.
      asked: ``(n,)`` bool, rows that may belong to a run.
      possible: ``(n + 1,)`` bool, positions where a run may begin and end.
      shared: most rows that count as one, where they depend on each other.
    """
    dtype, row = score.row.dtype, jnp.arange(len(score.row), dtype=jnp.int32)
    places = jnp.maximum(jnp.sum(possible), 1).astype(dtype)

    def one_side(sign: jax.Array) -> NarrowRun:
        side = sign * score.row
        start, stop, rise = _best_segment(side, asked, possible)
        inside = (row >= start) & (row < stop)
        others = asked & ~inside
        reach = jnp.maximum(stop - start, _BESIDE)
        near = others & (row >= start - reach) & (row < stop + reach)
        share = _in_bins(side, asked)
        share = share / jnp.maximum(jnp.sum(share), 1)
        # Gross errors come in clusters too, and those of one sign may stand side by side there.
        beside = _in_bins(jnp.abs(score.bold), near)
        local = (beside + _LENT * share) / (jnp.sum(beside) + _LENT)
        rate = jnp.minimum(_rate(share), _rate(local))
        as_one = jnp.minimum(shared, _rows_as_one(score.row, others))
        gain = rate * rise / as_one - jnp.log(2 * places)
        usable = stop - start >= _FEWEST
        return NarrowRun(start, stop, jnp.where(usable, jnp.maximum(gain, 0.0), 0.0))

    both = lax.map(one_side, jnp.array([1.0, -1.0], dtype))
    best = jnp.argmax(both.gain)
    some = both.gain[best] > 0
    return NarrowRun(*(jnp.where(some, part[best], 0).astype(part.dtype) for part in both))


def find_narrow_runs(
    score: Scores,
    asked: jax.Array,
    possible: jax.Array,
    shared: jax.Array,
    least: jax.Array,
    counts: Callable[[NarrowRun], jax.Array],
) -> NarrowRun:
    """Runs that stand out one after the other, each beside the rows of those before.

    A further one is sought only where the last one stood out, so that the level is kept.

    Args:
      score, asked, possible, shared: as for ``find_narrow_run``.
      least: nats from which a run stands out.
      counts: whether one that does is to be a region.

    Returns:
      ``(MOST_RUNS,)``; those that do not count are empty.
    """
    num, place = len(score.row), jnp.arange(MOST_RUNS, dtype=jnp.int32)

    def body(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        step, _, asked, *found = state
        run = find_narrow_run(score, asked, possible, shared)
        stands = run.gain > least
        own = (place == step) & stands & counts(run)
        found = [jnp.where(own, new, old) for new, old in zip(run, found, strict=True)]
        return step + 1, stands, asked & ~run.rows(num), *found

    none, gain = jnp.zeros(MOST_RUNS, jnp.int32), jnp.zeros(MOST_RUNS, score.row.dtype)
    begin: tuple[Any, ...] = (jnp.int32(0), jnp.ones((), bool), asked, none, none, gain)
    _, _, _, *found = lax.while_loop(lambda s: (s[0] < MOST_RUNS) & s[1], body, begin)
    return NarrowRun(*found)
