"""Stages 3 and 4 with smooth choices: weights on all supports, and the test under them.

Everything is made of weighted sums of products of the rows, so that it is smooth in the weights.
The features are scaled to unit size first.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.numerics import normal_equations, tolerances
from lisdd_jax.statistics.f_tests import f_ratio, log_p_values

# Below this share of the best error a support's error is rounding.
_SMALLEST_SHARE = 1e-6


class SupportFits(NamedTuple):
    """Every support fitted to weighted sums of products.

    Attributes:
      coefficients: ``(S, L)``, 0 off the support.
      independent: ``(S,)`` bool, no column in the span of the others.
    """

    coefficients: jax.Array
    independent: jax.Array


def _fit_supports(products: jax.Array, table: np.ndarray) -> SupportFits:
    """Least squares of the last column on those of every support; products ``(L + 1, L + 1)``."""
    tolerance = tolerances.gram(products.dtype)

    def one(support: jax.Array) -> SupportFits:
        gram = jnp.where(support[:, None] & support[None], products[:-1, :-1], 0.0)
        moment = jnp.where(support, products[:-1, -1], 0.0)
        fit = normal_equations.sweep(gram, moment, tolerance)
        return SupportFits(fit.solution, jnp.all(fit.independent == support))

    return jax.vmap(one)(jnp.asarray(table))


def weighted_products(columns: jax.Array, weight: jax.Array) -> jax.Array:
    """Sums of products ``(m, m)`` of columns ``(n, m)`` with row weights ``(n,)``."""
    return columns.T @ (columns * weight[:, None])


def holdout_errors(
    fit_products: jax.Array, score_products: jax.Array, num_score: jax.Array, table: np.ndarray
) -> jax.Array:
    """Mean squared error on the score rows of every support fitted to the fit rows.

    Args:
      fit_products, score_products: ``(L + 1, L + 1)``, terms and then residuals.
      num_score: weight of the score rows.
      table: ``(S, L)`` bool.

    Returns:
      ``(S,)``; inf where a support has dependent columns.
    """
    fits = _fit_supports(fit_products, table)
    ones = jnp.ones((len(table), 1), fits.coefficients.dtype)
    directions = jnp.concatenate([-fits.coefficients, ones], axis=1)
    sums = jnp.einsum("si,ij,sj->s", directions, score_products, directions)
    floor = tolerances.HOLDOUT_TIE(sums.dtype) ** 2 * score_products[-1, -1]
    usable = fits.independent & (num_score > 0)
    errors = (jnp.maximum(sums, 0.0) + floor) / jnp.where(num_score > 0, num_score, 1.0)
    return jnp.where(usable, errors, jnp.inf)


def support_weights(
    errors: jax.Array, sizes: np.ndarray, tolerance: jax.Array, temperature: jax.Array
) -> jax.Array:
    """Weights on supports that tend to the hard choice as the temperature falls.

    With ``rho = log(error / best) / log(1 + tolerance)``, in [0, 1] for supports within the
    tolerance, ``size + rho`` orders them as the hard rule does: by size, then by error. The weights
    are a softmax of it; supports beyond the tolerance pay ``softplus((rho - 1) / T^2)`` as well,
    which outgrows any difference of sizes.

    Args:
      errors: ``(S,)``, inf where unusable.
      sizes: ``(S,)`` numbers of terms.
      tolerance: relative excess of error within which a smaller support wins.
      temperature: positive.

    Returns:
      ``(S,)`` that sum to one; all equal where no support is usable.
    """
    usable = jnp.isfinite(errors) & (errors > 0)
    logs = jnp.log(jnp.where(usable, errors, 1.0))
    unit = jnp.maximum(jnp.log1p(tolerance), _SMALLEST_SHARE)
    soft = temperature * unit
    best = -soft * jax.nn.logsumexp(jnp.where(usable, -logs / soft, -jnp.inf))
    best = jnp.where(jnp.any(usable), best, 0.0)
    excess = (logs - best) / unit
    cost = (jnp.asarray(sizes, excess.dtype) + excess) / temperature
    cost = cost + jax.nn.softplus((excess - 1) / temperature**2)
    return jax.nn.softmax(jnp.where(usable | ~jnp.any(usable), -cost, -jnp.inf))


def average_coefficients(products: jax.Array, table: np.ndarray, weights: jax.Array) -> jax.Array:
    """Coefficients ``(L,)`` of all supports, each fitted to the products, under their weights."""
    return weights @ _fit_supports(products, table).coefficients


class SoftTest(NamedTuple):
    """Averages over supports of the partial F statistic and of its log p-value."""

    statistic: jax.Array
    log_p_value: jax.Array


def average_f_test(
    products: jax.Array, num_rows: jax.Array, size: int, table: np.ndarray, weights: jax.Array
) -> SoftTest:
    """Partial F-tests of every support's columns beyond the physics, under weights.

    Args:
      products: ``(p + L + 1, p + L + 1)``: physics, added columns, response.
      num_rows: rows held out.
      size: ``p`` (static).
      table: ``(S, L)`` bool.
      weights: ``(S,)``.

    Returns:
      A ``SoftTest``; supports without independent columns or degrees of freedom count as
      statistic 0 and log p-value 0.
    """
    tolerance = tolerances.gram(products.dtype)
    inner, moment, square = products[:-1, :-1], products[:-1, -1], products[-1, -1]

    def left(chosen: jax.Array) -> tuple[jax.Array, jax.Array]:
        gram = jnp.where(chosen[:, None] & chosen[None], inner, 0.0)
        cross = jnp.where(chosen, moment, 0.0)
        fit = normal_equations.sweep(gram, cross, tolerance)
        return square - fit.solution @ cross, jnp.sum(fit.independent)

    physics = jnp.arange(inner.shape[0]) < size
    alone, rank = left(physics)

    def one(support: jax.Array) -> tuple[jax.Array, jax.Array]:
        rest, larger_rank = left(jnp.concatenate([physics[:size], support]))
        df_num, df_den = larger_rank - rank, num_rows - larger_rank
        defined = (df_num > 0) & (df_den > 0) & (rest > 0)
        variance = rest / jnp.maximum(df_den, 1).astype(rest.dtype)
        ratio = f_ratio(
            jnp.where(defined, alone - rest, 0.0),
            jnp.where(defined, df_num, 0),
            df_den,
            variance=jnp.where(defined, variance, 1.0),
        )
        (log_p,) = log_p_values(ratio)
        return ratio.statistic, jnp.where(defined, log_p, 0.0)

    statistics, log_p = jax.vmap(one)(jnp.asarray(table))
    return SoftTest(weights @ statistics, weights @ log_p)
