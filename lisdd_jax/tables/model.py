"""The corrected model by names: what is kept of a diagnosis to predict the rows of another table.

The response is the physics everywhere, and the missing terms within each region::

    response = sum_j c_j physics_j + sum_k 1[lower_k <= axis < upper_k] sum_l w_kl term_l
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from lisdd_jax import expressions
from lisdd_jax.expressions.tree import Expression
from lisdd_jax.library import Term
from lisdd_jax.results import Diagnosis, in_interval
from lisdd_jax.tables import as_table, categories, complete_cases
from lisdd_jax.tables.columns import Kind, kind, missing
from lisdd_jax.tables.errors import ProblemError, list_some
from lisdd_jax.tables.parts import columns_of, source_of
from lisdd_jax.tables.problem import Problem
from lisdd_jax.tables.table import Levels, Table


@dataclass(frozen=True)
class WeightedTerm:
    """A term and its coefficient."""

    term: Term
    coefficient: float


@dataclass(frozen=True)
class Correction:
    """The missing terms of one region; an end is infinite where the region goes on."""

    lower: float
    upper: float
    terms: tuple[WeightedTerm, ...]

    def contains(self, axis: np.ndarray) -> np.ndarray:
        """Whether values ``(n,)`` of the axis lie in the region."""
        return np.asarray(
            in_interval(
                axis, self.lower, self.upper, math.isinf(self.lower), math.isinf(self.upper)
            )
        )


@dataclass(frozen=True, kw_only=True)
class Model:
    """A fitted model over the columns of a table.

    Attributes:
      response, axis: what is predicted, and along which variable the regions lie.
      physics: the trusted part.
      corrections: the missing parts, by region.
      lower, upper: range of the axis in the rows of the fit.
      levels: of the categories, by column.
      dates: columns that hold dates or durations, which are used in days.
    """

    response: Term
    axis: Term
    physics: tuple[WeightedTerm, ...]
    corrections: tuple[Correction, ...]
    lower: float
    upper: float
    levels: Mapping[str, Levels]
    dates: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Predictions at every row of a table; NaN where it lacks a value that they need.

    Attributes:
      physics: ``(n,)`` of the trusted physics alone.
      corrected: ``(n,)`` with the missing terms.
      region: ``(n,)`` int, number of the region that a row lies in, from 1; 0 for none, -1 where
        the axis has no value.
      response: ``(n,)`` what was measured, NaN where it is missing; None where the table lacks it.
      axis: ``(n,)``.
      design: ``(n, p)`` terms of the physics.
      features: ``(n, s)`` terms of every correction.
      notes: sentences on rows that are not predicted, or lie beyond the rows of the fit.
    """

    physics: np.ndarray
    corrected: np.ndarray
    region: np.ndarray
    response: np.ndarray | None
    axis: np.ndarray
    design: np.ndarray
    features: tuple[np.ndarray, ...]
    notes: tuple[str, ...]

    def columns(self) -> dict[str, np.ndarray]:
        """Columns ``(n,)`` to write: row (from 1), response, predictions, residuals, region."""
        found = {"row": np.arange(1, len(self.physics) + 1)}
        if self.response is not None:
            found["response"] = self.response
        found |= {"physics": self.physics, "corrected": self.corrected}
        found["region"] = np.array([None if k < 0 else k for k in self.region.tolist()], object)
        if self.response is not None:
            found["residual_physics"] = self.response - self.physics
            found["residual_corrected"] = self.response - self.corrected
        return found


def from_diagnosis(found: Diagnosis, problem: Problem) -> Model:
    """What is kept of the diagnosis of a problem.

    Args:
      found: what ``diagnose`` made of the arrays of the problem.
      problem: the names.
    """
    found = jax.device_get(found)
    table = found.regions
    corrections = []
    for k in np.flatnonzero(table.present).tolist():
        lower = -math.inf if table.open_below[k] else float(table.lower[k])
        upper = math.inf if table.open_above[k] else float(table.upper[k])
        active = np.flatnonzero(table.support[k]).tolist()
        weighted = (
            WeightedTerm(problem.library.terms[j], float(table.coefficients[k][j])) for j in active
        )
        corrections.append(Correction(lower, upper, tuple(weighted)))
    return Model(
        response=Term(problem.response_name, problem.response_source),
        axis=Term(problem.axis_name, problem.axis_source),
        physics=tuple(
            WeightedTerm(term, float(value))
            for term, value in zip(problem.physics, found.coefficients, strict=True)
        ),
        corrections=tuple(corrections),
        lower=float(problem.axis.min()),
        upper=float(problem.axis.max()),
        levels=dict(problem.levels),
        dates=problem.dates,
    )


