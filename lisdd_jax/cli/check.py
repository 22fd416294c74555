"""``lisdd-jax check``: what a table holds, before anything is asked of it."""

import itertools
from collections.abc import Iterator
from typing import Annotated

import numpy as np
import typer
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from lisdd_jax.cli import options, printing
from lisdd_jax.cli.failure import Failure, in_sentences
from lisdd_jax.report import numbers
from lisdd_jax.tables import Table, dates, overview, problem, read_table
from lisdd_jax.tables.columns import Kind
from lisdd_jax.tables.overview import ColumnOverview, Overview
from lisdd_jax.tables.spec import MAX_CELLS

_MAX_LEVELS = 4
_MAX_ROWS = 4

HELP = r"""
Look at a table: types, missing values, ranges, constant and repeated columns, repeated rows,
values far from all others, and with --axis the rows in every cell.

[bold]Example[/bold]

    lisdd-jax check pipe.csv --axis "log10(Re)" --where "Re > 3500"
"""

_Cells = Annotated[
    int,
    typer.Option(
        "--cells",
        help="Cells of equal width.",
        metavar="N",
        min=2,
        max=MAX_CELLS,
        rich_help_panel=options.METHOD,
    ),
]


@in_sentences
def command(
    table: options.RequiredTable,
    *,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    where: options.Where = None,
    axis: options.Axis = None,
    cells: _Cells = 14,
) -> None:
    """Print an overview of a table."""
    if where and not axis:
        raise Failure("--where belongs to the rows per cell: give --axis as well")
    found = read_table(table, options.reading(sep, decimal, encoding, sheet))
    looked = overview.look_over(found)
    notes = [f"- {note}" for note in found.notes]
    # Asked before anything is printed: it may be refused.
    below: list[RenderableType] = ["", *_cells(found, axis, where, cells)] if axis else []
    printing.show(_summary(found, looked), *notes, "", _columns(looked), *below)


def _summary(table: Table, looked: Overview) -> str:
    parts = [
        numbers.count(looked.num_rows, "row"),
        numbers.count(len(looked.columns), "column"),
        f"{looked.complete} rows without missing values",
    ]
    if looked.repeated:
        parts.append(f"{numbers.count(looked.repeated, 'row')} equal to an earlier one")
    return f"{table.name}: {', '.join(parts)}"


def _columns(looked: Overview) -> Grid:
    grid = _grid()
    grid.add_column("column", overflow="fold", max_width=24)
    grid.add_column("holds", overflow="fold", max_width=10)
    grid.add_column("missing", justify="right", no_wrap=True)
    grid.add_column("values", overflow="fold")
    grid.add_column("remarks", overflow="fold")
    for column in looked.columns:
        remarks = Text("; ".join(_remarks(column)), style="yellow")
        cells = (Text(column.name), column.kind.value, str(column.missing or ""))
        grid.add_row(*cells, Text(_values(column)), remarks)
    return grid


def _values(column: ColumnOverview) -> str:
    if column.levels:
        shown = ", ".join(f"{level} ({count})" for level, count in column.levels[:_MAX_LEVELS])
        more = len(column.levels) - _MAX_LEVELS
        return shown + (f" and {more} more" if more > 0 else "")
    if np.isnan(column.lower):
        return ""
    if column.kind is Kind.DATE:
        return f"{dates.text(column.lower)} to {dates.text(column.upper)}"
    lower, middle, upper = (
        numbers.short(value, 6) for value in (column.lower, column.median, column.upper)
    )
    unit = " days" if column.kind is Kind.DURATION else ""
    return f"{lower} to {upper}, median {middle}{unit}"


def _remarks(column: ColumnOverview) -> Iterator[str]:
    if column.fault:
        yield column.fault.partition(", got ")[2] or column.fault
    if column.kind is not Kind.EMPTY and column.distinct <= 1:
        yield "constant"
    if column.same_as:
        yield f"same as {column.same_as}"
    if column.outliers:
        rows = ", ".join(map(str, column.outliers[:_MAX_ROWS]))
        more = len(column.outliers) - _MAX_ROWS
        what = "1 value" if len(column.outliers) == 1 else f"{len(column.outliers)} values"
        yield f"{what} far off: row {rows}" + (f" and {more} more" if more > 0 else "")


def _cells(
    table: Table, axis: str, where: str | None, num_cells: int
) -> tuple[RenderableType, RenderableType]:
    found = problem.from_table(
        table, response="1", physics=["1"], axis=axis, library=["1"], where=where
    )
    edges = np.linspace(found.axis.min(), found.axis.max(), num_cells + 1)
    counts = overview.rows_per_cell(found.axis, edges)
    as_dates = found.axis_name in found.dates
    ends = list(map(dates.text, edges)) if as_dates else numbers.positions(edges.tolist())
    grid = _grid()
    grid.add_column("cell", justify="right", overflow="fold")
    grid.add_column("rows", justify="right", no_wrap=True)
    for (lower, upper), count in zip(itertools.pairwise(ends), counts.tolist(), strict=True):
        grid.add_row(f"{lower} to {upper}", str(count))
    return f"Rows in {num_cells} cells of equal width over {found.axis_name}", grid


def _grid() -> Grid:
    return Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
