"""Tables that are in memory: data frames of pandas, anything that speaks Arrow, arrays by name."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lisdd_jax.tables.errors import TableError, import_extra, import_pandas, one_line
from lisdd_jax.tables.table import Levels, Table, checked_names


def from_pandas(frame: Any, *, name: str = "data", notes: tuple[str, ...] = ()) -> Table:
    """A table on a pandas data frame; index levels that have a name are columns as well.

    Args:
      frame: ``pandas.DataFrame``.
      name: of the table, for messages.
      notes: on how it was read.

    Raises:
      TableError: the labels of the columns are no names, or are repeated.
    """
    if frame.columns.nlevels > 1:
        raise TableError(f"table {name!r} must have one name per column, got several levels")
    labels = [level for level in frame.index.names if level is not None]
    if labels:
        unnamed = [k for k, level in enumerate(frame.index.names) if level is None]
        frame = frame.droplevel(unnamed).reset_index() if unnamed else frame.reset_index()
    names = checked_names(name, frame.columns)
    levels = {
        label: tuple(frame.iloc[:, k].cat.categories)
        for k, label in enumerate(names)
        if str(frame.dtypes.iloc[k]) == "category"
    }
    return Table(
        name=name,
        names=names,
        num_rows=len(frame),
        fetch=lambda label: _pandas_values(frame.iloc[:, names.index(label)]),
        levels=_plain_levels(levels),
        notes=notes,
    )


def _pandas_values(series: Any) -> np.ndarray:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiubc":
        return np.asarray(series.to_numpy())
    if dtype.kind in "fiub":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if dtype.kind == "M" or hasattr(dtype, "freq"):
        # A period is where it starts; a time with a zone is turned to UTC.
        moments = series.dt.to_timestamp() if hasattr(dtype, "freq") else series
        moments = import_pandas().to_datetime(moments, utc=True)
        return np.asarray(moments.dt.tz_localize(None).to_numpy())
    if dtype.kind == "m":
        return np.asarray(import_pandas().to_timedelta(series).to_numpy())
    return np.asarray(series.to_numpy(dtype=object, na_value=None))


def from_arrow(data: Any, *, name: str = "data", notes: tuple[str, ...] = ()) -> Table:
    """A table on anything that gives an Arrow stream: pyarrow, Polars, DuckDB and others.

    Args:
      data: has ``__arrow_c_stream__``.
      name: of the table, for messages.
      notes: on how it was read.

    Raises:
      TableError: pyarrow is not installed, or names are repeated.
    """
    arrow = import_extra("pyarrow", "pyarrow", "reading such tables").table(data)
    names = checked_names(name, arrow.column_names)
    return Table(
        name=name,
        names=names,
        num_rows=arrow.num_rows,
        fetch=lambda label: arrow_values(name, label, arrow.column(names.index(label))),
        levels=arrow_levels(
            dict(zip(names, arrow.schema.types, strict=True)),
            lambda label: arrow.column(names.index(label)),
        ),
        notes=notes,
    )


def arrow_values(table: str, label: str, column: Any) -> np.ndarray:
    """Values of an Arrow column; strings and what NumPy has no type for are objects."""
    if _is_coded(column.type):
        # Through NumPy, a missing value would become the last level.
        return np.array(column.to_pylist(), object)
    try:
        values = column.to_numpy()
    except (ValueError, TypeError, NotImplementedError) as error:
        raise TableError(
            f"table {table!r}: column {label!r} of type {column.type} cannot be used:"
            f" {one_line(error)}"
        ) from None
    return values.astype(object) if values.dtype.kind in "US" else np.asarray(values)


def _is_coded(kind: Any) -> bool:
    """Whether an Arrow type is a dictionary of levels."""
    return hasattr(kind, "value_type") and hasattr(kind, "index_type")


def arrow_levels(kinds: Mapping[str, Any], fetch: Callable[[str], Any]) -> dict[str, Levels]:
    """Declared levels of the columns that are dictionaries of text.

    Args:
      kinds: Arrow types by column.
      fetch: gives a column; only dictionaries are asked for.
    """
    found = {}
    for name, kind in kinds.items():
        if _is_coded(kind):
            levels = (chunk.dictionary.to_pylist() for chunk in fetch(name).chunks)
            found[name] = tuple(dict.fromkeys(level for chunk in levels for level in chunk))
    return _plain_levels(found)


def from_arrays(columns: Mapping[str, Any], *, name: str = "data") -> Table:
    """A table on arrays by name; the mask of a masked array marks missing values.

    Args:
      columns: arrays, lists or pandas series ``(n,)``.
      name: of the table, for messages.

    Raises:
      TableError: an array has not one axis, or the lengths differ.
    """
    names = checked_names(name, columns)
    arrays = {
        label: _array(label, values) for label, values in zip(names, columns.values(), strict=True)
    }
    num_rows = len(next(iter(arrays.values())))
    for label, array in arrays.items():
        if len(array) != num_rows:
            raise TableError(
                f"columns must have one length, got {num_rows} for {names[0]!r} and {len(array)}"
                f" for {label!r}"
            )
    return Table(name=name, names=names, num_rows=num_rows, fetch=arrays.__getitem__)


def _array(label: str, values: Any) -> np.ndarray:
    if hasattr(values, "dtype") and hasattr(values, "iloc"):
        return _pandas_values(values)
    masked = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    try:
        array = np.asarray(values)
    except ValueError:
        raise TableError(f"column {label!r} must have one axis, got ragged lists") from None
    if array.ndim != 1:
        raise TableError(f"column {label!r} must have one axis, got shape {array.shape}")
    if array.dtype.kind in "OUS":
        # Lists of dates, or of numbers and None, become what they hold.
        array = _pandas_values(import_pandas().Series(list(array)))
    if masked is None or not masked.any():
        return array
    if array.dtype.kind in "iufb":
        array = array.astype(np.float64)
    blanks: dict[str, Any] = {"f": np.nan, "M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}
    return np.asarray(np.where(masked, blanks.get(array.dtype.kind), array))  # type: ignore[arg-type]


def _plain_levels(levels: Mapping[str, tuple[Any, ...]]) -> dict[str, Levels]:
    """Those that are all text; levels of another type are sorted when they are used."""
    return {
        name: found
        for name, found in levels.items()
        if found and all(isinstance(level, str) for level in found)
    }
