"""The best supports of libraries too large to score every support: branch and bound.

The held-out error of a support is that of coefficients fitted to other rows, so it is at least the
smallest error that any coefficients of the same terms, or of more, reach on the score rows. A
branch that may still use a set of terms can therefore be left out as soon as the best fit of all of
them to the score rows is worse than a support already scored.
"""

import heapq
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lisdd_jax import validation
from lisdd_jax.statistics.supports import error_limit

_DEPENDENT = 1e-10
"""Share of a column's length below which what the others leave of it is rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SupportSearch:
    """The support chosen by holdout, from a search of all supports up to a size.

    Attributes:
      support: ``(L,)`` bool.
      coefficients: ``(L,)`` fitted to the fit rows, 0 off the support.
      error: mean squared error on the score rows.
      exact: whether no support can be better; False where ``max_scored`` ended the search.
      num_scored: supports scored.
    """

    support: np.ndarray
    coefficients: np.ndarray
    error: float
    exact: bool
    num_scored: int


@dataclass(frozen=True)
class _Halves:
    """Triangular factors of terms and residuals, ``(m, L + 1)`` each, for fit and score rows."""

    fit: np.ndarray
    score: np.ndarray

    def coefficients(self, terms: tuple[int, ...]) -> np.ndarray | None:
        """Least squares on the fit rows; None for dependent terms."""
        columns = self.fit[:, terms]
        basis, factor = np.linalg.qr(columns)
        if np.any(np.abs(np.diag(factor)) <= _DEPENDENT * np.linalg.norm(columns, axis=0)):
            return None
        return np.linalg.solve(factor, basis.T @ self.fit[:, -1])

    def error(self, terms: tuple[int, ...]) -> float:
        """Sum of squares on the score rows; inf where the terms cannot be fitted."""
        found = self.coefficients(terms)
        if found is None:
            return np.inf
        return float(np.sum((self.score[:, -1] - self.score[:, terms] @ found) ** 2))

    def bounds(self, chosen: tuple[int, ...], rest: tuple[int, ...]) -> np.ndarray:
        """For each term of ``rest`` a bound for the supports of ``chosen``, it and those after it.

        No such support has a smaller sum of squares on the score rows. With the terms added in
        reverse, one factorisation gives the best fits of all these sets.
        """
        basis = np.linalg.qr(self.score[:, (*chosen, *rest[::-1])])[0]
        target = self.score[:, -1]
        along = basis.T @ target
        # Dependent terms add directions of no meaning, which only lower a bound.
        beyond = np.append(np.cumsum(along[::-1] ** 2)[::-1], 0.0)
        left = np.sum((target - basis @ along) ** 2) + beyond
        sizes = len(chosen) + np.arange(len(rest), 0, -1)
        return left[np.minimum(sizes, len(along))]


def _order_by_use(halves: _Halves) -> tuple[int, ...]:
    """Terms by what each saves beside all others on the score rows, the most useful first."""
    everything = tuple(range(halves.fit.shape[1] - 1))
    if len(everything) == 1:
        return everything
    without = [halves.bounds((), everything[:j] + everything[j + 1 :])[0] for j in everything]
    return tuple(sorted(everything, key=lambda j: -without[j]))


class _Best(NamedTuple):
    """The best support found, its sum of squares, and how many supports may still be scored."""

    terms: tuple[int, ...]
    error: float
    left: int


def _find_lowest(
    halves: _Halves, order: tuple[int, ...], max_terms: int, start: _Best
) -> tuple[_Best, bool]:
    """The lowest error below that of ``start``, and whether nothing lower can be left."""
    ties = itertools.count(1)
    best = start
    branches: list[tuple[float, int, tuple[int, ...], tuple[int, ...]]] = [(0.0, 0, (), order)]
    while branches:
        bound, _, chosen, rest = heapq.heappop(branches)
        if bound >= best.error:
            return best, True
        # Every child lacks one term more than the one before, so its bound is no lower.
        for place, bound in enumerate(halves.bounds(chosen, rest)):
            if bound >= best.error:
                break
            if best.left == 0:
                return best, False
            terms, after = (*chosen, rest[place]), rest[place + 1 :]
            error = halves.error(terms)
            better = (terms, error) if error < best.error else best[:2]
            best = _Best(*better, best.left - 1)
            if len(terms) < max_terms and after:
                heapq.heappush(branches, (bound, next(ties), terms, after))
    return best, True


def _choose(
    halves: _Halves, max_terms: int, tolerance: float, max_scored: int
) -> tuple[_Best, bool]:
    """The lowest error of the smallest size that comes within the tolerance of the lowest."""
    order = _order_by_use(halves)
    lowest, exact = _find_lowest(halves, order, max_terms, _Best((), np.inf, max_scored))
    limit = np.nextafter(error_limit(lowest.error, tolerance), np.inf)
    left = lowest.left
    for size in range(1, len(lowest.terms)):
        found, complete = _find_lowest(halves, order, size, _Best((), limit, left))
        left, exact = found.left, exact and complete
        if found.terms:
            return found, exact
    return lowest._replace(left=left), exact


def _factor(columns: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.qr(columns, mode="r"))


def search_supports(
    features: Any,
    residuals: Any,
    fit_mask: Any,
    score_mask: Any,
    *,
    max_terms: int,
    tolerance: float,
    max_scored: int = 100_000,
) -> SupportSearch:
    """Choose the terms that explain residuals by holdout, without scoring every support.

    The rule is that of ``select_form``: the smallest size that has a support with an error within
    ``(1 + tolerance)`` of the lowest, and of those of that size the one with the lowest error.
    Branches are followed best first and left out by a bound that is never above the error of a
    support in them, so the choice is that of the full search, or ``exact`` is False. On the host,
    in NumPy, without derivatives.

    Args:
      features: ``(n, L)`` candidate terms.
      residuals: ``(n,)``.
      fit_mask, score_mask: ``(n,)`` bool, disjoint.
      max_terms: largest support.
      tolerance: relative excess of error within which a smaller support wins.
      max_scored: supports to score at most.

    Returns:
      A ``SupportSearch``.

    Raises:
      ValueError, TypeError: shapes, types or values do not fit, or no support can be scored.

    References:
      Land and Doig (1960), An automatic method of solving discrete programming problems,
      Econometrica 28.
    """
    features = np.asarray(validation.float_array("features", features))
    residuals = np.asarray(validation.float_array("residuals", residuals))
    shapes = validation.Shapes()
    shapes.check("features", features.shape, ("n", "L"))
    shapes.check("residuals", residuals.shape, ("n",))
    validation.check_filled(features=features)
    fitted, scored = (
        np.asarray(validation.mask_array(mask, len(residuals))) for mask in (fit_mask, score_mask)
    )
    if np.any(fitted & scored):
        shared = int(np.sum(fitted & scored))
        raise ValueError(f"fit_mask and score_mask must be disjoint, got {shared} rows in both")
    validation.check_finite("features", features, fitted | scored)
    validation.check_finite("residuals", residuals, fitted | scored)
    validation.check_count("max_terms", max_terms, 1)
    validation.check_count("max_scored", max_scored, 1)
    validation.check_number("tolerance", tolerance, 0.0, float("inf"))
    columns = np.column_stack([features, residuals]).astype(np.float64)
    num_fit, num_score = int(fitted.sum()), int(scored.sum())
    max_terms = min(max_terms, features.shape[1], num_fit)
    if max_terms < 1 or num_score < 1:
        raise ValueError(
            f"fit_mask and score_mask must leave rows to fit and to score, got {num_fit} and"
            f" {num_score}"
        )
    halves = _Halves(_factor(columns[fitted]), _factor(columns[scored]))
    best, exact = _choose(halves, max_terms, float(tolerance), max_scored)
    if not best.terms:
        raise ValueError("features must hold a term that can be fitted on the fit rows, got none")
    places = list(best.terms)
    support, coefficients = np.zeros(features.shape[1], bool), np.zeros(features.shape[1])
    support[places] = True
    coefficients[places] = halves.coefficients(best.terms)
    return SupportSearch(
        support=support,
        coefficients=coefficients,
        error=best.error / num_score,
        exact=exact,
        num_scored=max_scored - best.left,
    )
