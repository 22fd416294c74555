"""Cross-fitting from sums of products: fitted on one half, scored on the other (section 3.8).

The rows are in four folds, any two of which are a half, so that there are three splits into halves.
The mean over them depends far less than a single split on how the folds were drawn.

References:
  McCarthy (1969), Pseudo-replication: half samples, Review of the International Statistical
  Institute 37.
"""

from typing import Any

import numpy as np

from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import namespace

NUM_FOLDS = 4
"""Folds of the rows: the fewest of which halves can be made in several ways."""

NUM_SPLITS = 3
"""Ways to make halves of them."""

_EVEN = 0.5
"""Rows of the smaller half of a split over those of the most even one, from which it counts: of few
blocks a split may leave a half none."""


def halves(sums: Any, axis: int) -> Any:
    """Sums over the halves of all splits, ``(.., 3, 2, ..)``, of those over folds, ``(.., 4, ..)``.

    ``axis`` is that of the folds, counted from the last one.
    """
    xp = namespace(sums)
    first, second, third, fourth = (part[0] for part in xp.split(xp.moveaxis(sums, axis, 0), 4))
    pairs = (
        (first + second, third + fourth),
        (first + third, second + fourth),
        (first + fourth, second + third),
    )
    return xp.stack([xp.stack(pair, axis) for pair in pairs], axis - 1)


def mean_over_splits(errors: Any, known: Any) -> Any:
    """Means ``(..., S)`` of ``errors (..., 3, S)`` over splits where they are ``known``, bool; inf
    where they are in none."""
    xp = namespace(errors)
    count = known.sum(-2)
    total = xp.where(known, errors, 0.0).sum(-2)
    return xp.where(count > 0, total / xp.maximum(count, 1).astype(errors.dtype), xp.inf)


def are_even(split: Any) -> Any:
    """Splits ``(..., 3)`` whose halves, with sums ``(..., 3, 2, m, m)``, both have enough rows."""
    smaller = split[..., 0, 0].min(-1)
    return smaller >= _EVEN * smaller.max(-1, keepdims=True)


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
    """Held-out sums of squares ``(..., S)``: fitted on either half, scored on the other.

    Means over the splits of which both halves determine a support; inf where there is none.

    Args:
      gram: ``(..., 4, m, m)`` of the folds, the target last.
      place: ``(S, s)`` columns of every support.
      used: ``(S, s)`` bool, which of them are in use.
    """
    xp = namespace(gram)
    split = halves(gram, -3)
    coefficients, determined = fit_supports(split, place, used)
    left = residual_sums(split[..., ::-1, :, :], place, coefficients).sum(-2)
    return mean_over_splits(left, xp.all(determined, -2) & are_even(split)[..., None])


def held_out_errors(gram: Any, columns: Any, use: Any) -> Any:
    """Held-out sums of squares ``(R,)`` of one set of columns per region.

    Args:
      gram: ``(R, 4, m, m)`` of the folds, the target last.
      columns: ``(R, s)``.
      use: ``(R, s)`` bool, which of them are in use.
    """
    xp = namespace(gram)
    split = halves(gram, -3)
    region = np.arange(len(columns))[:, None]
    halved = xp.moveaxis(split, 0, 2)
    picked = halved[:, :, region[..., None], columns[:, :, None], columns[:, None]]
    target = halved[..., -1][:, :, region, columns]
    block = xp.where(use[:, :, None] & use[:, None, :], picked, 0.0)
    moment = xp.where(use, target, 0.0)
    solved = small_systems.solve(block, moment, tolerances.gram(gram.dtype)).solution
    other, cross = block[:, ::-1], xp.sum(solved * moment[:, ::-1], -1)
    fitted = xp.sum(solved[..., :, None] * other * solved[..., None, :], (-2, -1))
    left = (halved[:, ::-1, :, -1, -1] - 2 * cross + fitted).sum(1)
    return mean_over_splits(left, are_even(split).T)
