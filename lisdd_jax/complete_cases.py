"""Complete cases: which rows of a table are used, which are left out and why."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lisdd_jax import expressions, tables
from lisdd_jax.expressions import tree
from lisdd_jax.expressions.tree import Expression, ExpressionError, Membership


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


class Selection(NamedTuple):
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
) -> Selection:
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
    return Selection(complete, np.flatnonzero(complete), rows, counts)


def _evaluate_condition(
    raw: Mapping[str, np.ndarray], condition: Expression | None, num_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where the condition holds, and where it is unknown for want of a value."""
    if condition is None:
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


def _text_columns(sources: Iterable[Expression]) -> set[str]:
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
    text = _text_columns(sources)
    used = dict.fromkeys(name for s in sources for name in expressions.column_names(s))
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
