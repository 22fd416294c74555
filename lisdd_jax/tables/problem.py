"""A diagnosis in words turned into arrays: expressions over the columns of a table, named.

Rows are complete cases: one with a missing value in any column in use is left out and counted.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.expressions.tree import Column, Expression, Number
from lisdd_jax.library import Library, Term
from lisdd_jax.tables import as_table, complete_cases, parts
from lisdd_jax.tables.columns import and_more, describe_dates
from lisdd_jax.tables.complete_cases import CompleteCases, Rows
from lisdd_jax.tables.errors import ProblemError
from lisdd_jax.tables.parts import INTERCEPT, Part, read_term, source_of
from lisdd_jax.tables.table import Levels, Table

__all__ = ["INTERCEPT", "Problem", "ProblemError", "Rows", "check_problem", "from_table"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Named arrays of the rows in use, in float64 on the host.

    Attributes:
      response_name, axis_name: how they are printed.
      response_source, axis_source: their expressions.
      physics, library: the columns of design and features.
      design: ``(n, p)``.
      response, axis: ``(n,)``.
      features: ``(n, L)``.
      block: ``(n,)`` int, label of the block of dependent rows, from 0; None for none.
      time: ``(n,)`` when a row was measured; days where it holds dates; None for unknown.
      trusted: ``(n,)`` bool, rows on which the law is vouched for; None for unsaid.
      noise_scale: ``(n,)`` relative size of the measurement error, positive; None for equal.
      rows: counts.
      positions: ``(n,)`` where the rows stand in the table, from 0.
      missing: number of missing values by column, for the columns that have any.
      levels: of the categories among the terms, by column.
      dates: columns that hold dates (used as days since 1970-01-01 UTC) or durations (as days).
      notes: sentences on how the table was read.
    """

    response_name: str
    axis_name: str
    response_source: Expression
    axis_source: Expression
    physics: Library
    library: Library
    design: np.ndarray
    response: np.ndarray
    axis: np.ndarray
    features: np.ndarray
    block: np.ndarray | None = None
    time: np.ndarray | None = None
    trusted: np.ndarray | None = None
    noise_scale: np.ndarray | None = None
    rows: Rows
    positions: np.ndarray
    missing: Mapping[str, int]
    levels: Mapping[str, Levels] = field(default_factory=dict)
    dates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def from_table(
    data: Any,
    *,
    response: str,
    physics: Iterable[str | Expression | Term],
    axis: str,
    library: Iterable[str | Expression | Term],
    intercept: bool = False,
    where: str | None = None,
    block: str | None = None,
    time: str | None = None,
    trusted: str | None = None,
    noise_scale: str | None = None,
) -> Problem:
    """Evaluate the parts of a diagnosis on the complete rows of a table.

    Args:
      data: a table, or what ``tables.as_table`` takes.
      response: name of a column, or an expression over columns, as in all that follows.
      physics: trusted regressors; ``C(column)`` and a column of text stand for indicators.
      axis: operating variable.
      library: candidate terms, as in ``physics``.
      intercept: whether the physics has a constant, first.
      where: a condition; rows that do not meet it are left out.
      block: what rows of one block have in common; its values are labels, of any type.
      time: when a row was measured.
      trusted: a condition; on the rows that meet it the law is vouched for.
      noise_scale: relative size of the measurement error.

    Returns:
      The problem.

    Raises:
      ExpressionError: an expression does not parse or names an unknown column.
      ProblemError: an expression is repeated, no rows are left, or a value is not finite.
      TableError: the table cannot be read, or a column in use holds text.

    Example:
      >>> columns = {"x": [0.0, 1.0, 2.0], "y": [1.0, 3.0, None]}
      >>> found = from_table(
      ...     columns, response="y", physics=["x"], axis="x", library=["x^2"], intercept=True
      ... )
      >>> found.physics.names, found.rows.used, found.rows.dropped
      (('intercept', 'x'), 2, 1)
    """
    table = as_table(data)
    asked = _parse(
        table.names,
        {"response": response, "axis": axis, "time": time, "noise_scale": noise_scale},
        {"physics": physics, "library": library},
        {"where": where, "trusted": trusted, "block": block},
    )
    if intercept:
        asked.several["physics"].insert(0, Term(INTERCEPT, Number(1)))
    raw, selection = _select(table, asked)
    return _evaluate(table, asked, raw, selection)


class _Asked(NamedTuple):
    """What is asked of a table, by role: single terms, lists of them, labels and conditions."""

    single: dict[str, Term]
    several: dict[str, list[Part]]
    other: dict[str, Term]


def _parse(
    names: Sequence[str],
    single: Mapping[str, str | None],
    several: Mapping[str, Iterable[str | Expression | Term]],
    other: Mapping[str, str | None],
) -> _Asked:
    return _Asked(
        {role: read_term(role, text, names) for role, text in single.items() if text is not None},
        {role: parts.read_parts(role, given, names) for role, given in several.items()},
        {role: read_term(role, text, names) for role, text in other.items() if text is not None},
    )


