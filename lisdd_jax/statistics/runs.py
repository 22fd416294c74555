"""Runs of flagged cells, in slots of a fixed number."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Runs(NamedTuple):
    """Runs of flagged cells: first and last cell ``(K,)``, and which slots are in use."""

    first: jax.Array
    last: jax.Array
    present: jax.Array


def num_slots(num_cells: int) -> int:
    """The most runs that so many cells can hold."""
    return (num_cells + 1) // 2


def flagged_runs(flagged: jax.Array) -> Runs:
    """Maximal runs of flagged cells, in order, in ``num_slots`` slots.

    Args:
      flagged: ``(R,)`` bool.

    Returns:
      A ``Runs``; first and last are 0 in slots out of use.

    Example:
      >>> import jax, numpy as np
      >>> runs = jax.jit(flagged_runs)(np.array([True, True, False, True]))
      >>> runs.first.tolist(), runs.last.tolist()
      ([0, 3], [1, 3])
    """
    num_cells = flagged.shape[0]
    slots = num_slots(num_cells)
    before = jnp.concatenate([jnp.zeros(1, bool), flagged[:-1]])
    run = jnp.cumsum(flagged & ~before, dtype=jnp.int32) - 1
    target = jnp.where(flagged, run, slots)
    cells = jnp.arange(num_cells, dtype=jnp.int32)
    first = jnp.full(slots, num_cells, jnp.int32).at[target].min(cells, mode="drop")
    last = jnp.full(slots, -1, jnp.int32).at[target].max(cells, mode="drop")
    present = last >= 0
    return Runs(jnp.where(present, first, 0), jnp.where(present, last, 0), present)


def run_sum(values: jax.Array, runs: Runs) -> jax.Array:
    """Sum per-cell values ``(R,)`` over each run, ``(K,)``; 0 in slots out of use."""
    cells = jnp.arange(values.shape[0], dtype=jnp.int32)[None]
    inside = (cells >= runs.first[:, None]) & (cells <= runs.last[:, None])
    inside = inside & runs.present[:, None]
    return jnp.sum(jnp.where(inside, values[None], 0), axis=1, dtype=values.dtype)
