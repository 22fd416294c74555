"""Does the physics misfit the groups that it calls clean?"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default import evidence
from lisdd_jax.default.floor import Floor, beyond_rounding, beyond_size, wald_beyond_size
from lisdd_jax.default.local_fits import NUM_SMOOTH, LocalFits
from lisdd_jax.numerics import normal_equations, tolerances
from lisdd_jax.statistics.f_tests import FRatio, f_ratio


class LackOfFit(NamedTuple):
    """Tests of a regime against itself, and its noise variance; ``(...)`` for several regimes.

    Attributes:
      smooth: F of low-order polynomials of the axis, over all clean groups, added to the physics.
      all: F of everything that the groups' own fits add.
      variance: pure-error variance of the clean groups.
    """

    smooth: FRatio
    all: FRatio
    variance: jax.Array


def _enlarged(fits: LocalFits) -> jax.Array:
    """Coordinates of physics and polynomials, ``(R, d, p + NUM_SMOOTH)``."""
    return jnp.concatenate([fits.physics, fits.smooth], axis=-1)


def _sums(fits: LocalFits, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    columns = _enlarged(fits)
    gram = jnp.einsum("rdi,rdj->rij", columns, columns)
    cross = jnp.einsum("rdi,rd->ri", columns, fits.own)
    return evidence.total(weight, gram), evidence.total(weight, cross)


def ordinary(fits: LocalFits, clean: jax.Array, floor: Floor) -> LackOfFit:
    """Lack of fit of regimes ``clean (..., R)``.

    Args:
      fits: the groups' own fits.
      clean: ``(..., R)`` bool.
      floor: what is no evidence.

    Returns:
      A ``LackOfFit``.
    """
    weight = clean.astype(fits.num_rows.dtype)
    size = fits.cross.shape[-1]
    gram, cross = _sums(fits, weight)
    square = evidence.total(weight, fits.square)
    tolerance = tolerances.gram(gram.dtype)
    law = normal_equations.sweep(gram[..., :size, :size], cross[..., :size], tolerance)
    more = normal_equations.sweep(gram, cross, tolerance)
    explained = jnp.sum(law.solution * cross[..., :size], axis=-1)
    gain = beyond_rounding(jnp.sum(more.solution * cross, axis=-1) - explained, square)
    num_rows = evidence.total(weight, fits.num_rows)
    gain = beyond_size(gain, num_rows, floor)
    rank = jnp.sum(law.independent, axis=-1)
    df_smooth = (jnp.sum(more.independent, axis=-1) - rank).astype(weight.dtype)
    df_all = evidence.total(weight, fits.rank) - rank
    df_den = evidence.total(weight, fits.error_dof)
    variance = evidence.total(weight, fits.residual_sum) / jnp.maximum(df_den, 1)
    scale = variance + floor.variance
    left = beyond_size(beyond_rounding(square - explained, square), num_rows, floor)
    return LackOfFit(
        smooth=f_ratio(gain, df_smooth, df_den, variance=scale),
        all=f_ratio(left, df_all, df_den, variance=scale),
        variance=scale,
    )


def robust(fits: LocalFits, clean: jax.Array, fit: LackOfFit, floor: Floor) -> FRatio:
    """The HC3 Wald form of ``LackOfFit.smooth`` for one regime ``(R,)``."""
    weight = clean.astype(fits.num_rows.dtype)
    gram, cross = _sums(fits, weight)
    more = normal_equations.sweep(gram, cross, tolerances.gram(gram.dtype))
    columns = _enlarged(fits)
    meat = jnp.einsum("r,rdi,rde,rej->ij", weight, columns, fits.meat, columns)
    covariance = more.inverse @ meat @ more.inverse
    wald, rank = normal_equations.quadratic_form(
        covariance[-NUM_SMOOTH:, -NUM_SMOOTH:], more.solution[-NUM_SMOOTH:]
    )
    num_rows = evidence.total(weight, fits.num_rows)
    wald = wald_beyond_size(wald, num_rows, fit.variance, floor)
    return f_ratio(wald, rank, fit.all.df_den)
