"""What a table holds, column by column, before anything is asked of it."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from lisdd_jax.tables.columns import Kind, kind, missing, numbers
from lisdd_jax.tables.errors import TableError, import_pandas
from lisdd_jax.tables.table import Table

FAR_SHARE = 0.05
"""Most values at one end that may be far from all others; more of them are a group of their own."""


@dataclass(frozen=True, kw_only=True)
class ColumnOverview:
    """One column.

    Attributes:
      name: of it.
      kind: what it holds.
      missing: number of missing values.
      distinct: number of different values.
      lower, median, upper: of the numbers, dates in days; NaN where there are none.
      levels: the most frequent texts and their counts.
      outliers: rows (from 1) of values far from all others.
      same_as: name of an earlier column that holds the same values; empty for none.
      fault: why it cannot be used as it is; empty for no reason.
    """

    name: str
    kind: Kind
    missing: int
    distinct: int
    lower: float = np.nan
    median: float = np.nan
    upper: float = np.nan
    levels: tuple[tuple[str, int], ...] = ()
    outliers: tuple[int, ...] = ()
    same_as: str = ""
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """A table.

    Attributes:
      num_rows: of it.
      columns: in order.
      complete: rows without any missing value.
      repeated: rows that equal an earlier row in every column.
    """

    num_rows: int
    columns: tuple[ColumnOverview, ...]
    complete: int
    repeated: int


def look_over(table: Table) -> Overview:
    """Look at every column of a table.

    Args:
      table: to look at.

    Returns:
      The overview.

    Raises:
      TableError: the file cannot be read to its end.
    """
    pandas = import_pandas()
    seen: dict[tuple[bytes, bytes], str] = {}
    columns, codes = [], {}
    for name, values in table.read(table.names).items():
        # Equal values have equal codes, in the order in which they first appear.
        codes[name], different = _factorize(values)
        content = (codes[name].tobytes(), str(different.tolist()).encode())
        same_as = seen.setdefault(content, name)
        column = _look_at(name, values, codes[name], different)
        columns.append(dataclasses.replace(column, same_as="" if same_as == name else same_as))
    frame = pandas.DataFrame(codes)
    return Overview(
        num_rows=table.num_rows,
        columns=tuple(columns),
        complete=int((frame >= 0).all(axis=1).sum()),
        repeated=int(frame.duplicated().sum()),
    )


def _factorize(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes ``(n,)`` of the different values, -1 where missing, and these values."""
    pandas = import_pandas()
    try:
        return pandas.factorize(values)
    except TypeError:
        # Lists and the like, which cannot be compared but by how they are written.
        shown = pandas.Series(list(map(str, values)), dtype=object).mask(missing(values))
        return pandas.factorize(shown)


def _look_at(
    name: str, values: np.ndarray, codes: np.ndarray, different: np.ndarray
) -> ColumnOverview:
    plain = ColumnOverview(
        name=name, kind=kind(values), missing=int((codes < 0).sum()), distinct=len(different)
    )
    if plain.kind is Kind.EMPTY:
        return plain
    if plain.kind in (Kind.TEXT, Kind.BOOLEAN):
        counts = np.bincount(codes[codes >= 0])
        order = np.argsort(-counts, kind="stable")
        listed = tuple((str(different[k]), int(counts[k])) for k in order)
        return dataclasses.replace(plain, levels=listed)
    try:
        figures = numbers(name, values)
    except TableError as error:
        return dataclasses.replace(plain, fault=str(error))
    present = figures[~np.isnan(figures)]
    return dataclasses.replace(
        plain,
        lower=float(present.min()),
        median=float(np.median(present)),
        upper=float(present.max()),
        outliers=tuple((np.flatnonzero(far_off(figures)) + 1).tolist()),
    )


def far_off(values: np.ndarray) -> np.ndarray:
    """Where values lie farther from all others than these lie from each other ``(n,)`` bool.

    Such are wrong units, slipped decimals and numbers that stand for a missing value. A long tail
    is none: its values lie near their neighbours.

    Args:
      values: ``(n,)`` float64; NaN is missing and never far, an infinite value always is.
    """
    rest = np.sort(values[np.isfinite(values)])
    most = max(1, int(FAR_SHARE * rest.size))
    least = rest.size - 2 * most
    while True:
        # One end may hide the other: the rest shrinks until neither has any.
        above, below = _num_far_above(rest, most), _num_far_above(-rest[::-1], most)
        if not (above or below) or rest.size - above - below < least:
            break
        rest = rest[below : rest.size - above]
    inside = (values >= rest[0]) & (values <= rest[-1]) if rest.size else np.isnan(values)
    return ~(inside | np.isnan(values))


def _num_far_above(order: np.ndarray, most: int) -> int:
    """How many of the largest of sorted values, at most so many, are far from all others."""
    for k in range(1, min(most, order.size - 3) + 1):
        rest, gap = order[:-k], order[-k] - order[-k - 1]
        if 0 < rest[-1] - rest[0] < gap:
            return k
    return 0


def rows_per_cell(axis: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Rows in every cell; cells are half-open, the last closed.

    Args:
      axis: ``(n,)``.
      edges: ``(R + 1,)``.

    Returns:
      ``(R,)`` int.
    """
    return np.histogram(axis, edges)[0]
