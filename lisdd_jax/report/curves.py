"""What figures show of the rows: the physics, the missing terms, and what they leave."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lisdd_jax import expressions
from lisdd_jax.library import Term
from lisdd_jax.report.summary import Region, Summary
from lisdd_jax.tables.parts import source_of
from lisdd_jax.tables.problem import Problem


@dataclass(frozen=True, eq=False)
class Curves:
    """A diagnosis at its rows ``(n,)``.

    Attributes:
      summary: of the diagnosis.
      problem: its rows.
    """

    summary: Summary
    problem: Problem

    @functools.cached_property
    def coefficients(self) -> np.ndarray:
        """Of the physics ``(p,)``."""
        return np.array([estimate.coefficient for estimate in self.summary.physics])

    @functools.cached_property
    def physics(self) -> np.ndarray:
        """The trusted physics."""
        return self.problem.design @ self.coefficients

    def missing(self, region: Region) -> np.ndarray:
        """The missing terms of a region, at all rows."""
        names = self.problem.library.names
        columns = [names.index(term.name) for term in region.terms]
        weights = np.array([term.coefficient for term in region.terms])
        return self.problem.features[:, columns] @ weights

    @functools.cached_property
    def corrected(self) -> np.ndarray:
        """The physics with the missing terms in their regions."""
        total = self.physics
        for region in self.summary.regions:
            inside = region.contains(self.problem.axis)
            total = total + np.where(inside, self.missing(region), 0.0)
        return total

    @functools.cached_property
    def left(self) -> np.ndarray:
        """Response less corrected model, over the rows' relative noise."""
        noise = self.problem.noise_scale
        return (self.problem.response - self.corrected) / (1.0 if noise is None else noise)

    @functools.cached_property
    def outlier(self) -> np.ndarray:
        """Whether a row was set aside, bool."""
        return np.isin(self.problem.positions, self.summary.evidence.outliers)

    @functools.cached_property
    def others(self) -> tuple[Term, ...]:
        """Terms of the physics that are no function of the axis."""
        return tuple(term for term in self.problem.physics if not self._follows_axis(term))

    @functools.cached_property
    def shift(self) -> np.ndarray:
        """What the terms that are no function of the axis add to the physics beyond their mean."""
        chosen = [not self._follows_axis(term) for term in self.problem.physics]
        columns = self.problem.design[:, chosen]
        return (columns - columns.mean(axis=0)) @ self.coefficients[chosen]

    def _follows_axis(self, term: Term) -> bool:
        of_axis = expressions.column_names(self.problem.axis_source)
        return set(expressions.column_names(source_of(term))) <= set(of_axis)

    @functools.cached_property
    def record(self) -> np.ndarray:
        """Rows in the order of time where it is known, else as in the table."""
        time = self.problem.time
        return np.arange(len(self.left)) if time is None else np.argsort(time, kind="stable")


def thinned(order: np.ndarray, most: int) -> np.ndarray:
    """Rows of an order, evenly spaced, at most so many; the first and the last among them."""
    if len(order) <= most:
        return order
    return order[np.unique(np.linspace(0, len(order) - 1, most).round().astype(int))]


def is_line(values: Sequence[float] | np.ndarray) -> bool:
    """Whether values over the sorted axis look like a curve: it hardly turns back."""
    steps = np.abs(np.diff(values))
    return bool(len(values) > 1 and steps.sum() <= 3 * np.ptp(values) + 1e-12)
