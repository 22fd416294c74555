"""Runs of flagged groups as spans of sorted rows, with the room in which their edges may move."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.regime import Regime
from lisdd_jax.statistics import runs as cell_runs


class Spans(NamedTuple):
    """Runs as half-open spans of row positions, each ``(K,)``; 0 in slots out of use.

    Attributes:
      present: bool.
      start, stop: the run.
      low, high: the window for its edges.
      at_first, at_last: bool, the run reaches the first or last group.
    """

    present: jax.Array
    start: jax.Array
    stop: jax.Array
    low: jax.Array
    high: jax.Array
    at_first: jax.Array
    at_last: jax.Array


def region_slots(num_cells: int, max_regions: int) -> int:
    """Region slots of the default method."""
    return min(max_regions, cell_runs.num_slots(num_cells))


def _strongest(flagged: jax.Array, score: jax.Array, slots: int) -> cell_runs.Runs:
    """The runs with most evidence, in the order of the axis."""
    runs = cell_runs.flagged_runs(flagged)
    # The added constant keeps a run whose approximate scores are all below zero.
    strength = cell_runs.run_sum(jnp.maximum(score, 0.0) ** 2 + 1e-3, runs)
    order = jnp.where(runs.present, strength, -jnp.inf)
    rank = jnp.sum(order[None, :] > order[:, None], axis=1)
    kept = runs.present & (rank < slots)
    (place,) = jnp.nonzero(kept, size=slots, fill_value=0)
    present = jnp.arange(slots) < jnp.sum(kept)
    first, last = (jnp.where(present, ends[place], 0) for ends in (runs.first, runs.last))
    return cell_runs.Runs(first, last, present)


def make_spans(
    regime: Regime, group_start: jax.Array, num_groups: jax.Array, slots: int, reach: int
) -> Spans:
    """The flagged runs as spans of rows.

    Args:
      regime: the clean regime.
      group_start: ``(R + 1,)`` position of the first row of every group.
      num_groups: groups in use.
      slots: region slots (static).
      reach: groups beyond a run that its edges may enter, up to the next run (static).

    Returns:
      A ``Spans``.
    """
    score = jnp.where(regime.misfit.defined, regime.misfit.score(), 0.0)
    runs = _strongest(regime.flagged, score, slots)
    first, end = runs.first, runs.last + 1
    before = jnp.concatenate([jnp.zeros(1, first.dtype), end[:-1]])
    after = jnp.append(jnp.where(runs.present[1:], first[1:], num_groups), num_groups)
    low = jnp.maximum(first - reach, before)
    high = jnp.minimum(end + reach, after)

    def position(group: jax.Array) -> jax.Array:
        return jnp.where(runs.present, group_start[group], 0)

    return Spans(
        present=runs.present,
        start=position(first),
        stop=position(end),
        low=position(low),
        high=position(high),
        at_first=runs.present & (first == 0),
        at_last=runs.present & (end >= num_groups),
    )
