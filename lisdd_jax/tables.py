"""Reading named columns from a CSV or Parquet file.

Nothing is guessed in silence: a file that is not what it seems, a repeated name, a row with too
many values are refused in one sentence that says what to change. What pandas takes for missing
(an empty field, ``NA``, ``NaN``, ``null``) is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lisdd_jax import table_files
from lisdd_jax.table_files import SUFFIXES, TableError

__all__ = ["SUFFIXES", "Table", "TableError", "and_more", "missing", "numbers", "open_table"]


@dataclass(frozen=True)
class Table:
    """A table on disk: where it is, and the names of its columns.

    Attributes:
      path: the file.
      names: in file order, without surrounding blanks.
      separator: between the values of a row; None for Parquet.
    """

    path: Path
    names: tuple[str, ...]
    separator: str | None

    def read(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Columns by name.

        Args:
          names: columns of the table.

        Returns:
          Arrays ``(n,)`` by name: numeric ones as they are, any other as objects in which a missing
          value is NaN or None.

        Raises:
          TableError: the file cannot be read to its end.
        """
        wanted = list(dict.fromkeys(names))
        if self.separator is None:
            frame = table_files.read_parquet(self.path, wanted)
            return {name: _array(frame[name]) for name in wanted}
        frame = table_files.read_csv(self.path, self.separator)
        if frame.shape[1] != len(self.names):
            raise TableError(
                f"table {str(self.path)!r} has {frame.shape[1]} columns under"
                f" {len(self.names)} names"
            )
        return {name: _array(frame.iloc[:, self.names.index(name)]) for name in wanted}


def open_table(path: str | Path) -> Table:
    """Look at a file and read the names of its columns.

    Args:
      path: a CSV file in UTF-8 with one row of names (values parted by commas, semicolons or
        tabs), or a Parquet file.

    Returns:
      The table; its columns are read by ``Table.read``.

    Raises:
      TableError: the file is missing, unreadable, empty, not text, or its names are repeated.
    """
    path = Path(path)
    start = table_files.first_bytes(path)
    if start.startswith(b"PAR1") or path.suffix.lower() in table_files.PARQUET_SUFFIXES:
        names, separator = table_files.parquet_names(path), None
    else:
        names, separator = table_files.csv_names(path, start)
    table_files.check_names(path, names)
    return Table(path, tuple(names), separator)


def numbers(name: str, values: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """A column as float64, with NaN for missing values.

    Args:
      name: of the column, for the message.
      values: ``(n,)`` as ``Table.read`` returns them.
      rows: ``(n,)`` bool, rows that must hold numbers; all where None. What does not read as a
        number elsewhere becomes NaN.

    Returns:
      ``(n,)`` float64.

    Raises:
      TableError: a value is text, a date or the like; says column, row (from 1) and value.
    """
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    pandas = table_files.import_pandas()
    found = pandas.to_numeric(pandas.Series(values), errors="coerce").to_numpy(np.float64)
    bad = np.isnan(found) & ~missing(values)
    if rows is not None:
        bad &= rows
    if bad.any():
        row = int(np.argmax(bad))
        value = str(values[row])
        hint = "; write decimals with a point" if _is_decimal_comma(value) else ""
        raise TableError(
            f"column {name!r} must hold numbers, got {_shorten(value)!r} in data row"
            f" {and_more(row, bad)}{hint}"
        )
    return found


def and_more(row: int, bad: np.ndarray) -> str:
    """Number of a row, counted from 1, and how many more are like it."""
    more = int(bad.sum()) - 1
    return f"{row + 1}" + (f" and {more} more" if more else "")


def missing(values: np.ndarray) -> np.ndarray:
    """Where a column has no value ``(n,)``."""
    if values.dtype.kind in "iub":
        return np.zeros(values.shape, bool)
    return np.asarray(table_files.import_pandas().isna(values), bool)


def _is_decimal_comma(text: str) -> bool:
    return text.count(",") == 1 and table_files.is_number(text.replace(",", "."))


def _shorten(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[:width] + "..."


def _array(column: Any) -> np.ndarray:
    if column.dtype.kind in "fiub" and isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    if column.dtype.kind in "mM":
        # As text, so that no time ever passes for a number.
        column = column.astype(str).where(column.notna(), None)
    return column.to_numpy(dtype=object)
