"""Is the law exact? Scores of a change of the law in single directions, over all runs (3.5).

For a run ``W`` and a direction ``h``, one of ``1``, the axis, a physics column or a candidate term,
the score of adding ``1_W h`` to the physics is

    z = sum_W h (y - Phi theta) / sqrt(var),

with the law ``theta`` of all cells and the cells' own noise. The largest score over runs and
directions pays for its search by a count of effectively independent scores, ``1.1 K^0.8`` of runs
that begin or end with the axis (a single change) and ``K^1.5`` of all, per direction. Both counts
bound what simulated bridges of ``K = 4`` to 32 cells gave between ``z = 3`` and 4.

Intervals that are given only where a test did not reject cover too little, since it passes where
changes look small. So every direction's change that came nearest to being noticed is told too, at
its upper limit, and counts the more, the nearer it came.
"""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default.breaks import Breaks, fit_breaks, log_upper_f
from lisdd_jax.default.local_fits import LEAST_LEFT, LocalFits, Noise, spans
from lisdd_jax.numerics import hosted, small_systems, tolerances
from lisdd_jax.numerics.hosted import choose, contract, namespace, running_sums

_CHANGE_SHARE, _RUN_SHARE, _TERM_SHARE, _BREAK_SHARE = 0.3, 0.4, 0.2, 0.1
"""Shares of the level for single changes and runs in the physics' directions, for terms, and for
changes of the whole law."""

_LEAST_SHARE, _LEAST_ROWS = 0.02, 6
"""A run must hold, and leave, so many rows: a few rows show a misfit of their own anywhere."""

_CHANGE_FACTOR, _CHANGE_POWER, RUN_POWER = 1.1, 0.8, 1.5
"""Effective trials per direction among ``K`` cells, ``factor K^power`` for runs that begin or end
with the axis and ``K^power`` for all: bounds of simulated bridges of 4 to 32 cells."""


_ONE_SIDED = 1.645
"""Quantile of the normal distribution at .95: how large an unnoticed change may well be."""


class ExactnessTest(NamedTuple):
    """The test that the law holds exactly.

    Attributes:
      statistic: what the change saves that looks worst, in noise variances.
      log_p_value: bound that pays for all directions and runs.
      first, end: cells of that change.
      unnoticed: ``(p, p)`` covariance of the shift of the law by changes that were not noticed.
      independent: what the log p-value of single directions would be if rows were independent.
    """

    statistic: Any
    log_p_value: Any
    first: Any
    end: Any
    unnoticed: Any
    independent: Any


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
    law = small_systems.solve_with_inverse(
        total[physics, physics], total[physics, -1], tolerances.gram(gram.dtype)
    )
    left = weighted[:, :-1, -1] - contract("kjp,p->kj", weighted[:, :-1, physics], law.solution)
    score = spans(left.T)
    shared = spans(xp.moveaxis(weighted[:, :-1, physics], 0, -1))
    square = spans(xp.diagonal(weighted, axis1=1, axis2=2)[:, :-1].T)
    explained = contract("jpab,pq,jqab->jab", shared, law.inverse, shared)
    variance = square - explained
    rows = spans(num_rows)
    least = xp.maximum(_LEAST_SHARE * num_rows.sum(), _LEAST_ROWS)
    outside = num_rows.sum() - rows
    enough = (rows >= least) & ((outside >= least) | (outside < 0.5))
    largest = xp.max(square, axis=(1, 2), keepdims=True)
    defined = enough[None] & (variance > LEAST_LEFT * largest) & (variance > 0)
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


class _Largest(NamedTuple):
    """What speaks most against the exact law: ``log_p`` with all trials paid for, and where.

    ``unnoticed (p, p)`` is the covariance of the law's shift, and ``independent`` what ``log_p``
    would be of rows that are.
    """

    log_p: Any
    statistic: Any
    first: Any
    end: Any
    unnoticed: Any
    independent: Any


def _covariance_of(shift: Any, square: Any, log_p: Any) -> Any:
    """Covariance ``(p, p)`` of changes that were not noticed, each at its upper limit.

    Args:
      shift: ``(k, p)`` by which the law of all cells would move without each.
      square: ``(k,)`` their squared scores; a change has a standard error of one over the root.
      log_p: ``(k,)`` with all trials paid for.
    """
    xp = namespace(shift)
    limit = 1 + _ONE_SIDED / xp.sqrt(xp.maximum(square, 1.0))
    weight = (1 - xp.exp(xp.minimum(log_p, 0.0))) * limit**2
    return contract("k,kp,kq->pq", weight, shift, shift)


def _price_of_search(basic: Any, distinct: Any, cells: Any) -> Any:
    """Logs ``(2, k)`` of the trials of single changes and of all runs.

    Args:
      basic: ``(k,)`` bool, directions of the physics.
      distinct: ``(k,)`` bool, all that are tried.
      cells: how many there are.
    """
    xp = namespace(cells)
    num_basic, num_terms = (part.sum().astype(cells.dtype) for part in (basic, distinct & ~basic))
    of_changes = num_basic * _CHANGE_FACTOR * cells**_CHANGE_POWER / _CHANGE_SHARE
    of_runs = num_basic * cells**RUN_POWER / _RUN_SHARE
    of_terms = num_terms * cells**RUN_POWER / _TERM_SHARE
    trials = xp.stack([xp.where(basic, of_changes, 1.0), xp.where(basic, of_runs, of_terms)])
    return xp.log(xp.maximum(trials, 1.0))


