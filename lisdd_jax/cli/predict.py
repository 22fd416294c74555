"""``lisdd-jax predict``: the rows of another table, by the model of a diagnosis."""

import json
import sys
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from lisdd_jax import files
from lisdd_jax.cli import options, outputs, printing
from lisdd_jax.cli.failure import Failure, in_sentences
from lisdd_jax.tables import model, model_format, read_table
from lisdd_jax.tables.model import Model, Predictions

HELP = r"""
Predict the rows of a table by a diagnosis that was written with --json.

The columns are row, response (where the table has it), physics (the trusted model alone),
corrected (with the missing terms), region (0 for none) and the residuals of both.

[bold]Example[/bold]

    lisdd-jax predict pipe.json new.csv --out predicted.csv
"""

_Result = Annotated[str, typer.Argument(metavar="RESULT.json", help="What diagnose --json wrote.")]
_Out = Annotated[
    str,
    typer.Option(
        "--out",
        help="CSV file to write; - for stdout.",
        metavar="FILE.csv",
        rich_help_panel="Output",
    ),
]


@in_sentences
def command(
    result: _Result,
    table: options.RequiredTable,
    *,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    out: _Out = outputs.STANDARD_OUTPUT,
) -> None:
    """Predict, write, and say on stderr how well the rows fit."""
    outputs.check_outputs({"--out": out}, [result, table])
    fitted = _load(result)
    predicted = model.predict(
        fitted, read_table(table, options.reading(sep, decimal, encoding, sheet))
    )
    outputs.write_columns(out, predicted.columns())
    printing.show(*_fits(predicted), *predicted.notes, stderr=True)
    outputs.say_written(Console(stderr=True), out)


def _load(path: str) -> Model:
    content = _read_json(path)
    if not isinstance(content, dict) or "model" not in content:
        raise Failure(
            f"result {path!r} holds no model; it must be what `lisdd-jax diagnose --json` writes"
        )
    try:
        return model_format.from_dict(content["model"])
    except ValueError as error:
        raise Failure(f"result {path!r}: {error}") from None


def _read_json(path: str) -> Any:
    if path != "-":
        return files.read_json(path, "result")
    try:
        return json.load(sys.stdin)
    except (ValueError, RecursionError) as error:
        raise Failure(f"the result on standard input is not valid JSON: {error}") from None


def _fits(predicted: Predictions) -> list[str]:
    columns = predicted.columns()
    if "residual_corrected" not in columns:
        return []
    known = np.isfinite(columns["residual_corrected"])
    if not known.any():
        return []
    root = {
        name: np.sqrt(np.mean(columns[name][known] ** 2))
        for name in ("residual_physics", "residual_corrected")
    }
    return [
        f"root mean square of the residuals over {int(known.sum())} rows:"
        f" {root['residual_physics']:.4g} of the physics,"
        f" {root['residual_corrected']:.4g} corrected"
    ]
