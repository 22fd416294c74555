"""One column of a table as numbers, whatever it holds: decimals, booleans, dates, durations, text.

A column is a NumPy array ``(n,)``: numbers and booleans as they are, dates and durations as
``datetime64`` and ``timedelta64``, all else as objects in which a missing value is None or NaN.
"""

import enum
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from lisdd_jax.expressions import tree
from lisdd_jax.tables import dates
from lisdd_jax.tables.errors import TableError, import_pandas

_GROUPED = re.compile(r"[+-]?\d{1,3}([,. '’]\d{3})+([.,]\d*)?")
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")


class Kind(enum.Enum):
    """What the values of a column are; the value is its name in words."""

    NUMBER = "number"
    BOOLEAN = "true/false"
    DATE = "date"
    DURATION = "duration"
    TEXT = "text"
    MIXED = "text and numbers"
    OTHER = "no numbers"
    EMPTY = "empty"


_KINDS = {
    "b": Kind.BOOLEAN,
    "i": Kind.NUMBER,
    "u": Kind.NUMBER,
    "f": Kind.NUMBER,
    "M": Kind.DATE,
    "m": Kind.DURATION,
}


def missing(values: np.ndarray) -> np.ndarray:
    """Where a column has no value ``(n,)``."""
    match values.dtype.kind:
        case "i" | "u" | "b":
            return np.zeros(values.shape, bool)
        case "M" | "m":
            return np.isnat(values)
        case "f" | "c":
            return np.isnan(values)
    return np.asarray(import_pandas().isna(values), bool)


def kind(values: np.ndarray) -> Kind:
    """What the values of a column are."""
    known = values[~missing(values)]
    if not known.size:
        return Kind.EMPTY
    if values.dtype.kind == "O":
        return _kind_of_objects(known)
    return _KINDS.get(values.dtype.kind, Kind.OTHER)


def _kind_of_objects(known: np.ndarray) -> Kind:
    inferred = import_pandas().api.types.infer_dtype(known, skipna=False)
    if inferred == "boolean":
        return Kind.BOOLEAN
    different = import_pandas().unique(known) if inferred == "string" else known
    # Dates first: their text is known by its beginning, and no number has such a one.
    if dates.parse_dates(different) is not None or dates.ambiguous(different):
        return Kind.DATE
    read = np.isnan(_floats(different))
    if not read.any():
        return Kind.NUMBER
    if inferred != "string":
        return Kind.OTHER if read.all() else Kind.MIXED
    return Kind.TEXT if read.all() else Kind.MIXED


def as_text(values: np.ndarray) -> np.ndarray:
    """A column in which any value is text, all as text; missing values and other columns stay."""
    if values.dtype.kind != "O" or not any(isinstance(value, str) for value in values):
        return values
    known = ~missing(values)
    found = values.copy()
    found[known] = [str(value) for value in values[known]]
    return found


def numbers(name: str, values: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """A column as float64, with NaN for missing values.

    Booleans are 0 and 1; dates are days since 1970-01-01 UTC, durations are days.

    Args:
      name: of the column, for the message.
      values: ``(n,)`` of a table.
      rows: ``(n,)`` bool, rows that must hold numbers; all where None. What does not read as a
        number elsewhere becomes NaN.

    Returns:
      ``(n,)`` float64.

    Raises:
      TableError: a value is no number; says column, row (from 1) and value.
    """
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if values.dtype.kind in "Mm":
        return dates.days(values)
    if values.dtype.kind != "O":
        raise TableError(f"column {name!r} must hold real numbers, got {values.dtype}")
    wanted = ~missing(values) if rows is None else rows & ~missing(values)
    found = np.full(values.shape, np.nan)
    moments = dates.parse_dates(values[wanted])
    found[wanted] = _floats(values[wanted]) if moments is None else dates.days(moments)
    bad = wanted & np.isnan(found)
    if bad.any():
        raise _no_number(name, values, bad, wanted)
    return found


def describe_dates(
    raw: Mapping[str, np.ndarray], columns: Mapping[str, np.ndarray], complete: np.ndarray
) -> dict[str, str]:
    """What was made of the columns that hold dates or durations, in a sentence each.

    Args:
      raw: columns ``(n,)`` as read.
      columns: those in use as numbers, on the rows in use.
      complete: ``(n,)`` bool, rows in use.

    Returns:
      Sentences by column.
    """
    found = {}
    for name, values in columns.items():
        if raw[name].dtype.kind in "fiub" or values.dtype.kind != "f":
            continue
        what = kind(raw[name][complete])
        if what is Kind.DATE:
            ends = " to ".join(
                f"{end:.10g} ({dates.text(end)})" for end in (values.min(), values.max())
            )
            found[name] = f"dates in {name!r} are days since 1970-01-01 UTC: {ends}"
        elif what is Kind.DURATION:
            found[name] = f"durations in {name!r} are in days"
    return found


def _floats(known: np.ndarray) -> np.ndarray:
    """Objects as floats, NaN for those that do not read as one."""
    pandas = import_pandas()
    inferred = pandas.api.types.infer_dtype(known, skipna=False)
    if inferred == "string":
        # Each different text once: a failed attempt is slow.
        codes, different = pandas.factorize(known)
        return np.asarray(pandas.to_numeric(different, errors="coerce"), np.float64)[codes]
    if inferred.startswith("mixed"):
        # As objects: of dates alone, pandas would make numbers.
        series = pandas.Series(known, dtype=object)
        return np.asarray(pandas.to_numeric(series, errors="coerce"), np.float64)
    try:
        return known.astype(np.float64)
    except (ValueError, TypeError):
        return np.array([_float(value) for value in known])


def _float(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        return np.nan


def _no_number(name: str, values: np.ndarray, bad: np.ndarray, wanted: np.ndarray) -> TableError:
    row = int(np.argmax(bad))
    value = str(values[row])
    hint = ""
    if dates.ambiguous(values[wanted]):
        hint = ", which is a date with the day or the month first: write it as 2020-12-31"
    elif _COMMA.fullmatch(value):
        hint = "; write decimals with a point, or say --decimal ,"
    elif _GROUPED.fullmatch(value):
        hint = "; write numbers without marks of thousands"
    return TableError(
        f"column {name!r} must hold numbers, got {tree.shorten(value, width=40)!r} in data row"
        f" {and_more(row, bad)}{hint}"
    )


def and_more(row: int, bad: np.ndarray) -> str:
    """Number of a row, counted from 1, and how many more are like it."""
    more = int(bad.sum()) - 1
    return f"{row + 1}" + (f" and {more} more" if more else "")


def is_number(text: str) -> bool:
    """Whether a text reads as a number, with a decimal point or a decimal comma."""
    try:
        float(text.replace(",", ".", 1))
    except ValueError:
        return False
    return True
