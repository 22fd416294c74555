"""Evidence per cell or region: the residual energy (docs/method.md, equation 7)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.dataset import Dataset
from lisdd_jax.numerics import normal_equations, order, tails
from lisdd_jax.statistics.f_tests import f_ratio, log_p_values


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


def energy_of_regions(
    residuals: jax.Array, data: Dataset, inside: jax.Array
) -> tuple[CellTest, jax.Array]:
    """The published test, and the scale of all residuals."""
    scale = order.median_absolute_deviation(residuals, data.mask)
    energy = jnp.sum(jnp.where(inside, residuals[None] ** 2, 0.0), axis=1)
    return energy_test(energy, jnp.sum(inside, axis=1), scale), scale


def predictive_test(
    residuals: jax.Array, data: Dataset, clean: jax.Array, inside: jax.Array
) -> tuple[CellTest, jax.Array]:
    """Every region against the clean rows outside of it, and the scale of the clean rows.

    ``F = ((S_both - S_rest) / n) / (S_rest / (n_rest - p))`` with the residual sums of the physics
    on those rows with and without the region's ``n``: exact for Gaussian noise, as it accounts for
    the estimation of physics and scale. The statistic is ``n F``.
    """
    size = data.basis.shape[1]
    columns = jnp.column_stack([data.basis, residuals])
    rest = clean[None] & ~inside
    rows = jnp.concatenate([rest, rest | inside, clean[None]]).astype(columns.dtype)
    products = (columns[:, :, None] * columns[:, None, :]).reshape(len(columns), -1)
    sums = (rows @ products).reshape(-1, size + 1, size + 1)
    left, rank = normal_equations.left_over(
        sums[:, :size, :size], sums[:, :size, size], sums[:, size, size]
    )
    without, both, clean_sum = jnp.split(left, [len(rest), 2 * len(rest)])
    count = jnp.sum(inside, axis=1)
    df_den = jnp.sum(rest, axis=1) - size
    testable = (rank[: len(rest)] == size) & (df_den > 0) & (without > 0)
    variance = without / jnp.maximum(df_den, 1).astype(without.dtype)
    ratio = f_ratio(
        jnp.maximum(both - without, 0.0),
        jnp.where(testable, count, 0),
        df_den,
        variance=jnp.where(testable, variance, 1.0),
    )
    (log_p,) = log_p_values(ratio)
    statistic = jnp.where(ratio.defined, ratio.statistic * ratio.df_num, jnp.nan)
    freedom = jnp.maximum(jnp.sum(clean) - size, 1).astype(without.dtype)
    return CellTest(statistic, log_p), jnp.sqrt(clean_sum[0] / freedom)
