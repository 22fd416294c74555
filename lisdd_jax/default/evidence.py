"""Evidence per group of cells: does the law of the clean groups hold here?

Three tests of one group against the clean groups without it, each from the groups' sums.

* The local misfit F: the group's own coefficients on ``[1, axis, physics]`` against the law, on the
  pure-error scale of the groups' own residuals. Exact for Gaussian noise, and strong, because it
  looks in few directions.
* Its HC3 form, which holds its size where the noise is larger in the group than elsewhere.
* The predictive F of all the group's rows, which larger noise raises as well as a wrong mean.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.floor import Floor, beyond_rounding, beyond_size, wald_beyond_size
from lisdd_jax.default.local_fits import LocalFits
from lisdd_jax.numerics import normal_equations, tolerances
from lisdd_jax.statistics.f_tests import FRatio, f_ratio


def unless_contradicted(ordinary: jax.Array, robust: jax.Array) -> jax.Array:
    """Log p-value of an F test, or of its HC3 form at twice the level where that is larger.

    A deviation counts where the exact test sees it and the robust one does not contradict.
    """
    return jnp.fmax(ordinary, robust - jnp.log(2.0))


class Law(NamedTuple):
    """Physics on a set of groups: a step from the first fit, in the frame.

    Attributes:
      step: ``(p,)``.
      inverse: ``(p, p)`` of the Gram matrix.
      rank: directions determined.
    """

    step: jax.Array
    inverse: jax.Array
    rank: jax.Array


def total(weight: jax.Array, values: jax.Array) -> jax.Array:
    """Sum ``values (R, ...)`` over groups with ``weight (..., R)``."""
    return jnp.tensordot(weight, values, axes=1)


def fit_law(fits: LocalFits, clean: jax.Array) -> Law:
    """Least squares on the groups in ``clean (..., R)``."""
    weight = clean.astype(fits.num_rows.dtype)
    gram, cross = total(weight, fits.gram), total(weight, fits.cross)
    fit = normal_equations.sweep(gram, cross, tolerances.gram(gram.dtype))
    return Law(fit.solution, fit.inverse, jnp.sum(fit.independent, axis=-1))


def _with_and_without(
    fits: LocalFits, weight: jax.Array, square: jax.Array
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """``left_over`` of the clean groups without each group and with it, ``(..., R)``."""
    own = weight[..., None]
    gram = total(weight, fits.gram)[..., None, :, :] - own[..., None] * fits.gram
    cross = total(weight, fits.cross)[..., None, :] - own * fits.cross
    rest = total(weight, square)[..., None] - weight * square
    without = normal_equations.left_over(gram, cross, rest)
    return without, normal_equations.left_over(gram + fits.gram, cross + fits.cross, rest + square)


def local_misfit(fits: LocalFits, clean: jax.Array, floor: Floor) -> FRatio:
    """The local misfit F of every group against the clean groups without it.

    Args:
      fits: the groups' own fits.
      clean: ``(..., R)`` bool; leading axes are several candidate regimes.
      floor: what is no evidence.

    Returns:
      Ratios ``(..., R)``; undefined where the others do not determine the law, or the group has
      nothing to say about it.
    """
    weight = clean.astype(fits.num_rows.dtype)
    size = fits.cross.shape[-1]
    (before, rank_before), (after, rank_after) = _with_and_without(fits, weight, fits.square)
    df_num = (fits.rank + rank_before - rank_after).astype(weight.dtype)
    added = 1 - weight
    df_den = total(weight, fits.error_dof)[..., None] + added * fits.error_dof
    pooled = total(weight, fits.residual_sum)[..., None] + added * fits.residual_sum
    variance = pooled / jnp.maximum(df_den, 1) + floor.variance
    gain = beyond_rounding(after - before, total(weight, fits.square)[..., None] + fits.square)
    gain = beyond_size(gain, fits.num_rows, floor)
    testable = (rank_before == size) & fits.present
    df_num, df_den = jnp.where(testable, df_num, 0), jnp.where(testable, df_den, 0)
    return f_ratio(gain, df_num, df_den, variance=variance)


def robust_misfit(fits: LocalFits, clean: jax.Array, ordinary: FRatio, floor: Floor) -> FRatio:
    """The HC3 Wald form of ``local_misfit``.

    Args:
      fits: the groups' own fits.
      clean: ``(..., R)`` bool.
      ordinary: the local misfit, for what is defined.
      floor: what is no evidence.

    Returns:
      Ratios ``(..., R)``.

    References:
      MacKinnon and White (1985), Some heteroskedasticity-consistent covariance matrix estimators,
      Journal of Econometrics 29.
    """
    weight = clean.astype(fits.num_rows.dtype)
    own = weight[..., None, None]
    meats = jnp.swapaxes(fits.physics, -1, -2) @ fits.meat @ fits.physics
    gram = total(weight, fits.gram)[..., None, :, :] - own * fits.gram
    cross = total(weight, fits.cross)[..., None, :] - weight[..., None] * fits.cross
    meat = total(weight, meats)[..., None, :, :] - own * meats
    law = normal_equations.sweep(gram, cross, tolerances.gram(gram.dtype))
    physics = _product(fits.physics, law.inverse)
    covariance = fits.meat + _product(_product(physics, meat), jnp.swapaxes(physics, -1, -2))
    gap = fits.own - jnp.sum(fits.physics * law.solution[..., None, :], axis=-1)
    wald, rank = normal_equations.quadratic_form(covariance, gap)
    wald = wald_beyond_size(wald, fits.num_rows, fits.variance, floor)
    return f_ratio(wald, jnp.where(ordinary.defined, rank, 0), ordinary.df_den)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    """Matrix product of many tiny matrices: as sums they are fused, as products they are not."""
    return jnp.sum(left[..., :, :, None] * right[..., None, :, :], axis=-2)


def predictive(fits: LocalFits, clean: jax.Array, floor: Floor) -> FRatio:
    """The exact predictive F of every group: residual sum of the clean groups with and without it.

    Args:
      fits: the groups' own fits.
      clean: ``(R,)`` bool.
      floor: what is no evidence.

    Returns:
      Ratios ``(R,)``.
    """
    weight = clean.astype(fits.num_rows.dtype)
    square = fits.square + fits.residual_sum
    (before, rank), (after, _) = _with_and_without(fits, weight, square)
    df_den = total(weight, fits.num_rows) - weight * fits.num_rows - rank
    variance = jnp.maximum(before, 0) / jnp.maximum(df_den, 1) + floor.variance
    gain = beyond_rounding(after - before, total(weight, square) + square)
    return f_ratio(gain, fits.num_rows, jnp.maximum(df_den, 0), variance=variance)
