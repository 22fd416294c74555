"""Stage 2, where: evidence per cell, and the runs of flagged cells as regions."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.numerics import tails


class CellTest(NamedTuple):
    """Statistic and log tail probability per cell; NaN where a cell cannot be tested."""

    statistic: jax.Array
    log_p_value: jax.Array


def energy_test(energy: jax.Array, count: jax.Array, scale: jax.Array) -> CellTest:
    """Residual energy of cells against the noise scale.

    ``T = energy / scale^2`` is chi-square with ``count`` degrees of freedom for Gaussian noise of
    known scale and known physics. With both estimated the test is somewhat anti-conservative, and
    it takes larger noise for a wrong mean.

    Args:
      energy: ``(...)`` sum of squared residuals.
      count: ``(...)`` rows.
      scale: noise scale, broadcast against the others.

    Returns:
      A ``CellTest``; NaN for empty cells and where the scale is not positive.

    References:
      Wang, Localized and identifiable discovery of model discrepancy, equation (binstat).
    """
    testable = (count > 0) & (scale > 0)
    variance = jnp.where(testable, scale**2, 1.0)
    statistic = energy / variance
    log_p = tails.chi2_logsf(statistic, jnp.where(testable, count, 1).astype(energy.dtype))
    return CellTest(jnp.where(testable, statistic, jnp.nan), jnp.where(testable, log_p, jnp.nan))


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
      >>> import jax.numpy as jnp
      >>> runs = flagged_runs(jnp.array([True, True, False, True]))
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
    cells = jnp.arange(values.shape[0])
    inside = (cells >= runs.first[:, None]) & (cells <= runs.last[:, None])
    inside = inside & runs.present[:, None]
    return jnp.sum(jnp.where(inside, values, 0), axis=1, dtype=values.dtype)
