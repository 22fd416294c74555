"""Which columns an expression uses, and whether a table has them."""

import difflib
from collections.abc import Iterable, Sequence

from lisdd_jax.expressions.tree import (
    Column,
    Constant,
    Expression,
    ExpressionError,
    shorten,
    to_text,
    walk,
)

_MAX_LISTED = 20


def column_names(expression: Expression) -> tuple[str, ...]:
    """Columns that an expression uses, in order of appearance.

    Example:
      >>> from lisdd_jax.expressions import parse
      >>> column_names(parse("b*sin(a) + b"))
      ('b', 'a')
    """
    return tuple(dict.fromkeys(n.name for n in walk(expression) if isinstance(n, Column)))


def check_columns(
    expression: Expression,
    available: Iterable[str],
    *,
    text: str | None = None,
    positions: dict[str, int] | None = None,
) -> None:
    """Check that every column exists and that no constant hides a column.

    Args:
      expression: the tree.
      available: names of the columns at hand.
      text: source for the message; the canonical text where None.
      positions: position of each name in ``text``, counted from 1.

    Raises:
      ExpressionError: a column is unknown (near matches and the available columns are listed), or
        an unquoted ``pi`` or ``e`` is also the name of a column.

    Example:
      >>> from lisdd_jax.expressions import parse
      >>> check_columns(parse("temp^2"), ["temp", "load"])
      >>> check_columns(parse("tmp^2"), ["temp", "load"])  # doctest: +ELLIPSIS
      Traceback (most recent call last):
        ...
      lisdd_jax.expressions...: unknown column 'tmp' in 'tmp^2'; ...
    """
    available = [str(name) for name in available]
    known, positions = set(available), positions or {}
    source = repr(shorten(text if text is not None else to_text(expression)))
    for node in walk(expression):
        name = getattr(node, "name", None)
        position = positions.get(name) if name else None
        where = f"at position {position} of {source}" if position else f"in {source}"
        if isinstance(node, Column) and name not in known:
            raise ExpressionError(
                f"unknown column {name!r} {where}; {suggest(node.name, available)}", position
            )
        if isinstance(node, Constant) and name in known:
            raise ExpressionError(
                f"{name!r} {where} is both a constant and a column; write `{name}` in backticks"
                " for the column, or the number itself",
                position,
            )


def suggest(name: str, available: Sequence[str]) -> str:
    """What to say beside an unknown name: the nearest ones, and which there are.

    Example:
      >>> suggest("tmp", ["temp", "load"])
      "did you mean 'temp'? available columns: temp, load"
    """
    near = difflib.get_close_matches(name, available, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(repr(word) for word in near)}? " if near else ""
    listed = ", ".join(available[:_MAX_LISTED]) or "none"
    more = len(available) - _MAX_LISTED
    return f"{hint}available columns: {listed}" + (f" and {more} more" if more > 0 else "")
