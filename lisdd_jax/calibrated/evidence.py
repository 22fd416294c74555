"""Evidence per group of cells: does the law of the clean groups hold here?

Three tests of one group against the clean groups without it, each from the groups' sums.

* The local misfit F: the group's own coefficients on ``[1, axis, physics]`` against the law, on the
  pure-error scale of the groups' own residuals. Exact for Gaussian noise, and strong, because it
  looks in few directions.
* Its HC3 form, which holds its size where the noise is larger in the group than elsewhere.
* The predictive F of all the group's rows, which larger noise raises as well as a wrong mean.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.calibrated.floor import Floor, beyond_rounding, beyond_size, wald_beyond_size
from lisdd_jax.calibrated.local_fits import LocalFits
from lisdd_jax.numerics import normal_equations, tails


class Ratio(NamedTuple):
    """F ratios with their degrees of freedom, which are 0 where a ratio is undefined."""

    statistic: jax.Array
    df_num: jax.Array
    df_den: jax.Array

    @property
    def defined(self) -> jax.Array:
        """Whether both degrees of freedom are positive."""
        return (self.df_num > 0) & (self.df_den > 0)

    def score(self) -> jax.Array:
        """Approximate normal score: enough to rank groups and to steer the search.

        References:
          Paulson (1942), An approximate normalization of the analysis of variance distribution,
          Annals of Mathematical Statistics 13.
        """
        df_num, df_den = jnp.maximum(self.df_num, 1), jnp.maximum(self.df_den, 1)
        root = jnp.cbrt(jnp.maximum(self.statistic, 0.0))
        first, second = 2 / (9 * df_num), 2 / (9 * df_den)
        return ((1 - second) * root - (1 - first)) / jnp.sqrt(second * root**2 + first)


def wald_ratio(form: jax.Array, rank: jax.Array, df_den: jax.Array) -> Ratio:
    """The F ratio of a quadratic form with ``rank`` degrees of freedom."""
    df_num, df_den = rank.astype(form.dtype), df_den.astype(form.dtype)
    return Ratio(form / jnp.maximum(df_num, 1), df_num, df_den)


def log_p_values(*ratios: Ratio) -> tuple[jax.Array, ...]:
    """Log tail probabilities of several sets of ratios; NaN where undefined.

    One call evaluates them all, because the tail is slow to compile.
    """
    joined = [jnp.concatenate([jnp.ravel(x) for x in parts]) for parts in zip(*ratios, strict=True)]
    ratio = Ratio(*joined)
    safe = [jnp.where(ratio.defined, part, 1.0) for part in ratio]
    log_p = jnp.where(ratio.defined, tails.f_logsf(*safe), jnp.nan)
    ends = list(itertools.accumulate(ratio.statistic.size for ratio in ratios))
    pieces = jnp.split(log_p, ends[:-1])
    return tuple(
        piece.reshape(ratio.statistic.shape) for piece, ratio in zip(pieces, ratios, strict=True)
    )


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
    fit = normal_equations.sweep(gram, cross, normal_equations.gram_tolerance(gram.dtype))
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


def local_misfit(fits: LocalFits, clean: jax.Array, floor: Floor) -> Ratio:
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
    statistic = gain / jnp.maximum(df_num, 1) / variance
    testable = (rank_before == size) & fits.present
    return Ratio(statistic, jnp.where(testable, df_num, 0), jnp.where(testable, df_den, 0))


def robust_misfit(fits: LocalFits, clean: jax.Array, ordinary: Ratio, floor: Floor) -> Ratio:
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
    law = normal_equations.sweep(gram, cross, normal_equations.gram_tolerance(gram.dtype))
    physics = _product(fits.physics, law.inverse)
    covariance = fits.meat + _product(_product(physics, meat), jnp.swapaxes(physics, -1, -2))
    gap = fits.own - jnp.sum(fits.physics * law.solution[..., None, :], axis=-1)
    wald, rank = normal_equations.quadratic_form(covariance, gap)
    wald = wald_beyond_size(wald, fits.num_rows, fits.variance, floor)
    return wald_ratio(wald, jnp.where(ordinary.defined, rank, 0), ordinary.df_den)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    """Matrix product of many tiny matrices: as sums they are fused, as products they are not."""
    return jnp.sum(left[..., :, :, None] * right[..., None, :, :], axis=-2)


def predictive(fits: LocalFits, clean: jax.Array, floor: Floor) -> Ratio:
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
    statistic = gain / jnp.maximum(fits.num_rows, 1) / variance
    return Ratio(statistic, fits.num_rows, jnp.maximum(df_den, 0))
