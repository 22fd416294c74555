"""Complete cases: which rows of a table are used, which are left out and why."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lisdd_jax import expressions
from lisdd_jax.expressions import tree
from lisdd_jax.expressions.tree import Expression, ExpressionError, Membership
from lisdd_jax.library import Term
from lisdd_jax.tables.columns import and_more, as_text, missing, numbers
from lisdd_jax.tables.errors import ProblemError


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


class CompleteCases(NamedTuple):
    """The rows in use.

    Attributes:
      complete: ``(n,)`` bool.
      positions: ``(rows.used,)`` where they stand in the table, from 0.
      rows: counts.
      missing: number of missing values by column, for the columns that have any.
    """

    complete: np.ndarray
    positions: np.ndarray
    rows: Rows
    missing: dict[str, int]


def select(
    raw: Mapping[str, np.ndarray],
    used: Sequence[str],
    condition: Expression | None,
) -> CompleteCases:
    """Choose the rows that meet a condition and have a value in every column in use.

    Args:
      raw: columns ``(n,)`` as read, those of the condition included.
      used: names of the columns that must have values.
      condition: over the columns; a row without the values that it needs is dropped.

    Returns:
      The selection.

    Raises:
      ProblemError: no rows are left.
      ExpressionError, TableError: the condition does not fit the columns.
    """
    num_rows = len(next(iter(raw.values())))
    holds, unknown = np.ones(num_rows, bool), np.zeros(num_rows, bool)
    if condition is not None:
        holds, unknown = evaluate_condition("where", raw, condition)
    absent = {name: missing(raw[name]) & (holds | unknown) for name in used}
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
    return CompleteCases(complete, np.flatnonzero(complete), rows, counts)


def evaluate_condition(
    role: str, raw: Mapping[str, np.ndarray], condition: Expression
) -> tuple[np.ndarray, np.ndarray]:
    """Where a condition holds, and where it is unknown for want of a value.

    Args:
      role: of the condition, for messages.
      raw: columns ``(n,)`` as read.
      condition: over the columns.

    Returns:
      Two arrays ``(n,)`` bool.

    Raises:
      ExpressionError, TableError: the condition does not fit the columns.
    """
    num_rows = len(next(iter(raw.values())))
    names = expressions.column_names(condition)
    text = text_columns([condition])
    columns = {
        name: as_text(raw[name]) if name in text else numbers(name, raw[name]) for name in names
    }
    try:
        values = np.asarray(expressions.evaluate(condition, columns, xp=np))
    except ExpressionError as error:
        raise ExpressionError(f"{role}: {error}") from None
    values = np.broadcast_to(values, (num_rows,))
    unknown = np.isnan(values)
    return (values != 0) & ~unknown, unknown


def _no_rows_left(rows: Rows, counts: Mapping[str, int]) -> str:
    worst = max(counts.items(), key=lambda item: item[1], default=None)
    where = f" (most in column {worst[0]!r}: {worst[1]})" if worst else ""
    return (
        f"no rows are left to use: of {rows.read} read, {rows.excluded} do not meet the row filter"
        f" and {rows.dropped} have missing values{where}"
    )


def text_columns(sources: Iterable[Expression]) -> set[str]:
    """Columns that are compared with text."""
    nodes = (node for source in sources for node in tree.walk(source))
    return {
        node.column.name
        for node in nodes
        if isinstance(node, Membership) and isinstance(node.options[0], str)
    }


def columns_in_use(
    raw: Mapping[str, np.ndarray], sources: Sequence[Expression], complete: np.ndarray
) -> dict[str, np.ndarray]:
    """Columns of expressions on the rows in use: text where compared with text, else float64.

    Args:
      raw: columns ``(n,)`` as read.
      sources: the expressions.
      complete: ``(n,)`` bool, rows in use.

    Returns:
      Arrays by name.

    Raises:
      TableError, ProblemError: a value in use is no number, or infinite.
    """
    text = text_columns(sources)
    used = dict.fromkeys(name for s in sources for name in expressions.column_names(s))
    columns = {}
    for name in used:
        if name in text:
            columns[name] = as_text(raw[name][complete])
            continue
        values = numbers(name, raw[name], complete)
        infinite = complete & np.isinf(values)
        if infinite.any():
            row = int(np.argmax(infinite))
            raise ProblemError(
                f"column {name!r} must be finite, got {values[row]} in data row"
                f" {and_more(row, infinite)}; correct it or exclude it by a row filter"
            )
        columns[name] = values[complete]
    return columns


def term_values(
    term: Term, columns: Mapping[str, np.ndarray], selection: CompleteCases
) -> np.ndarray:
    """Value of a term at every row in use.

    Args:
      term: an expression.
      columns: of the rows in use.
      selection: of these rows.

    Returns:
      ``(n,)`` float64.

    Raises:
      ExpressionError: it does not fit the columns.
      ProblemError: a value is NaN or infinite; says where.
    """
    try:
        values = np.asarray(term.evaluate(columns, xp=np), np.float64)
    except ExpressionError as error:
        raise ExpressionError(f"{term.name}: {error}") from None
    values = np.broadcast_to(values, (selection.rows.used,))
    bad = ~np.isfinite(values)
    if bad.any():
        first = int(np.argmax(bad))
        row = and_more(int(selection.positions[first]), bad)
        assert isinstance(term.source, Expression)
        term_columns = expressions.column_names(term.source)
        at = ", ".join(f"{name} = {columns[name][first]}" for name in term_columns)
        raise ProblemError(
            f"expression {term.name!r} must be finite, got {values[first]} in data row {row}"
            f"{f' (there {at})' if at else ''}; exclude such rows by a row filter"
        )
    return values
