"""Evidence per cell: the residual energy against the noise scale (docs/method.md, equation 7)."""

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