def _select(table: Table, asked: _Asked) -> tuple[dict[str, np.ndarray], CompleteCases]:
    """Columns in use, and the rows that have values in all of them."""
    other = dict(asked.other)
    conditions = [other.pop(role) for role in ("where", "trusted") if role in other]
    several = (part for given in asked.several.values() for part in given)
    used = parts.columns_of([*asked.single.values(), *several, *other.values()])
    raw = table.read([*used, *parts.columns_of(conditions)])
    if not raw or not table.num_rows:
        reason = "has no rows" if raw else "is not used: no expression names a column"
        raise ProblemError(f"table {table.name!r} {reason}")
    where = asked.other.get("where")
    return raw, complete_cases.select(raw, used, None if where is None else source_of(where))


def _evaluate(
    table: Table, asked: _Asked, raw: Mapping[str, np.ndarray], selection: CompleteCases
) -> Problem:
    expanded = {
        role: parts.expand(role, given, raw, table.levels, selection.complete)
        for role, given in asked.several.items()
    }
    codings = [coding for found in expanded.values() for coding in found.codings]
    lists = {role: found.terms for role, found in expanded.items()}
    terms = [*asked.single.values(), *itertools.chain(*lists.values())]
    sources = [source_of(term) for term in terms]
    columns = complete_cases.columns_in_use(raw, sources, selection.complete)
    values, matrices = _values(asked.single, lists, columns, selection)
    trusted, on_trust = _trusted(asked.other.get("trusted"), raw, selection)
    moments = describe_dates(raw, columns, selection.complete)
    return Problem(
        response_name=asked.single["response"].name,
        axis_name=asked.single["axis"].name,
        response_source=source_of(asked.single["response"]),
        axis_source=source_of(asked.single["axis"]),
        physics=lists["physics"],
        library=lists["library"],
        design=matrices["physics"],
        features=matrices["library"],
        **values,
        block=_labels(asked.other.get("block"), raw, selection),
        trusted=trusted,
        rows=selection.rows,
        positions=selection.positions,
        missing=selection.missing,
        levels={coding.column: coding.levels for coding in codings},
        dates=tuple(moments),
        notes=(*table.notes, *(coding.note for coding in codings), *moments.values(), *on_trust),
    )


def _values(
    single: Mapping[str, Term],
    lists: Mapping[str, Library],
    columns: Mapping[str, np.ndarray],
    selection: CompleteCases,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """By role, values ``(n,)`` of single terms and ``(n, k)`` of lists of ``k`` terms."""

    def evaluated(term: Term) -> np.ndarray:
        return complete_cases.term_values(term, columns, selection)

    values = {role: evaluated(term) for role, term in single.items()}
    matrices = {
        role: np.stack([evaluated(term) for term in terms], axis=1) for role, terms in lists.items()
    }
    return values, matrices


def _labels(
    term: Term | None, raw: Mapping[str, np.ndarray], selection: CompleteCases
) -> np.ndarray | None:
    """Labels of blocks as integers from 0, in the order of the values."""
    if term is None:
        return None
    source = source_of(term)
    if isinstance(source, Column) and raw[source.name].dtype.kind == "O":
        values = raw[source.name][selection.complete].astype(str)
    else:
        columns = complete_cases.columns_in_use(raw, [source], selection.complete)
        values = complete_cases.term_values(term, columns, selection)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _trusted(
    term: Term | None, raw: Mapping[str, np.ndarray], selection: CompleteCases
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Rows on which the law is vouched for, and a note where that is not known."""
    if term is None:
        return None, ()
    holds, unknown = complete_cases.evaluate_condition("trusted", raw, source_of(term))
    holds, unknown = (rows[selection.complete] for rows in (holds, unknown))
    if not holds.any():
        raise ProblemError(f"trusted: no row in use meets the condition {term.name!r}")
    if not unknown.any():
        return holds, ()
    return holds, (
        f"whether {term.name!r} holds is unknown in {int(unknown.sum())} of {len(unknown)} rows in"
        " use for missing values; they do not count as trusted",
    )


def check_problem(problem: Problem, max_terms: int) -> None:
    """Refuse what no diagnosis can be made from.

    Args:
      problem: the arrays.
      max_terms: terms that a region may have.

    Raises:
      ProblemError: not more rows than coefficients, the response or the axis is constant, a noise
        scale is not positive, or there is a single block.
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
    if problem.noise_scale is not None and not np.all(problem.noise_scale > 0):
        bad = ~(problem.noise_scale > 0)
        row = and_more(int(problem.positions[np.argmax(bad)]), bad)
        value = problem.noise_scale[np.argmax(bad)]
        raise ProblemError(f"noise_scale must be positive, got {value:g} in data row {row}")
    if problem.block is not None and problem.block.max() == 0:
        raise ProblemError("block must part the rows in use into at least two blocks, got one")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
