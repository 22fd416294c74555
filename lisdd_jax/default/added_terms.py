"""The physics with and without added columns, on one set of rows: ordinary F and HC3."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.floor import Floor, beyond_rounding, beyond_size, wald_beyond_size
from lisdd_jax.default.local_fits import LARGEST_LEVERAGE
from lisdd_jax.numerics import normal_equations, scaling, tolerances
from lisdd_jax.statistics.f_tests import FRatio, f_ratio


class Physics(NamedTuple):
    """The law on some rows.

    Attributes:
      step: ``(p,)`` from the first fit, in the frame.
      covariance: ``(p, p)``.
      variance: of the noise.
      num_rows: rows fitted.
    """

    step: jax.Array
    covariance: jax.Array
    variance: jax.Array
    num_rows: jax.Array


class Added(NamedTuple):
    """Physics and ``c`` added columns of unit norm.

    Attributes:
      physics: the law without the added columns.
      coefficients: ``(c,)`` of the added columns.
      covariance, robust_covariance: ``(c, c)``, ordinary and HC3.
      variance: of the noise.
      ordinary, robust: partial F ratio of all added columns, and its HC3 Wald form.
    """

    physics: Physics
    coefficients: jax.Array
    covariance: jax.Array
    robust_covariance: jax.Array
    variance: jax.Array
    ordinary: FRatio
    robust: FRatio


def fit_added(
    basis: jax.Array,
    residual: jax.Array,
    columns: jax.Array,
    mask: jax.Array,
    floor: Floor,
) -> Added:
    """Fit the physics with and without added columns.

    Args:
      basis: ``(n, p)`` physics in the frame.
      residual: ``(n,)`` response about a first fit.
      columns: ``(n, c)``.
      mask: ``(n,)`` bool, rows to use.
      floor: what is no evidence.

    Returns:
      An ``Added``; its ratios are undefined where no column is independent or no rows are left.
    """
    size = basis.shape[1]
    design = jnp.where(mask[:, None], jnp.concatenate([basis, columns], axis=1), 0.0)
    residual = jnp.where(mask, residual, 0.0)
    norm = scaling.column_norms(design).at[:size].set(1.0)
    design = design / norm
    gram, cross = design.T @ design, design.T @ residual
    tolerance = tolerances.gram(gram.dtype)
    law = normal_equations.sweep(gram[:size, :size], cross[:size], tolerance)
    fit = normal_equations.sweep(gram, cross, tolerance)
    num_rows = jnp.sum(mask)
    rank_law, rank = jnp.sum(law.independent), jnp.sum(fit.independent)
    df_den = jnp.maximum(num_rows - rank, 0)
    left = residual - design @ fit.solution
    variance = jnp.sum(left**2) / jnp.maximum(df_den, 1) + floor.variance
    gain = fit.solution @ cross - law.solution @ cross[:size]
    num_touched = jnp.sum(jnp.any(design[:, size:] != 0, axis=1)).astype(gain.dtype)
    gain = beyond_size(beyond_rounding(gain, jnp.sum(residual**2)), num_touched, floor)
    leverage = jnp.minimum(jnp.sum((design @ fit.inverse) * design, axis=1), LARGEST_LEVERAGE)
    weighted = design * (left / (1 - leverage))[:, None]
    robust = (fit.inverse @ (weighted.T @ weighted) @ fit.inverse)[size:, size:]
    added = fit.solution[size:]
    wald, rank_robust = normal_equations.quadratic_form(robust, added)
    wald = wald_beyond_size(wald, num_touched, variance, floor)
    dof = jnp.maximum(num_rows - rank_law, 1)
    variance_law = jnp.sum((residual - design[:, :size] @ law.solution) ** 2) / dof
    return Added(
        physics=Physics(law.solution, law.inverse * variance_law, variance_law, num_rows),
        coefficients=added,
        covariance=fit.inverse[size:, size:] * variance,
        robust_covariance=robust,
        variance=variance,
        ordinary=f_ratio(gain, rank - rank_law, df_den, variance=variance),
        robust=f_ratio(wald, rank_robust, df_den),
    )
