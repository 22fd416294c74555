"""Dates as numbers: days since 1970-01-01 (UTC), so that they mean the same in every table."""

import re

import numpy as np

from lisdd_jax.tables.errors import import_pandas

_DAY = np.timedelta64(1, "D")
_BEGINNING = re.compile(r"\s*(\d{4}[-/]\d|\d{1,2}[./-]\d{1,2}[./-]\d{4})")
# Day or month first, as people write them; a date that begins with the year is ISO 8601.
_WRITTEN = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{4}( \d{1,2}:\d{2}(:\d{2})?)?")


def days(values: np.ndarray) -> np.ndarray:
    """Dates or durations as float64 days, NaN where missing.

    Args:
      values: ``(n,)`` of type ``datetime64`` or ``timedelta64``.

    Example:
      >>> days(np.array(["1970-01-02T12:00", "NaT"], "datetime64[m]")).tolist()
      [1.5, nan]
    """
    steps = values - values.dtype.type(0, "D") if values.dtype.kind == "M" else values
    return np.asarray(steps / _DAY, np.float64)


def text(day: float) -> str:
    """A number of days since 1970-01-01 as a date, with the time where it is not midnight.

    Example:
      >>> text(16222.0), text(16222.5)
      ('2014-06-01', '2014-06-01T12:00')
    """
    seconds = np.datetime64(round(day * 86400), "s")
    whole = seconds.astype("datetime64[D]")
    minutes = seconds.astype("datetime64[m]")
    return str(whole if whole == seconds else minutes if minutes == seconds else seconds)


def parse_dates(known: np.ndarray) -> np.ndarray | None:
    """Dates from text or date objects, all without missing values.

    Text is read as ISO 8601 (``2020-12-31``, ``2020-12-31 13:45``, ``...Z``); as ``31.12.2020``; or
    with slashes or dashes where only one order of day and month fits every value. A time with a
    zone is turned to UTC.

    Args:
      known: ``(n,)`` objects.

    Returns:
      ``(n,)`` of type ``datetime64``; None where they are not all dates, or the order is open.
    """
    if not known.size:
        return None
    texts = _texts(known)
    if texts is not None:
        found = _read(texts, "ISO8601")
        if found is not None:
            return found
        orders = _orders(texts)
        return orders[0] if len(orders) == 1 else None
    inferred = import_pandas().api.types.infer_dtype(known, skipna=False)
    return _read(known, None) if inferred in ("date", "datetime", "datetime64") else None


def ambiguous(known: np.ndarray) -> bool:
    """Whether values are dates of which the day or the month may stand first."""
    texts = _texts(known)
    return texts is not None and len(_orders(texts)) > 1


def _texts(known: np.ndarray) -> np.ndarray | None:
    """Values without blanks around them if all are text and the first begins as dates do."""
    if not known.size or not _BEGINNING.match(str(known[0])):
        return None
    if import_pandas().api.types.infer_dtype(known, skipna=False) != "string":
        return None
    return np.char.strip(known.astype(str))


def _orders(texts: np.ndarray) -> list[np.ndarray]:
    """Readings of dates that do not begin with the year: day first, then month first."""
    first = _WRITTEN.fullmatch(texts[0])
    if first is None:
        return []
    mark, time, seconds = first.groups()
    clock = "" if not time else " %H:%M:%S" if seconds else " %H:%M"
    # With points the day stands first everywhere.
    orders = ("%d{0}%m{0}%Y",) if mark == "." else ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y")
    found = (_read(texts, order.format(mark) + clock) for order in orders)
    return [moments for moments in found if moments is not None]


def _read(values: np.ndarray, form: str | None) -> np.ndarray | None:
    pandas = import_pandas()
    try:
        moments = pandas.to_datetime(pandas.Series(values), format=form, utc=True)
    except (ValueError, TypeError, OverflowError):
        return None
    return np.asarray(moments.dt.tz_localize(None).to_numpy())
