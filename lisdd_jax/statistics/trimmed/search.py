"""The search for a least-trimmed-squares fit: random starts and concentration steps.

FAST-LTS (Rousseeuw and Van Driessen, 2006): many fits to a minimal random subset, a few
concentration steps each, the best ones to convergence. With many rows the starts are ranked on a
subsample, the best ones make two steps on all rows, and the two that lead then go on there.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.numerics import order
from lisdd_jax.numerics.batches import each
from lisdd_jax.numerics.float_order import greatest
from lisdd_jax.statistics.trimmed import concentration, starts
from lisdd_jax.statistics.trimmed.starts import Columns
from lisdd_jax.status import Status, first_failure, status_if

_FIRST_STEPS = 2
# On a subsample steps are cheap, and each saves one on all rows.
_SUBSAMPLE_STEPS = 5
_NUM_LEADING = 2
_GLANCE_STEPS = 1
_KEPT_PER_BEST = 5
"""Of many starts all make one step on the subsample, and so many for each that is to be found go
on: what they find is no worse than where all go on (docs/evidence.md)."""

FULL_SEARCH_ROWS = 600
"""Rows up to which starts are judged on all of them."""


class _Single(NamedTuple):
    """Rows in single precision, which is enough to rank, and the unit of their response."""

    rows: Columns
    unit: jax.Array

    @classmethod
    def of(cls, rows: Columns) -> "_Single":
        largest = greatest(jnp.abs(rows.response))
        unit = jnp.where(largest > 0, largest, 1.0)
        response = (rows.response / unit).astype(jnp.float32)
        return cls(starts.make_columns(rows.basis.astype(jnp.float32), response, rows.usable), unit)

    def enter(self, values: Any) -> Any:
        """Numbers in the unit of the response as single ones."""
        return jax.tree.map(lambda part: (part / self.unit).astype(jnp.float32), values)

    def leave(self, values: Any) -> Any:
        """The reverse."""
        return jax.tree.map(lambda part: part.astype(self.unit.dtype) * self.unit, values)

    def rank(
        self,
        candidates: concentration.Candidates,
        good: jax.Array | bool,
        num: jax.Array,
        num_steps: int,
        num_best: int,
    ) -> concentration.Candidates:
        """The best candidates, single numbers, after a few rough steps."""
        pick = concentration.pick_roughly
        moved = concentration.first_steps(self.rows, candidates, num, num_steps, pick)
        return concentration.best_of(moved, good, num_best)


FramedRows = tuple[jax.Array, jax.Array, jax.Array]
"""Basis ``(n, p)`` in a frame, response ``(n,)`` less its offset, and mask ``(n,)``."""


class Found(NamedTuple):
    """Solution ``(p,)`` in the basis, objective, and status."""

    solution: jax.Array
    objective: jax.Array
    status: jax.Array


class _Ready(NamedTuple):
    """Rows with their random numbers, the positions of those in use, and how many to keep."""

    rows: Columns
    table: jax.Array
    num_rows: jax.Array
    num: jax.Array
    draws: starts.Draws


def _make_ready(sample: FramedRows, trim: jax.Array | float, draws: starts.Draws) -> _Ready:
    basis, response, mask = sample
    table, count = starts.row_table(mask)
    return _Ready(
        starts.make_columns(basis.T, response, mask),
        table,
        count,
        order.num_kept(count, trim, basis.dtype),
        draws,
    )


def _rank_on_subsample(
    judge: Columns, draws: starts.Draws, trim: jax.Array | float, num_best: int
) -> tuple[concentration.Candidates, jax.Array]:
    """The best starts on a subsample, and whether there are any."""
    everyone = jnp.arange(judge.response.shape[0], dtype=jnp.int32)
    count = jnp.sum(judge.usable, dtype=jnp.int32)
    num = order.num_kept(count, trim, judge.response.dtype)
    solutions, good = starts.make_starts(draws, judge, everyone, count)
    single = _Single.of(judge)
    start = concentration.unjudged(single.rows, single.enter(solutions))
    leading, num_kept = good, num_best * _KEPT_PER_BEST
    if len(solutions) > num_kept:
        start = single.rank(start, good, num, _GLANCE_STEPS, num_kept)
        leading = jnp.isfinite(start.objective)
    best = single.rank(start, leading, num, _SUBSAMPLE_STEPS, num_best)
    return single.leave(best), jnp.any(good)


def _rank_on_all_rows(ready: _Ready, num_best: int) -> tuple[concentration.Candidates, jax.Array]:
    rows = ready.rows
    solutions, good = starts.make_starts(ready.draws, rows, ready.table, ready.num_rows)
    first = concentration.first_steps(
        rows,
        concentration.unjudged(rows, solutions),
        ready.num,
        _FIRST_STEPS,
        concentration.pick_exactly,
    )
    return concentration.best_of(first, good, num_best), jnp.any(good)


def _finish(
    ready: _Ready,
    chosen: concentration.Candidates,
    num_active: jax.Array | int,
    some_good: jax.Array,
) -> Found:
    solution, objective, unfinished = concentration.converge(
        ready.rows, chosen, ready.num, num_active
    )
    status = first_failure(
        status_if(~some_good, Status.DEGENERATE_STARTS),
        status_if(unfinished, Status.ITERATION_LIMIT),
    )
    return Found(solution, objective, status)


def search_each(
    keys: Sequence[jax.Array],
    samples: Sequence[FramedRows],
    trim: jax.Array | float,
    *,
    num_starts: int,
    num_candidates: int = 20,
    subsample_size: int = 300,
    full_search_rows: int = FULL_SEARCH_ROWS,
) -> list[Found]:
    """Search the fits of several samples, which may differ in their numbers of rows.

    Subsamples have one size: starts on them are ranked for all samples at once.

    Args:
      keys: typed keys.
      samples: as many samples.
      trim: share of rows left out.
      num_starts, num_candidates, subsample_size, full_search_rows: sizes of the search (static).

    Returns:
      What was found for each.
    """
    num_best = min(num_candidates, num_starts)
    large = [mask.shape[0] > full_search_rows for _, _, mask in samples]
    size, amounts = samples[0][0].shape[1], [subsample_size if part else 0 for part in large]
    # A generator costs as much by its calls as by its numbers.
    if len(set(amounts)) == 1:
        draws = each(lambda key: starts.draw(key, amounts[0], num_starts, size), keys)
    else:
        draws = [starts.draw(*pair, num_starts, size) for pair in zip(keys, amounts, strict=True)]
    ready = [_make_ready(sample, trim, part) for sample, part in zip(samples, draws, strict=True)]
    sampled = [part for part, is_large in zip(ready, large, strict=True) if is_large]
    judged = [
        (starts.subsample(part.draws, part.rows, part.table, part.num_rows), part.draws)
        for part in sampled
    ]
    ranked = iter(each(lambda pair: _rank_on_subsample(pair[0], pair[1], trim, num_best), judged))
    found = []
    for part, is_large in zip(ready, large, strict=True):
        if not is_large:
            chosen, some_good = _rank_on_all_rows(part, num_best)
            found.append(_finish(part, chosen, num_best, some_good))
            continue
        chosen, some_good = next(ranked)
        single = _Single.of(part.rows)
        best = single.rank(single.enter(chosen), True, part.num, _FIRST_STEPS, num_best)
        chosen = single.leave(best)
        # Of few rows, padded to this shape, minima lie too close for a rough ranking.
        num_active = jnp.where(part.num_rows <= full_search_rows, num_best, _NUM_LEADING)
        found.append(_finish(part, chosen, num_active, some_good))
    return found


def search_one(key: jax.Array, sample: FramedRows, trim: jax.Array | float, **sizes: int) -> Found:
    """``search_each`` for one sample."""
    return search_each([key], [sample], trim, **sizes)[0]
