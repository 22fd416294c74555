"""The options of ``diagnose`` that are not settings of the algorithm."""

from typing import Annotated, Any

import typer


def _option(*names: str, panel: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(
        *names, help=help, rich_help_panel=panel, metavar=metavar, show_default=False
    )


TablePath = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="CSV or Parquet file.", show_default=False)
]
Response = Annotated[
    str | None, _option("--response", panel="Model", help="What is measured.", metavar="EXPR")
]
Physics = Annotated[
    list[str] | None,
    _option("--physics", panel="Model", help="Trusted regressors.", metavar="EXPR ..."),
]
Intercept = Annotated[
    bool | None,
    _option("--intercept/--no-intercept", panel="Model", help="Add a constant to the physics."),
]
Axis = Annotated[
    str | None,
    _option(
        "--axis",
        panel="Model",
        help="Operating variable along which the physics may fail.",
        metavar="EXPR",
    ),
]
LibraryTerms = Annotated[
    list[str] | None,
    _option("--library", panel="Model", help="Candidate terms.", metavar="EXPR ..."),
]
Where = Annotated[
    str | None,
    _option(
        "--where",
        panel="Model",
        help="Use only rows that meet a condition: \"Re > 3500 and fluid == 'Water'\".",
        metavar="EXPR",
    ),
]
SpecPath = Annotated[
    str | None,
    _option(
        "--spec",
        panel="Model",
        help="TOML file that holds any of these options; the command line overrides it.",
        metavar="FILE.toml",
    ),
]
Edges = Annotated[
    list[float] | None,
    _option("--edges", panel="Cells", help="Edges of the cells.", metavar="X ..."),
]
QuantileCells = Annotated[
    int | None,
    _option(
        "--quantile-cells",
        panel="Cells",
        help="So many cells with equal numbers of rows.",
        metavar="N",
    ),
]
MinRowsPerCell = Annotated[
    int | None,
    _option(
        "--min-rows-per-cell",
        panel="Cells",
        help="Join cells with fewer rows to a neighbour.",
        metavar="N",
    ),
]
Paper = Annotated[
    bool | None,
    _option("--paper/--no-paper", panel="Settings", help="The published algorithm as it is."),
]
Seed = Annotated[
    int | None,
    _option("--seed", panel="Settings", help=r"Seed of starts and splits. \[0]", metavar="N"),
]
Float32 = Annotated[
    bool | None,
    _option("--float32/--float64", panel="Settings", help=r"Precision. \[float64]"),
]
JsonPath = Annotated[
    str | None,
    _option(
        "--json",
        panel="Output",
        help="Write the result for programs; - for stdout, with the report on stderr.",
        metavar="FILE",
    ),
]
ReportPath = Annotated[
    str | None,
    _option("--report", panel="Output", help="Write a page with figures.", metavar="FILE.html"),
]
