"""Every support of the candidate library, fitted and scored on separate rows.

References:
  docs/method.md, equations 9 to 11.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.numerics import least_squares, scaling, tolerances
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.statistics import half_sums
from lisdd_jax.statistics.half_sums import HalfSums
from lisdd_jax.statistics.supports import choose_support, index_sets, sizes, supports
from lisdd_jax.status import Status, first_failure, is_failure, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """The support chosen by holdout.

    Attributes:
      support: ``(L,)`` bool; all False under a failure.
      coefficients: ``(L,)`` from the fit rows, 0 off the support.
      error: holdout error of the chosen support.
      errors: ``(S,)`` mean squared holdout error of every support, in the order of ``supports``;
        inf where a support cannot be fitted.
      equivalent: ``(S,)`` bool, supports within the tolerance of the lowest error.
      status: int32.
    """

    support: jax.Array
    coefficients: jax.Array
    error: jax.Array
    errors: jax.Array
    equivalent: jax.Array
    status: jax.Array


def _with_derivatives(
    fit: least_squares.LeastSquares, products: jax.Array
) -> least_squares.LeastSquares:
    """A fit with derivatives through sums of products of its terms and the residuals."""
    direction = jnp.append(-lax.stop_gradient(fit.coefficients), 1.0)
    left = products @ direction
    return least_squares.with_derivatives(fit, products[:-1, :-1], left[:-1], left @ direction)


def _score_supports(sums: HalfSums, index_set: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """Residual sum on the score rows, and rank check, for supports of one size."""
    (fit_factor, score_factor), (fit_products, score_products) = sums.factors, sums.products

    def one(indices: jax.Array) -> tuple[jax.Array, jax.Array]:
        fit = least_squares.solve_factor(fit_factor[:, indices], fit_factor[:, -1])
        misfit = score_factor[:, -1] - score_factor[:, indices] @ fit.coefficients
        both = jnp.append(indices, -1)
        live = _with_derivatives(fit, fit_products[both][:, both])
        direction = jnp.append(-live.coefficients, 1.0)
        left = direction @ score_products[both][:, both] @ direction
        return least_squares.attach(jnp.sum(misfit**2), left), jnp.all(fit.independent)

    return jax.vmap(one)(jnp.asarray(index_set))


def _fit_support(
    factor: jax.Array, products: jax.Array, support: jax.Array
) -> least_squares.LeastSquares:
    """Least squares of the residuals on the terms of a support, with derivatives in the rows."""
    terms = jnp.where(support[None], factor[:, :-1], 0.0)
    fit = least_squares.solve_factor(terms, factor[:, -1])
    used = jnp.append(support, True)
    return _with_derivatives(fit, jnp.where(used[:, None] & used[None], products, 0.0))


class TermFit(NamedTuple):
    """Terms fitted to all rows of a region: coefficients and standard errors ``(L,)``.

    Off the support coefficients are 0 and standard errors NaN; these are NaN too where no degree of
    freedom is left.
    """

    coefficients: jax.Array
    stderr: jax.Array


@full_precision
def select_by_masks(
    features: jax.Array,
    residuals: jax.Array,
    fit_mask: jax.Array,
    score_mask: jax.Array,
    max_terms: int,
    tolerance: jax.Array,
) -> Selection:
    """The traced body of ``select_form``."""
    sums = half_sums.sum_masked(features, residuals, fit_mask, score_mask)
    return choose(sums, max_terms, tolerance)[0]


@full_precision
def choose(sums: HalfSums, max_terms: int, tolerance: jax.Array) -> tuple[Selection, TermFit]:
    """The support chosen on the score rows, and its terms fitted to all rows."""
    num_terms = sums.factors.shape[-1] - 1
    dtype = sums.factors.dtype
    num_fit, num_score = sums.num_rows
    scored = [_score_supports(sums, places) for places in index_sets(num_terms, max_terms)]
    totals, determined = (jnp.concatenate(part) for part in zip(*scored, strict=True))
    num_used = jnp.asarray(sizes(num_terms, max_terms), num_fit.dtype)
    enough = (num_fit >= num_used) & (num_score > 0)
    per_row = 1 / jnp.maximum(num_score, 1).astype(dtype)
    errors = jnp.where(determined & enough, totals * per_row, jnp.inf)
    rounding = _rounding_of(errors, jnp.sum(sums.factors[1, :, -1] ** 2) * per_row)
    best, within = choose_support(errors, num_used, tolerance, rounding)
    status = first_failure(
        status_if(sums.nonfinite, Status.NONFINITE_INPUT),
        status_if(~jnp.any(jnp.isfinite(errors)), Status.NO_USABLE_TERMS),
        status_if(jnp.any(~determined & enough), Status.RANK_DEFICIENT_TERMS),
    )
    failed = is_failure(status)
    support = jnp.asarray(supports(num_terms, max_terms))[best] & ~failed
    fit = _fit_support(sums.factors[0], sums.products[0], support)
    shown = errors * sums.unit * sums.unit
    chosen = Selection(
        support=support,
        coefficients=sums.unit * fit.coefficients,
        error=jnp.where(failed, jnp.nan, shown[best]),
        errors=shown,
        equivalent=within,
        status=status,
    )
    return chosen, _fit_terms(sums, support)


def _rounding_of(errors: jax.Array, mean_square: jax.Array) -> jax.Array:
    """How much the lowest errors may differ by rounding alone.

    Residuals are known to a share of what they are the difference of: the values scored, whose
    ``mean_square`` is given, and the fit to them, which extrapolation can make larger.
    """
    least = jnp.min(errors)
    known_to = tolerances.HOLDOUT_TIE(errors.dtype) * scaling.root(mean_square + least)
    return known_to * (2 * scaling.root(least) + known_to)


def _fit_terms(sums: HalfSums, support: jax.Array) -> TermFit:
    both = least_squares.compress(jnp.concatenate(lax.stop_gradient(sums.factors)))
    fit = _fit_support(both, jnp.sum(sums.products, axis=0), support)
    degrees = jnp.sum(sums.num_rows) - jnp.sum(fit.independent)
    per_degree = fit.residual_sum / jnp.maximum(degrees, 1).astype(fit.residual_sum.dtype)
    variance = jnp.where(degrees > 0, per_degree, jnp.nan)
    stderr = scaling.root(jnp.sum(fit.inverse_factor**2, axis=1) * variance)
    return TermFit(sums.unit * fit.coefficients, jnp.where(support, sums.unit * stderr, jnp.nan))


@full_precision
def select_by_chance(
    key: jax.Array,
    features: jax.Array,
    residuals: jax.Array,
    inside: jax.Array,
    max_terms: int,
    tolerance: jax.Array,
    block: jax.Array | None = None,
) -> tuple[Selection, TermFit]:
    """The choice by two random halves of the rows in ``inside``, and its terms fitted to both."""
    sums = half_sums.sum_halves(key, features, residuals, inside, block)
    return choose(sums, max_terms, tolerance)


_select_jitted = partial(jax.jit, static_argnames="max_terms")(select_by_masks)


def select_form(
    features: Any,
    residuals: Any,
    fit_mask: Any,
    score_mask: Any,
    *,
    max_terms: int,
    tolerance: Any,
) -> Selection:
    """Choose the terms that explain residuals, by exhaustive holdout.

    Every support of at most ``max_terms`` terms is fitted by least squares on the fit rows and
    scored by its mean squared error on the score rows. Chosen is the smallest size that has a
    support with an error of at most ``(1 + tolerance)`` times the lowest; of those of that size,
    the one with the lowest error, or the first where errors differ by rounding only. Both halves
    are first reduced to triangular factors, so the cost per support does not depend on the number
    of rows.

    Differentiable in features and residuals for the chosen support.

    Args:
      features: ``(n, L)`` candidate terms.
      residuals: ``(n,)``.
      fit_mask, score_mask: ``(n,)`` bool, disjoint.
      max_terms: largest support (static).
      tolerance: relative excess of error within which a smaller support wins.

    Returns:
      A ``Selection``; status ``NO_USABLE_TERMS`` when no support could be fitted and scored,
      ``RANK_DEFICIENT_TERMS`` (a note) when some could not for collinearity.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> t = np.linspace(-1.0, 1.0, 60)
      >>> features = np.stack([t, t**2, t**3], axis=1)
      >>> residuals = 3 * t**2 + 0.1 * np.sin(997 * t**2)
      >>> even = np.arange(60) % 2 == 0
      >>> found = select_form(features, residuals, even, ~even, max_terms=2, tolerance=0.15)
      >>> found.support.tolist()
      [False, True, False]

    References:
      Wang, Localized and identifiable discovery of model discrepancy, stage 3.
    """
    features = validation.float_array("features", features)
    residuals = validation.float_array("residuals", residuals)
    shapes = validation.Shapes()
    shapes.check("features", features.shape, ("n", "L"))
    shapes.check("residuals", residuals.shape, ("n",))
    validation.common_dtype(features=features, residuals=residuals)
    fit_mask = validation.mask_array(fit_mask, features.shape[0])
    score_mask = validation.mask_array(score_mask, features.shape[0])
    validation.check_filled(features=features)
    if all(map(validation.is_concrete, (fit_mask, score_mask))):
        shared = int(np.sum(np.asarray(fit_mask) & np.asarray(score_mask)))
        if shared:
            raise ValueError(f"fit_mask and score_mask must be disjoint, got {shared} rows in both")
    validation.check_finite("features", features, fit_mask | score_mask)
    validation.check_finite("residuals", residuals, fit_mask | score_mask)
    validation.check_count("max_terms", max_terms, 1)
    validation.check_number("tolerance", tolerance, 0.0, float("inf"))
    tolerance = jnp.asarray(tolerance, features.dtype)
    return _select_jitted(features, residuals, fit_mask, score_mask, max_terms, tolerance)
