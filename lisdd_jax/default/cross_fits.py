"""Cross-fitting from sums of products: fitted on one fold, scored on the other (section 3.8)."""

from typing import Any

import numpy as np

from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import namespace


def fit_supports(gram: Any, place: Any, used: Any) -> tuple[Any, Any]:
    """Coefficients ``(..., S, s)`` of columns at ``place (S, s)``, and whether they exist."""
    xp = namespace(gram)
    block = gram[..., place[:, :, None], place[:, None, :]]
    both = xp.asarray(used[:, :, None] & used[:, None, :])
    block = xp.where(both, block, xp.asarray(np.eye(place.shape[1]), gram.dtype)[None])
    moment = xp.where(xp.asarray(used), gram[..., place, -1], 0.0)
    solved = small_systems.solve(block, moment, tolerances.gram(gram.dtype))
    return xp.where(xp.asarray(used), solved.solution, 0.0), xp.all(solved.independent, -1)


def residual_sums(gram: Any, place: Any, coefficients: Any) -> Any:
    """Residual sums ``(..., S)`` of coefficients ``(..., S, s)``."""
    xp = namespace(gram)
    block = gram[..., place[:, :, None], place[:, None, :]]
    fitted = xp.sum(coefficients[..., :, None] * block * coefficients[..., None, :], (-2, -1))
    cross = xp.sum(coefficients * gram[..., place, -1], -1)
    return gram[..., -1, -1][..., None] - 2 * cross + fitted


def cross_fit(gram: Any, place: np.ndarray, used: np.ndarray) -> Any:
    """Held-out sums of squares ``(..., S)``: fitted on either fold, scored on the other.

    Args:
      gram: ``(..., 2, m, m)`` of two folds, the target last.
      place: ``(S, s)`` columns of every support.
      used: ``(S, s)`` bool, which of them are in use.
    """
    xp = namespace(gram)
    coefficients, determined = fit_supports(gram, place, used)
    other = gram[..., ::-1, :, :]
    left = residual_sums(other, place, coefficients)
    return xp.where(xp.all(determined, -2), left.sum(-2), xp.inf)


def held_out_errors(gram: Any, columns: Any, use: Any) -> Any:
    """Held-out sums of squares ``(R,)`` of one set of columns per region.

    Args:
      gram: ``(R, 2, m, m)`` of two folds, the target last.
      columns: ``(R, s)``.
      use: ``(R, s)`` bool, which of them are in use.
    """
    xp = namespace(gram)
    region = np.arange(len(columns))[:, None]
    picked = xp.moveaxis(gram, 1, 0)[:, region[..., None], columns[:, :, None], columns[:, None]]
    target = xp.moveaxis(gram[..., -1], 1, 0)[:, region, columns]
    both = (use[:, :, None] & use[:, None, :])[None]
    block = xp.where(both, picked, 0.0)
    moment = xp.where(use[None], target, 0.0)
    solved = small_systems.solve(block, moment, tolerances.gram(gram.dtype)).solution
    other, cross = block[::-1], xp.sum(solved * moment[::-1], -1)
    fitted = xp.sum(solved[..., :, None] * other * solved[..., None, :], (-2, -1))
    return (gram[:, ::-1, -1, -1].T - 2 * cross + fitted).sum(0)
