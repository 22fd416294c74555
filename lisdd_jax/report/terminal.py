"""The report on the terminal: sober, legible without colour and in 80 columns."""

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lisdd_jax.report import numbers, reasons, words
from lisdd_jax.report.summary import Cell, Region, Summary

_MAX_WIDTH = 100
_MAX_CELLS_LISTED = 40
_MAX_EQUIVALENT = 6
_BAR_WIDTH = 22
# A bar below the heading of its column.
_NARROWEST_BAR = 12
_STYLES = {"clean": "bold green", "discrepancy": "bold red"}


class _Symbols(NamedTuple):
    """Characters of the map: full bar, its eighths, flagged, noisier and clean cell."""

    full: str
    parts: str
    flagged: str
    noisier: str
    clean: str


_UNICODE = _Symbols("█", "▏▎▍▌▋▊▉", "◆", "○", "·")
_ASCII = _Symbols("#", "", "*", "o", ".")


def print_report(summary: Summary, console: Console, *, source: str = "") -> None:
    """Print a report.

    Args:
      summary: of a diagnosis.
      console: where to; colour and width are its own, up to 100 columns.
      source: name of the table.
    """
    width = min(console.width, _MAX_WIDTH)
    symbols = _UNICODE if console.encoding.lower().startswith("utf") else _ASCII
    body = Group(*_parts(summary, symbols, source, width))
    with console.capture() as capture:
        console.print(body, width=width, markup=False, highlight=False, emoji=False)
    # Rich fills lines with blanks, which a file or a pipe has no use for.
    console.file.write(re.sub(r" +\n", "\n", capture.get()))


def report_text(summary: Summary, *, source: str = "", width: int = 80) -> str:
    """The report as text without colour, in so many columns; see ``print_report``."""
    target = io.StringIO()
    print_report(summary, Console(file=target, width=width, color_system=None), source=source)
    return target.getvalue()


def _parts(
    summary: Summary, symbols: _Symbols, source: str, width: int
) -> Iterator[RenderableType]:
    physics, missing = words.section_titles(summary)
    yield _verdict(summary)
    yield Text("")
    yield from _clauses(reasons.reasons(summary))
    yield from _section("Rows", [Text(_rows(summary, source)), *_clauses(summary.notes)])
    yield from _section(physics, [_physics(summary)])
    unit = ", in noise scales" if summary.scale > 0 else ""
    yield from _section(f"Residuals over {summary.axis}{unit}", _map(summary, symbols, width))
    if summary.regions:
        yield from _section(missing, _regions(summary.regions))
    if summary.warnings:
        yield from _section("Warnings", _clauses(summary.warnings))
    yield from _section("What to do next", _clauses(words.remedies(summary)))


def _verdict(summary: Summary) -> Text:
    title = words.TITLES[summary.verdict].upper()
    style = _STYLES.get(summary.verdict, "bold yellow")
    return Text.assemble((title, style), "  ", (words.sentence(words.headline(summary)), "bold"))