def predict(model: Model, data: Any) -> Predictions:
    """Predict the rows of a table, with and without the correction.

    Args:
      model: fitted.
      data: a table, or what ``tables.as_table`` takes, with the columns that the model uses.

    Raises:
      ExpressionError: a column is unknown.
      ProblemError: the model has no coefficients, or a column holds dates in one table only.
      TableError: the table cannot be read, or a column in use holds no numbers.
    """
    table = as_table(data)
    weighted = check_defined(model)
    terms = [model.axis, *(w.term for w in weighted)]
    for term in terms:
        expressions.check_columns(source_of(term), table.names)
    measured = set(columns_of([model.response])) <= set(table.names)
    used = [*terms, model.response] if measured else terms
    rows = _Rows(table.read(columns_of(used)), model.levels, table.num_rows)
    _check_dates(model, rows.raw, list(map(source_of, used)))
    axis = rows.values(model.axis)
    design = rows.columns(model.physics)
    features = tuple(rows.columns(part.terms) for part in model.corrections)
    physics = _sum(design, model.physics)
    corrected, region = physics.copy(), np.where(np.isnan(axis), -1, 0)
    for number, part in enumerate(model.corrections, 1):
        inside = part.contains(axis)
        missing_part = _sum(features[number - 1], part.terms)
        corrected = np.where(inside, corrected + missing_part, corrected)
        region[inside] = number
    # Whether a row without a place on the axis lies in a region is not known.
    corrected[np.isnan(axis)] = np.nan
    return Predictions(
        physics=physics,
        corrected=corrected,
        region=region,
        response=rows.values(model.response) if measured else None,
        axis=axis,
        design=design,
        features=features,
        notes=(*rows.new_levels(), *_limits(model, axis, corrected)),
    )


def evaluate_term(term: Term, table: Table) -> np.ndarray:
    """Values ``(n,)`` of a term at the rows of a table; NaN where it has none.

    Raises:
      ExpressionError: a column is unknown.
      TableError: a column in use holds no numbers.
    """
    expressions.check_columns(source_of(term), table.names)
    return _Rows(table.read(columns_of([term])), {}, table.num_rows).values(term)


def check_defined(model: Model) -> list[WeightedTerm]:
    """All terms of a model; refused where a coefficient is undefined.

    Raises:
      ProblemError: one is.
    """
    weighted = [*model.physics, *(w for part in model.corrections for w in part.terms)]
    if not all(math.isfinite(w.coefficient) for w in weighted):
        raise ProblemError("the diagnosis left coefficients undefined, so it predicts nothing")
    return weighted


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a table, at which terms have values where their columns have; NaN elsewhere."""

    raw: Mapping[str, np.ndarray]
    levels: Mapping[str, Levels]
    num_rows: int

    def values(self, term: Term) -> np.ndarray:
        source = source_of(term)
        absent = [missing(self.raw[n]) | self._is_new(n) for n in expressions.column_names(source)]
        complete = ~np.logical_or.reduce([np.zeros(self.num_rows, bool), *absent])
        columns = complete_cases.columns_in_use(self.raw, [source], complete)
        found = np.full(self.num_rows, np.nan)
        found[complete] = expressions.evaluate(source, columns, xp=np)
        return np.where(np.isfinite(found), found, np.nan)

    def columns(self, weighted: Sequence[WeightedTerm]) -> np.ndarray:
        values = [self.values(w.term) for w in weighted]
        return np.stack(values, axis=1) if values else np.zeros((self.num_rows, 0))

    def new_levels(self) -> list[str]:
        """Sentences on levels that the fit has not seen."""
        notes = []
        for name in self.levels:
            new = self._is_new(name)
            if new.any():
                listed = list_some(sorted(set(map(str, self.raw[name][new]))))
                notes.append(
                    f"column {name!r} holds {listed} in {int(new.sum())} of {self.num_rows} rows,"
                    " which the fit has not seen"
                )
        return notes

    def _is_new(self, name: str) -> np.ndarray:
        if name not in self.levels or name not in self.raw:
            return np.zeros(self.num_rows, bool)
        return categories.unknown(name, self.raw[name], self.levels[name])


def _sum(columns: np.ndarray, weighted: Sequence[WeightedTerm]) -> np.ndarray:
    # Term by term, so that a row has the same prediction in every table.
    return sum(
        (w.coefficient * column for w, column in zip(weighted, columns.T, strict=True)),
        np.zeros(len(columns)),
    )


def _check_dates(
    model: Model, raw: Mapping[str, np.ndarray], sources: Sequence[Expression]
) -> None:
    """Refuse a column of dates that held numbers, and the reverse: the numbers differ in kind."""
    text = complete_cases.text_columns(sources)
    for name, values in raw.items():
        found = kind(values)
        if name in text or found is Kind.EMPTY:
            continue
        if (found in (Kind.DATE, Kind.DURATION)) != (name in model.dates):
            had, has = ("dates", "none") if name in model.dates else ("no dates", "dates")
            raise ProblemError(f"column {name!r} held {had} when the model was fitted, now {has}")


def _limits(model: Model, axis: np.ndarray, corrected: np.ndarray) -> list[str]:
    notes = []
    blank = int(np.isnan(corrected).sum())
    if blank:
        notes.append(f"{blank} of {len(corrected)} rows have no prediction for want of a value")
    # Another file may hold the same numbers with fewer digits.
    slack = 1e-9 * (model.upper - model.lower)
    beyond = int(((axis < model.lower - slack) | (axis > model.upper + slack)).sum())
    if beyond:
        notes.append(
            f"{beyond} of {len(axis)} rows lie beyond the fit, which had {model.axis.name} from"
            f" {model.lower:.6g} to {model.upper:.6g}"
        )
    return notes
