"""A table: named columns, read when they are asked for."""

import collections
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lisdd_jax.expressions import suggest
from lisdd_jax.tables.columns import is_number
from lisdd_jax.tables.errors import TableError

Levels = tuple[str, ...] | tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Named columns of one length.

    Attributes:
      name: of the file, for messages; ``data`` for arrays and frames.
      names: of the columns, in order, each once.
      num_rows: of every column.
      fetch: the values ``(n,)`` of a column by name, as ``tables.columns`` describes them.
      levels: the declared order of the levels of a categorical column.
      notes: sentences on how the file was read where that had to be found out.

    Example:
      >>> from lisdd_jax.tables import as_table
      >>> table = as_table({"x": [1.0, 2.0], "kind": ["a", "b"]})
      >>> table.names, table.num_rows
      (('x', 'kind'), 2)
    """

    name: str
    names: tuple[str, ...]
    num_rows: int
    fetch: Callable[[str], np.ndarray]
    levels: dict[str, Levels] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def read(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Columns by name.

        Args:
          names: of columns.

        Returns:
          Arrays ``(n,)``.

        Raises:
          TableError: a column is unknown, or the file cannot be read to its end.
        """
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            if name not in self.names:
                raise TableError(f"unknown column {name!r}; {suggest(name, self.names)}")
        return {name: self.fetch(name) for name in wanted}


def checked_names(table: str, given: Iterable[Any]) -> tuple[str, ...]:
    """Names of columns as text, without surrounding blanks, in place of none ``unnamed 3``.

    Args:
      table: name for messages.
      given: as the table has them.

    Raises:
      TableError: a name is repeated, or the first row of a file holds no names.
    """
    names = [str(name).strip() for name in given]
    counts = collections.Counter(name for name in names if name)
    repeated = [f"{name!r} {count} times" for name, count in counts.items() if count > 1]
    if repeated:
        raise TableError(f"table {table!r} must name each column once, got {', '.join(repeated)}")
    if not counts:
        raise TableError(f"table {table!r} has no column names in its first row")
    if all(isinstance(name, str) and is_number(name) for name in counts):
        raise TableError(
            f"table {table!r} must name its columns (a file in its first row), got numbers only"
        )
    return tuple(name or f"unnamed {k + 1}" for k, name in enumerate(names))