def _largest_score(
    found: _Scores, gram: Any, fits: LocalFits, degrees: Any, slack: Any, inflation: Any, size: int
) -> _Largest:
    """The largest score of single directions.

    Args:
      found: the scores.
      gram: ``(K, m, m)`` of all columns.
      fits: the cells' own fits.
      degrees: of freedom of their noise.
      slack: ``(K + 1, K + 1)`` what a score may be for nothing.
      inflation: rows that count as one.
      size: columns of ``[1, axis, physics]``.
    """
    xp = namespace(gram)
    squares = xp.maximum(hosted.safe_root(found.square) - slack[None], 0.0) ** 2 / inflation
    distinct = distinct_directions(gram)
    basic = distinct & (np.arange(len(distinct)) < size)
    num = len(fits.num_rows) + 1
    cells = fits.present.sum()
    place = np.arange(num)
    change = xp.asarray(place[:, None] == 0) | (place[None] >= cells)
    # Of every direction the worst single change, and the worst of all runs.
    flat = xp.stack([xp.where(change[None], squares, 0.0), squares]).reshape(2, len(distinct), -1)
    largest, run = xp.max(flat, -1), xp.argmax(flat, -1)
    tried = xp.stack([basic, distinct])
    price = _price_of_search(basic, distinct, cells.astype(gram.dtype))
    paid, unpaid = (
        xp.where(tried, log_two_sided(values, degrees) + price, 0.0)
        for values in (largest, inflation * largest)
    )
    kind = xp.argmin(paid, 0)[None]
    log_p, square, nearest = (
        xp.take_along_axis(values, kind, axis=0)[0] for values in (paid, largest, run)
    )
    direction = np.arange(len(distinct))
    shift = contract(
        "pq,jq->jp", found.inverse, found.shared[direction, :, nearest // num, nearest % num]
    )
    shift = shift * found.effect[direction, nearest // num, nearest % num][:, None]
    most = xp.argmax(xp.where(distinct, largest[1], 0.0))
    worst = run[1, most].astype(np.int32)
    return _Largest(
        log_p=xp.min(log_p),
        statistic=xp.where(distinct[most], largest[1, most], 0.0),
        first=worst // num,
        end=worst % num,
        unnoticed=_covariance_of(shift, square, log_p),
        independent=xp.min(unpaid),
    )


def _largest_break(found: Breaks, fits: LocalFits, slack: Any, inflation: Any) -> _Largest:
    """The bound between cells at which the law changes most; arguments as for the scores."""
    xp = namespace(found.gain)
    tested = found.df_num > 0
    gain = xp.maximum(hosted.safe_root(found.gain) - slack, 0.0) ** 2 / inflation
    df_num, df_den = (xp.where(tested, part, 1.0) for part in (found.df_num, found.df_den))
    variance = xp.where(found.variance > 0, found.variance, 1.0)
    log_p = log_upper_f(gain / (df_num * variance), df_num, df_den)
    trials = xp.maximum(tested.sum(), 1).astype(gain.dtype) / _BREAK_SHARE
    log_p = xp.where(tested, log_p + xp.log(trials), xp.inf)
    best = xp.argmin(log_p)
    rows = running_sums(fits.num_rows)[1:]
    early = rows[best] < 0.5 * rows[-1]
    bound, cells = (best + 1).astype(np.int32), fits.present.sum().astype(np.int32)
    # The law of the longer side is the one that would stay.
    larger = xp.where(early, found.theta[1, best], found.theta[0, best])
    # Where no bound is tested nothing was unnoticed.
    paid = xp.minimum(log_p[best], 0.0)
    return _Largest(
        log_p=log_p[best],
        statistic=gain[best],
        first=xp.where(early, 0, bound),
        end=xp.where(early, bound, cells),
        unnoticed=_covariance_of((found.whole - larger)[None], gain[best][None], paid[None]),
        independent=xp.zeros_like(log_p[best]),
    )


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
    steady, physics = noise.steady, slice(2, 2 + num_physics)
    weight = xp.where(fits.present, 1 / xp.where(fits.present, steady, 1.0), 0.0)
    # A discrepancy of this size adds to no score more than its own length (triangle inequality).
    squares = fits.num_rows * weight
    length = floor * hosted.safe_root(spans(squares))
    degrees = xp.maximum(noise.degrees.sum(), 1)
    found = scores(gram, fits.num_rows, weight, physics)
    most = _largest_score(found, gram, fits, degrees, length, inflation, physics.stop)
    if num_physics > 1:
        slack = floor * hosted.safe_root(squares.sum())
        broken = fit_breaks(gram, fits.num_rows, weight, physics)
        change = _largest_break(broken, fits, slack, inflation)
        unnoticed = most.unnoticed + change.unnoticed
        largest = choose(change.log_p < most.log_p, change, most)
        most = largest._replace(unnoticed=unnoticed, independent=most.independent)
    return ExactnessTest(
        most.statistic,
        xp.minimum(most.log_p, 0.0),
        most.first,
        most.end,
        most.unnoticed,
        xp.minimum(most.independent, 0.0),
    )
