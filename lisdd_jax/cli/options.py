"""The options of the commands that read a table, grouped in panels; settings are elsewhere."""

from typing import Annotated, Any

import typer

from lisdd_jax import validation
from lisdd_jax.cli.failure import Failure
from lisdd_jax.tables import ReadOptions

DATA, MODEL, METHOD, OUTPUT, ADVANCED = "Data", "Model", "Method", "Output", "Advanced"


def _option(*names: str, panel: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(
        *names, help=help, rich_help_panel=panel, metavar=metavar, show_default=False
    )


_TABLE_HELP = "CSV, Parquet or Excel file, also compressed; - for standard input."

TablePath = Annotated[
    str | None, typer.Argument(metavar="TABLE", help=_TABLE_HELP, show_default=False)
]
RequiredTable = Annotated[
    str, typer.Argument(metavar="TABLE", help=_TABLE_HELP, show_default=False)
]
Sep = Annotated[
    str | None,
    _option(
        "--sep",
        panel=DATA,
        help="Separator of values: a character, tab or space; found out if not given.",
        metavar="CHAR",
    ),
]
Decimal = Annotated[
    str | None,
    _option(
        "--decimal", panel=DATA, help="Decimal mark; found out if not given.", metavar=". or ,"
    ),
]
Encoding = Annotated[
    str | None,
    _option(
        "--encoding", panel=DATA, help="Of the text: utf-8, latin-1, utf-16 ...", metavar="NAME"
    ),
]
Sheet = Annotated[
    str | None,
    _option("--sheet", panel=DATA, help="Of a workbook: name, or number from 1.", metavar="NAME"),
]
Response = Annotated[
    str | None, _option("--response", panel=MODEL, help="What is measured.", metavar="EXPR")
]
Physics = Annotated[
    list[str] | None,
    _option(
        "--physics",
        panel=MODEL,
        help="Trusted regressors; C(column), or a column of text, for a category.",
        metavar="EXPR ...",
    ),
]
Intercept = Annotated[
    bool | None,
    _option("--intercept/--no-intercept", panel=MODEL, help="Add a constant to the physics."),
]
Axis = Annotated[
    str | None,
    _option(
        "--axis",
        panel=MODEL,
        help="Operating variable along which the physics may fail.",
        metavar="EXPR",
    ),
]
LibraryTerms = Annotated[
    list[str] | None,
    _option("--library", panel=MODEL, help="Candidate terms.", metavar="EXPR ..."),
]
Where = Annotated[
    str | None,
    _option(
        "--where",
        panel=DATA,
        help="Use only rows that meet a condition: \"Re > 3500 and fluid == 'Water'\".",
        metavar="EXPR",
    ),
]
Block = Annotated[
    str | None,
    _option(
        "--block",
        panel=MODEL,
        help="What rows that depend on each other have in common, such as a day or a device.",
        metavar="EXPR",
    ),
]
Time = Annotated[
    str | None,
    _option(
        "--time",
        panel=MODEL,
        help="When a row was measured; where neighbours in time correlate, they make blocks.",
        metavar="EXPR",
    ),
]
Trusted = Annotated[
    str | None,
    _option(
        "--trusted",
        panel=MODEL,
        help='Condition on the rows where the physics is known to hold: "temp < 18".',
        metavar="EXPR",
    ),
]
NoiseScale = Annotated[
    str | None,
    _option(
        "--noise-scale",
        panel=MODEL,
        help="Relative size of the measurement error, where it is known per row.",
        metavar="EXPR",
    ),
]
SpecPath = Annotated[
    str | None,
    _option(
        "--spec",
        panel=DATA,
        help="TOML file that holds any of these options; the command line overrides it.",
        metavar="FILE.toml",
    ),
]
Edges = Annotated[
    list[float] | None,
    _option("--edges", panel=METHOD, help="Edges of the cells.", metavar="X ..."),
]
QuantileCells = Annotated[
    int | None,
    _option(
        "--quantile-cells",
        panel=METHOD,
        help="So many cells with equal numbers of rows.",
        metavar="N",
    ),
]
MinRowsPerCell = Annotated[
    int | None,
    _option(
        "--min-rows-per-cell",
        panel=METHOD,
        help="Join cells with fewer rows to a neighbour.",
        metavar="N",
    ),
]


def checked_seed(value: int | None) -> int | None:
    """The seed of an option, refused where the random numbers cannot take it."""
    try:
        return None if value is None else validation.check_seed("--seed", value)
    except ValueError as error:
        raise Failure(str(error)) from None


Paper = Annotated[
    bool | None,
    _option("--paper/--no-paper", panel=METHOD, help="The published algorithm as it is."),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        rich_help_panel=METHOD,
        help=r"Seed of starts and splits of --paper; nothing else is drawn. \[0]",
        metavar="N",
        show_default=False,
        callback=checked_seed,
    ),
]
Float32 = Annotated[
    bool | None,
    _option("--float32/--float64", panel=ADVANCED, help=r"Precision. \[float64]"),
]
JsonPath = Annotated[
    str | None,
    _option(
        "--json",
        panel=OUTPUT,
        help="Write the result for programs; - for stdout, with the report on stderr.",
        metavar="FILE",
    ),
]
ReportPath = Annotated[
    str | None,
    _option("--report", panel=OUTPUT, help="Write a page with figures.", metavar="FILE.html"),
]
PredictionsPath = Annotated[
    str | None,
    _option(
        "--predictions",
        panel=OUTPUT,
        help="Write predictions and residuals of every row, with and without the correction.",
        metavar="FILE.csv",
    ),
]


def reading(
    sep: str | None, decimal: str | None, encoding: str | None, sheet: str | None
) -> ReadOptions:
    """How a table is written, from the options of a command."""
    return ReadOptions(sep=sep, decimal=decimal, encoding=encoding, sheet=sheet)
