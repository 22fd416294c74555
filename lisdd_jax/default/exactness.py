"""Is the law exact? Scores of a change of the law in single directions, over all runs (3.5).

For a run ``W`` and a direction ``h``, one of ``1``, the axis, a physics column or a candidate term,
the score of adding ``1_W h`` to the physics is

    z = sum_W h (y - Phi theta) / sqrt(var),

with the law ``theta`` of all cells and the cells' own noise. The largest score over runs and
directions pays for its search by a count of effectively independent scores, ``1.1 K^0.8`` of runs
that begin or end with the axis (a single change) and ``K^1.5`` of all, per direction. Both counts
bound what simulated bridges of ``K = 4`` to 32 cells gave between ``z = 3`` and 4.
"""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default.local_fits import LocalFits, Noise, spans
from lisdd_jax.numerics import hosted, small_systems, tolerances
from lisdd_jax.numerics.hosted import namespace

_CHANGE_SHARE, _RUN_SHARE, _TERM_SHARE = 0.4, 0.4, 0.2
"""Shares of the level for single changes and runs in the physics' directions, and for terms."""

_LEAST_SHARE, _LEAST_ROWS = 0.02, 6
"""A run must hold, and leave, so many rows: a few rows show a misfit of their own anywhere."""

_LEAST_LEFT = 1e-6
"""Share of a direction's square below which the physics contains it."""


class ExactnessTest(NamedTuple):
    """The test that the law holds exactly.

    Attributes:
      statistic: largest score of one change or run, squared.
      log_p_value: bound that pays for all directions and runs.
      first, end: cells of the run with the largest score.
      shift: ``(p,)`` by which the law of all cells would move without that run's change.
    """

    statistic: Any
    log_p_value: Any
    first: Any
    end: Any
    shift: Any


class _Scores(NamedTuple):
    square: Any
    effect: Any
    shared: Any
    inverse: Any


def log_two_sided(square: Any, degrees: Any) -> Any:
    """Log of the two-sided tail of Student's t at ``sqrt(square)``.

    For statistics to 8 it is too small by 0.2 % at most, and too large by at most 13 % from 5
    degrees of freedom on and 2.6 % from 30 on: an error on the safe side.

    References:
      Wallace (1959), Bounds on normal approximations to Student's and the chi-square
      distributions, Annals of Mathematical Statistics 30.
    """
    xp = namespace(square)
    normal = (
        hosted.safe_root(degrees * xp.log1p(square / degrees))
        * (8 * degrees + 1)
        / (8 * degrees + 3)
    )
    return hosted.log_ndtr(-normal) + float(np.log(2))


def scores(gram: Any, num_rows: Any, weight: Any, physics: slice) -> _Scores:
    """Squared scores of every direction over every run, ``(k, K + 1, K + 1)``, and their effects.

    Args:
      gram: ``(K, k + 1, k + 1)`` of all directions and the response.
      num_rows: ``(K,)``.
      weight: ``(K,)`` one over the noise variance.
      physics: columns of the law.
    """
    xp = namespace(gram)
    weighted = gram * weight[:, None, None]
    total = weighted.sum(0)
    law = small_systems.solve(
        total[physics, physics], total[physics, -1], tolerances.gram(gram.dtype)
    )
    left = weighted[:, :-1, -1] - weighted[:, :-1, physics] @ law.solution
    score = spans(left.T)
    shared = spans(xp.moveaxis(weighted[:, :-1, physics], 0, -1))
    square = spans(xp.diagonal(weighted, axis1=1, axis2=2)[:, :-1].T)
    explained = xp.einsum("jpab,pq,jqab->jab", shared, law.inverse, shared)
    variance = square - explained
    rows = spans(num_rows)
    least = xp.maximum(_LEAST_SHARE * num_rows.sum(), _LEAST_ROWS)
    outside = num_rows.sum() - rows
    enough = (rows >= least) & ((outside >= least) | (outside < 0.5))
    largest = xp.max(square, axis=(1, 2), keepdims=True)
    defined = enough[None] & (variance > _LEAST_LEFT * largest) & (variance > 0)
    effect = xp.where(defined, score / xp.where(defined, variance, 1.0), 0.0)
    return _Scores(effect * xp.where(defined, score, 0.0), effect, shared, law.inverse)


def distinct_directions(gram: Any) -> Any:
    """Directions that are neither zero nor multiples of earlier ones, ``(k,)`` bool."""
    xp = namespace(gram)
    total = gram.sum(0)[:-1, :-1]
    square = xp.diagonal(total)
    safe = xp.where(square > 0, square, 1.0)
    likeness = xp.abs(total) / xp.sqrt(safe[:, None] * safe[None])
    twin = (likeness > 1 - tolerances.gram(gram.dtype)) & np.tri(len(square), k=-1, dtype=bool)
    return (square > 0) & ~xp.any(twin, 1)


def test_exactness(
    gram: Any, fits: LocalFits, noise: Noise, num_physics: int, inflation: Any, floor: Any
) -> ExactnessTest:
    """Test that the law holds exactly, up to a size that does not matter.

    Args:
      gram: ``(K, m, m)`` of all columns.
      fits: the cells' own fits.
      noise: their noise.
      num_physics: columns of the law.
      inflation: rows that count as one, for their dependence.
      floor: mean discrepancy that does not matter.
    """
    xp = namespace(gram)
    present, steady = fits.present, noise.steady
    weight = xp.where(present, 1 / xp.where(present, steady, 1.0), 0.0)
    found = scores(gram, fits.num_rows, weight, slice(2, 2 + num_physics))
    # A discrepancy of this size adds to no score more than its own length (triangle inequality).
    length = floor * hosted.safe_root(spans(fits.num_rows * weight))
    squares = xp.maximum(hosted.safe_root(found.square) - length[None], 0.0) ** 2 / inflation
    distinct = distinct_directions(gram)
    basic = distinct & (np.arange(len(distinct)) < num_physics + 2)
    size = len(fits.num_rows) + 1
    cells = present.sum()
    place = np.arange(size)
    change = xp.asarray(place[:, None] == 0) | (place[None] >= cells)

    def largest(directions: Any, runs: Any) -> Any:
        return xp.max(xp.where(directions[:, None, None] & runs[None], squares, 0.0))

    everywhere = xp.ones((size, size), bool)
    families = xp.stack(
        [
            largest(basic, change),
            largest(basic, everywhere),
            largest(distinct & ~basic, everywhere),
        ]
    )
    cells = cells.astype(gram.dtype)
    num_basic, num_terms = (part.sum().astype(gram.dtype) for part in (basic, distinct & ~basic))
    counts = xp.stack(
        [
            num_basic * 1.1 * cells**0.8 / _CHANGE_SHARE,
            num_basic * cells**1.5 / _RUN_SHARE,
            num_terms * cells**1.5 / _TERM_SHARE,
        ]
    )
    degrees = xp.maximum(noise.degrees.sum(), 1)
    tried = counts > 0
    log_p = log_two_sided(families, degrees) + xp.log(xp.where(tried, counts, 1.0))
    log_p = xp.min(xp.where(tried, log_p, 0.0))
    flat = xp.where(distinct[:, None, None], squares, 0.0).reshape(-1)
    best = xp.argmax(flat)
    direction, run = best // size**2, best % size**2
    first, end = (run // size).astype(np.int32), (run % size).astype(np.int32)
    shift = found.inverse @ found.shared[direction, :, first, end]
    shift = shift * found.effect[direction, first, end]
    return ExactnessTest(flat[best], xp.minimum(log_p, 0.0), first, end, shift)
