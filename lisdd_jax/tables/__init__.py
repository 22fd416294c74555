"""Named columns in: files, data frames and arrays as one kind of table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lisdd_jax.tables import frames, readers
from lisdd_jax.tables.dialect import ReadOptions
from lisdd_jax.tables.errors import ProblemError, SpecError, TableError
from lisdd_jax.tables.readers import read_table
from lisdd_jax.tables.sources import STANDARD_INPUT, SUFFIXES
from lisdd_jax.tables.table import Table

__all__ = [
    "STANDARD_INPUT",
    "SUFFIXES",
    "ProblemError",
    "ReadOptions",
    "SpecError",
    "Table",
    "TableError",
    "as_table",
    "read_table",
]


def as_table(data: Any) -> Table:
    """The table that anything with named columns stands for.

    Args:
      data: a path; a data frame of pandas or Polars, or any object with an Arrow stream; a mapping
        from names to arrays; or a table, which is returned as it is.

    Raises:
      TableError: it cannot be read.
      TypeError: it is none of these.

    Example:
      >>> as_table({"x": [1.0, 2.0], "y": [3.0, 5.0]}).names
      ('x', 'y')
    """
    if isinstance(data, Table):
        return data
    if isinstance(data, str | Path):
        return readers.read_table(data)
    if isinstance(data, Mapping):
        return frames.from_arrays(data)
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return frames.from_pandas(data)
    lazy = hasattr(data, "collect")
    if hasattr(data, "__arrow_c_stream__") and not lazy:
        return frames.from_arrow(data)
    hint = "; collect it first" if lazy else ""
    raise TypeError(
        "data must be a path, a data frame, or a mapping from names to arrays, got"
        f" {type(data).__name__}{hint}"
    )