def _section(title: str, parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    yield Text("")
    yield Text(title, style="bold underline")
    for part in parts:
        yield Padding(part, (0, 0, 0, 2), expand=False)


def _clauses(clauses: Sequence[str]) -> list[RenderableType]:
    return [_hanging(words.sentence(clause)) for clause in clauses]


def _hanging(text: str) -> RenderableType:
    """A list item whose lines are aligned."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text("-"), Text(text))
    return grid


def _rows(summary: Summary, source: str) -> str:
    rows = summary.rows
    of = f" from {source}" if source else ""
    text = f"{rows.read} read{of}, {rows.used} used"
    if rows.excluded:
        text += f", {rows.excluded} excluded by the row filter"
    return text + (f", {rows.dropped} dropped for missing values" if rows.dropped else "")


def _new_table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def _physics(summary: Summary) -> Table:
    table = _new_table()
    table.add_column("term", overflow="fold")
    table.add_column("coefficient", justify="right", no_wrap=True)
    table.add_column("std error", justify="right", no_wrap=True)
    for estimate in summary.physics:
        value, error = numbers.with_error(estimate.coefficient, estimate.stderr)
        table.add_row(Text(estimate.name), value, error)
    table.add_row(Text("noise scale", style="dim"), numbers.short(summary.scale), "")
    return table


def _map(summary: Summary, symbols: _Symbols, width: int) -> list[RenderableType]:
    cells = summary.cells
    if len(cells) > _MAX_CELLS_LISTED:
        return _strip(cells, symbols)
    ends = numbers.positions([cell.lower for cell in cells] + [cells[-1].upper])
    labels = [f"{lower} to {upper}" for lower, upper in itertools.pairwise(ends)]
    table = _new_table()
    # A cell whose ends do not fit beside the rest is written on two lines.
    table.add_column("cell", justify="right", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    if not any(cell.rms >= 0 for cell in cells):
        for label, cell in zip(labels, cells, strict=True):
            table.add_row(label, str(cell.count))
        return [table]
    unit = summary.scale if summary.scale > 0 else 1.0
    figures = [
        (
            numbers.plain(cell.rms / unit),
            numbers.plain(cell.mean / unit, sign="+"),
            numbers.decimal_log(cell.log_p_value),
        )
        for cell in cells
    ]
    bars = _bars(
        [cell.rms / unit for cell in cells], _space(width, labels, cells, figures), symbols
    )
    if bars:
        table.add_column("residual rms", no_wrap=True)
    table.add_column("" if bars else "rms", justify="right", no_wrap=True)
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column("log10 p", justify="right", no_wrap=True)
    marks = [_mark(cell, symbols) for cell in cells]
    # A column of empty texts would take a character from the cells.
    marks = marks if any(marks) else []
    if marks:
        table.add_column("", no_wrap=True)
    for k, (label, cell) in enumerate(zip(labels, cells, strict=True)):
        table.add_row(label, str(cell.count), *bars[k : k + 1], *figures[k], *marks[k : k + 1])
    return [table]


def _space(
    width: int, labels: Sequence[str], cells: Sequence[Cell], figures: Sequence[tuple[str, ...]]
) -> int:
    """Characters that the bars may take beside all other columns; negative for none."""
    rows = max(4, *(len(str(cell.count)) for cell in cells))
    headed = zip((3, 4, 7), zip(*figures, strict=True), strict=True)
    others = [max(head, *map(len, column)) for head, column in headed]
    marks = 9
    # Two blanks between any two of the seven columns, and the indent.
    return width - 2 - 2 * 6 - max(map(len, labels)) - rows - sum(others) - marks


def _bars(levels: Sequence[float], space: int, symbols: _Symbols) -> list[str]:
    """One bar per cell, all of one width; none where they would not fit."""
    width = min(space, _BAR_WIDTH)
    if width < _NARROWEST_BAR:
        return []
    largest = max([2.0, *(level for level in levels if level >= 0)])
    return [f"{_bar(level / largest, width, symbols):<{width}}" for level in levels]


def _mark(cell: Cell, symbols: _Symbols) -> Text:
    if cell.flagged:
        return Text(f"{symbols.flagged} flagged", style="red")
    return Text(f"{symbols.noisier} noisier", style="yellow") if cell.noisier else Text("")


def _bar(share: float, width: int, symbols: _Symbols) -> str:
    if not share >= 0:
        return ""
    eighths = round(min(share, 1.0) * width * 8)
    part = symbols.parts[eighths % 8 - 1] if symbols.parts and eighths % 8 else ""
    return symbols.full * (eighths // 8) + part


def _strip(cells: Sequence[Cell], symbols: _Symbols) -> list[RenderableType]:
    """One character per cell, where there are too many to list."""
    marks = "".join(
        symbols.flagged if cell.flagged else symbols.noisier if cell.noisier else symbols.clean
        for cell in cells
    )
    first, *_, last = numbers.positions([cells[0].lower, cells[-1].upper])
    flagged = sum(cell.flagged for cell in cells)
    return [
        Text(marks, overflow="fold"),
        Text(
            f"{len(cells)} cells from {first} to {last}, {flagged} flagged ({symbols.flagged})",
            style="dim",
        ),
    ]


def _regions(regions: Sequence[Region]) -> Iterator[RenderableType]:
    for region in regions:
        yield Text.assemble(
            (region.formula or "no term could be chosen", "bold"), f"   for {region.interval}"
        )
        details = [numbers.count(region.count, "row"), words.evidence(region)]
        yield Padding(Text(", ".join(details)), (0, 0, 0, 2), expand=False)
        ends = words.region_ends(region)
        if ends:
            yield Padding(Text(ends), (0, 0, 0, 2), expand=False)
        if region.terms:
            yield Padding(_terms(region), (0, 0, 0, 2), expand=False)
        if region.alternatives:
            yield Padding(Text(_equivalent(region)), (0, 0, 0, 2), expand=False)


def _terms(region: Region) -> Table:
    table = _new_table()
    table.add_column("term", overflow="fold")
    table.add_column("coefficient", justify="right", no_wrap=True)
    table.add_column("std error", justify="right", no_wrap=True)
    for term in region.terms:
        value, error = numbers.with_error(term.coefficient, term.stderr)
        table.add_row(Text(term.name), value, error)
    return table


def _equivalent(region: Region) -> str:
    listed = [" + ".join(support) for support in region.alternatives[:_MAX_EQUIVALENT]]
    more = len(region.alternatives) - len(listed)
    return "predict as well: " + "; ".join(listed) + (f"; and {more} more" if more > 0 else "")
