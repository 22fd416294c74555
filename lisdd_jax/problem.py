"""A diagnosis in words turned into arrays: expressions over the columns of a table, named.

Rows are complete cases: one with a missing value in any column in use is left out and counted.
"""

import collections
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lisdd_jax import complete_cases, expressions, tables
from lisdd_jax.complete_cases import ProblemError, Rows, Selection
from lisdd_jax.expressions.tree import Column, Expression, ExpressionError, Number
from lisdd_jax.library import Library, Term
from lisdd_jax.tables import Table

__all__ = ["INTERCEPT", "Problem", "ProblemError", "Rows", "check", "from_table"]

INTERCEPT = "intercept"


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Named arrays of the rows in use, in float64 on the host.

    Attributes:
      response_name, axis_name: how they are printed.
      physics, library: the columns of design and features.
      design: ``(n, p)``.
      response, axis: ``(n,)``.
      features: ``(n, L)``.
      rows: counts.
      missing: number of missing values by column, for the columns that have any.
    """

    response_name: str
    axis_name: str
    physics: Library
    library: Library
    design: np.ndarray
    response: np.ndarray
    axis: np.ndarray
    features: np.ndarray
    rows: Rows
    missing: Mapping[str, int]


def from_table(
    table: Table,
    *,
    response: str,
    physics: Sequence[str],
    axis: str,
    library: Sequence[str],
    intercept: bool = False,
    where: str | None = None,
) -> Problem:
    """Evaluate the parts of a diagnosis on the complete rows of a table.

    Args:
      table: what ``tables.open_table`` returns.
      response: name of a column, or an expression over columns.
      physics: expressions of the trusted regressors.
      axis: expression of the operating variable.
      library: expressions of the candidate terms.
      intercept: whether the physics has a constant, first.
      where: a condition; rows that do not meet it are left out.

    Returns:
      The problem.

    Raises:
      ExpressionError: an expression does not parse or names an unknown column.
      ProblemError: an expression is repeated, no rows are left, or a value is not finite.
      TableError: the table cannot be read, or a column in use holds text.
    """
    names = table.names
    response_term = _read_term("response", response, names)
    axis_term = _read_term("axis", axis, names)
    physics_terms = _read_library("physics", physics, names, intercept)
    library_terms = _read_library("library", library, names)
    parts = [response_term, axis_term, *physics_terms, *library_terms]
    sources = [_source(part) for part in parts]
    condition = None if where is None else _source(_read_term("where", where, names))
    used = _columns_of(sources)
    raw = table.read([*used, *_columns_of([condition] if condition else [])])
    if not raw or not len(next(iter(raw.values()))):
        reason = "has no rows" if raw else "is not used: no expression names a column"
        raise ProblemError(f"table {str(table.path)!r} {reason}")
    selection = complete_cases.select(raw, used, condition)
    columns = complete_cases.columns_in_use(raw, sources, selection.complete)
    values = [_evaluate(term, columns, selection) for term in parts]
    split = 2 + len(physics_terms)
    return Problem(
        response_name=response_term.name,
        axis_name=axis_term.name,
        physics=physics_terms,
        library=library_terms,
        design=np.stack(values[2:split], axis=1),
        response=values[0],
        axis=values[1],
        features=np.stack(values[split:], axis=1),
        rows=selection.rows,
        missing=selection.missing,
    )


def check(problem: Problem, max_terms: int) -> None:
    """Refuse what no diagnosis can be made from.

    Args:
      problem: the arrays.
      max_terms: terms that a region may have.

    Raises:
      ProblemError: not more rows than coefficients, or the response or the axis is constant.
    """
    num_rows, num_physics = problem.design.shape
    extra = min(max_terms, len(problem.library))
    if num_rows <= num_physics + extra:
        raise ProblemError(
            f"a diagnosis needs more rows than coefficients, got {_count(num_rows, 'row')} in use"
            f" for {num_physics} of the physics and up to {_count(extra, 'term')} of the library"
        )
    for role, name, values in (
        ("response", problem.response_name, problem.response),
        ("axis", problem.axis_name, problem.axis),
    ):
        if np.ptp(values) == 0:
            why = (
                "the noise scale cannot be estimated"
                if role == "response"
                else "it cannot be divided into cells"
            )
            raise ProblemError(
                f"{role} {name!r} is constant ({values[0]:g} in all {num_rows} rows in use), so"
                f" {why}"
            )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _read_term(role: str, text: str, names: Sequence[str]) -> Term:
    """A term from the exact name of a column, whatever its characters, or an expression."""
    if text in names:
        return Term.from_expression(Column(text))
    try:
        return Term.from_expression(expressions.parse(text, names))
    except ExpressionError as error:
        raise ExpressionError(f"{role}: {error}", error.position) from None


def _read_library(
    role: str, texts: Sequence[str], names: Sequence[str], intercept: bool = False
) -> Library:
    terms = [_read_term(role, text, names) for text in texts]
    if intercept:
        terms.insert(0, Term(INTERCEPT, Number(1)))
    if not terms:
        hint = " or an intercept" if role == "physics" else ""
        raise ProblemError(f"{role} must have at least one expression{hint}, got none")
    counts = collections.Counter(str(term.source) for term in terms)
    repeated = [text for text, count in counts.items() if count > 1]
    if repeated:
        beside = " (the intercept is one of them)" if intercept and repeated == ["1"] else ""
        raise ProblemError(
            f"{role} must name each expression once, got"
            f" {', '.join(map(repr, repeated))} more than once{beside}"
        )
    return Library(tuple(terms))


def _source(term: Term) -> Expression:
    """The expression of a term; here every term has one."""
    assert isinstance(term.source, Expression)
    return term.source


def _columns_of(sources: Sequence[Expression]) -> list[str]:
    return list(dict.fromkeys(n for source in sources for n in expressions.column_names(source)))


def _evaluate(term: Term, columns: Mapping[str, np.ndarray], selection: Selection) -> np.ndarray:
    num_rows = selection.rows.used
    try:
        values = np.asarray(term.evaluate(columns, xp=np), np.float64)
    except ExpressionError as error:
        raise ExpressionError(f"{term.name}: {error}") from None
    values = np.broadcast_to(values, (num_rows,))
    bad = ~np.isfinite(values)
    if bad.any():
        first = int(np.argmax(bad))
        row = tables.and_more(selection.positions[first], bad)
        at = ", ".join(f"{name} = {columns[name][first]}" for name in _columns_of([_source(term)]))
        raise ProblemError(
            f"expression {term.name!r} must be finite, got {values[first]} in data row {row}"
            f"{f' (there {at})' if at else ''}; exclude such rows by a row filter"
        )
    return values
