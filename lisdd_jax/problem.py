"""A diagnosis in words turned into arrays: expressions over the columns of a table, named.

Rows are complete cases: one with a missing value in any column in use is left out and counted.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lisdd_jax import expressions, tables
from lisdd_jax.expressions import tree
from lisdd_jax.expressions.tree import Column, Expression, ExpressionError, Membership, Number
from lisdd_jax.library import Library, Term
from lisdd_jax.tables import Table

INTERCEPT = "intercept"


class ProblemError(ValueError):
    """A diagnosis that cannot be set up from the table."""


class Rows(NamedTuple):
    """Where the rows of the table went; ``read`` is the sum of the others.

    Attributes:
      read: rows of the table.
      used: complete rows that the filter lets through.
      dropped: rows with a missing value in a column in use.
      excluded: rows that the filter leaves out.
    """

    read: int
    used: int
    dropped: int
    excluded: int


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
    condition = None if where is None else _read_term("where", where, names).source
    used = _columns_of(part.source for part in parts)
    raw = table.read([*used, *_columns_of([condition])])
    selection = _select_rows(raw, used, condition, table)
    columns = _complete_columns(raw, used, parts, selection.complete)
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


def _columns_of(sources: Iterable[object]) -> list[str]:
    found = (expressions.column_names(s) for s in sources if isinstance(s, Expression))
    return list(dict.fromkeys(name for names in found for name in names))


class _Selection(NamedTuple):
    """Complete rows ``(n,)``, their positions, and the counts."""

    complete: np.ndarray
    positions: np.ndarray
    rows: Rows
    missing: dict[str, int]


def _select_rows(
    raw: Mapping[str, np.ndarray],
    used: Sequence[str],
    condition: object,
    table: Table,
) -> _Selection:
    num_rows = len(next(iter(raw.values()))) if raw else 0
    if not num_rows:
        reason = "has no rows" if raw else "is not used: no expression names a column"
        raise ProblemError(f"table {str(table.path)!r} {reason}")
    holds, unknown = _evaluate_condition(raw, condition, num_rows)
    absent = {name: tables.missing(raw[name]) & (holds | unknown) for name in used}
    incomplete = np.logical_or.reduce([unknown, *absent.values()])
    complete = holds & ~incomplete
    counts = {name: int(rows.sum()) for name, rows in absent.items() if rows.any()}
    rows = Rows(
        read=num_rows,
        used=int(complete.sum()),
        dropped=int(incomplete.sum()),
        excluded=num_rows - int((holds | unknown).sum()),
    )
    if not rows.used:
        raise ProblemError(_no_rows_left(rows, counts))
    return _Selection(complete, np.flatnonzero(complete), rows, counts)


def _evaluate_condition(
    raw: Mapping[str, np.ndarray], condition: object, num_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where the condition holds, and where it is unknown for want of a value."""
    if not isinstance(condition, Expression):
        return np.ones(num_rows, bool), np.zeros(num_rows, bool)
    names = expressions.column_names(condition)
    text = _text_columns([condition])
    columns = {
        name: raw[name] if name in text else tables.numbers(name, raw[name]) for name in names
    }
    try:
        values = np.asarray(expressions.evaluate(condition, columns, xp=np))
    except ExpressionError as error:
        raise ExpressionError(f"where: {error}") from None
    values = np.broadcast_to(values, (num_rows,))
    unknown = np.isnan(values)
    return (values != 0) & ~unknown, unknown


def _no_rows_left(rows: Rows, missing: Mapping[str, int]) -> str:
    worst = max(missing.items(), key=lambda item: item[1], default=None)
    where = f" (most in column {worst[0]!r}: {worst[1]})" if worst else ""
    return (
        f"no rows are left to use: of {rows.read} read, {rows.excluded} do not meet the row filter"
        f" and {rows.dropped} have missing values{where}"
    )


def _text_columns(sources: Iterable[object]) -> set[str]:
    """Columns that are compared with text."""
    nodes = (node for s in sources if isinstance(s, Expression) for node in tree.walk(s))
    return {
        node.column.name
        for node in nodes
        if isinstance(node, Membership) and isinstance(node.options[0], str)
    }


def _complete_columns(
    raw: Mapping[str, np.ndarray],
    used: Sequence[str],
    parts: Sequence[Term],
    complete: np.ndarray,
) -> dict[str, np.ndarray]:
    text = _text_columns(part.source for part in parts)
    columns = {}
    for name in used:
        if name in text:
            columns[name] = raw[name][complete]
            continue
        values = tables.numbers(name, raw[name], complete)
        infinite = complete & np.isinf(values)
        if infinite.any():
            row = int(np.argmax(infinite))
            raise ProblemError(
                f"column {name!r} must be finite, got {values[row]} in data row"
                f" {tables.and_more(row, infinite)}; correct it or exclude it by a row filter"
            )
        columns[name] = values[complete]
    return columns


def _evaluate(term: Term, columns: Mapping[str, np.ndarray], selection: _Selection) -> np.ndarray:
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
        at = ", ".join(f"{name} = {columns[name][first]}" for name in _columns_of([term.source]))
        raise ProblemError(
            f"expression {term.name!r} must be finite, got {values[first]} in data row {row}"
            f"{f' (there {at})' if at else ''}; exclude such rows by a row filter"
        )
    return values
