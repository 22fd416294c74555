"""Commands for planning: ``power`` and ``simulate``."""

import dataclasses
import json as json_format
import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.console import Console

from lisdd_jax.cli import environment
from lisdd_jax.cli.failure import Failure, in_sentences
from lisdd_jax.cli.outputs import say_written
from lisdd_jax.cli.study_options import Float32, ProgressLine, Seed
from lisdd_jax.config import MODES
from lisdd_jax.report import files
from lisdd_jax.study.experiments import scenarios
from lisdd_jax.study.planning.power import Effect, PowerPlan, plan_rows, power_curve
from lisdd_jax.study.planning.power_simulation import simulate_power
from lisdd_jax.study.planning.row_search import RowSearchError, search_rows
from lisdd_jax.study.planning.specification import check_num_rows


def _number(name: str, help: str) -> Any:
    return typer.Option(name, help=help, metavar="X")


def _count(name: str, help: str, **more: Any) -> Any:
    return typer.Option(name, help=help, metavar="N", **more)


_Size = Annotated[
    float,
    _number("--effect", "Root mean square of the missing term in its region, over the noise."),
]
_Share = Annotated[float, _number("--share", "Share of the rows in the region.")]
_Absorbed = Annotated[float, _number("--absorbed", "Share of the term that physics can mimic.")]
_AlphaCell = Annotated[float, _number("--alpha-cell", "Level of the test of a cell.")]
_Mode = Annotated[
    str,
    typer.Option(
        "--mode",
        help="default: find its rows by simulation; paper: confirm its formula.",
        metavar="MODE",
    ),
]
_AlongAxis = Annotated[
    bool,
    typer.Option(
        "--along-axis/--own-variable",
        help="Whether the simulated term is a function of the axis or of another variable.",
    ),
]
_Replications = Annotated[
    int | None,
    _count(
        "--simulate",
        r"Data sets per number of rows; 0 for formulas alone. \[200; 0 with --mode paper]",
        min=0,
        show_default=False,
    ),
]
_Json = Annotated[
    str | None, typer.Option("--json", help="Write the plan for programs.", metavar="FILE")
]


@in_sentences
def power(
    *,
    effect: _Size,
    share: _Share,
    wanted: Annotated[float, _number("--power", "Probability of finding it.")] = 0.8,
    alpha: Annotated[float, _number("--alpha", "Level of the certificate.")] = 0.05,
    alpha_cell: _AlphaCell = 1e-3,
    terms: Annotated[int, _count("--terms", "Terms of the mechanism.")] = 1,
    coefficients: Annotated[int, _count("--coefficients", "Coefficients of the physics.")] = 2,
    absorbed: _Absorbed = 0.0,
    cells: Annotated[int, _count("--cells", "Cells that the region covers.")] = 1,
    mode: _Mode = "default",
    along_axis: _AlongAxis = True,
    replications: _Replications = None,
    seed: Seed = 0,
    json: _Json = None,
    float32: Float32 = False,
) -> None:
    """How many rows are needed to find a missing term of a given size."""
    if mode not in MODES:
        raise Failure(f"--mode must be one of {', '.join(MODES)}, got {mode!r}")
    environment.set_precision(float32=float32)
    looked_for = Effect(
        size=effect,
        share=share,
        num_terms=terms,
        num_physics=coefficients,
        absorbed=absorbed,
        alpha=alpha,
        alpha_cell=alpha_cell,
        cells_in_region=cells,
    )
    if json:
        files.check_target(json)
    plan = plan_rows(looked_for, power=wanted)
    content = dataclasses.asdict(plan)
    console = Console()
    _show_formulas(plan, console)
    count = (200 if mode == "default" else 0) if replications is None else replications
    if mode == "paper" and count:
        content["simulated"] = _confirm(plan, count, seed, console)
    elif mode == "default":
        content["default_mode"] = _search(plan, along_axis, count, seed, console)
    if json:
        files.write_text(json, json_format.dumps(content, indent=1) + "\n")
        say_written(console, json)


def _show_formulas(plan: PowerPlan, console: Console) -> None:
    console.print(
        f"[bold]{plan.num_rows_known_region}[/bold] rows certify the term with power"
        f" {plan.power:g} where region and form are known, by a test on half of them."
    )
    console.print(
        f"[bold]{plan.num_rows}[/bold] rows are needed by the published mode, where the energy test"
        f" of a single cell has to notice the region too (localization {plan.localization:.3f},"
        f" certificate {plan.certificate:.3f})."
    )


def _search(
    plan: PowerPlan, along_axis: bool, num_replications: int, seed: int, console: Console
) -> dict[str, Any] | None:
    """Say how many rows the default mode needs, or why nothing can be said."""
    if not num_replications:
        console.print("The default mode has no formula, and --simulate 0 asks for no simulation.")
        return None
    show = ProgressLine()
    try:
        found = search_rows(
            plan.effect,
            power=plan.power,
            along_axis=along_axis,
            key=jax.random.key(seed),
            num_replications=num_replications,
            progress=partial(show, "power of the default mode"),
        )
    except RowSearchError as error:
        console.print(f"No number of rows for the default mode: {error}.")
        return None
    last = found.tried[-1]
    console.print(
        f"[bold]{found.num_rows}[/bold] rows (standard error {found.standard_error:.0f}) are needed"
        f" by the default mode, by simulation of {found.num_data_sets} data sets of"
        f" {len(found.tried)} sizes; with {last['num_rows']} rows it found the term in"
        f" {last['found']:.3f} ± {1.96 * last['stderr']:.3f} of them."
    )
    return dataclasses.asdict(found)


def _confirm(
    plan: PowerPlan, num_replications: int, seed: int, console: Console
) -> list[dict[str, Any]]:
    """Hold the formulas for the published mode against simulations of it."""
    found, show = [], ProgressLine()
    for num_rows in dict.fromkeys((plan.num_rows_known_region, plan.num_rows)):
        result = simulate_power(
            plan.effect,
            num_rows,
            key=jax.random.key(seed),
            num_replications=num_replications,
            progress=partial(show, f"power with {num_rows} rows"),
        )
        predicted = power_curve(plan.effect, [num_rows])
        measured = {
            name: {"mean": summary.mean, "stderr": summary.standard_error}
            for name, summary in result.cells[0].metrics.items()
        }
        expected = {name: float(values[0]) for name, values in predicted.items()}
        found.append({"num_rows": num_rows, "measured": measured, "predicted": expected})
        for name in ("certificate", "localization", "whole"):
            console.print(
                f"{num_rows} rows, {name}: predicted {expected[name]:.3f}, simulated"
                f" {measured[name]['mean']:.3f} ± {1.96 * measured[name]['stderr']:.3f}"
            )
    return found


@in_sentences
def simulate(
    *,
    out: Annotated[
        str, typer.Option("--out", help="CSV or Parquet file to write.", metavar="FILE")
    ],
    rows: Annotated[int, typer.Option("--rows", help="Number of rows.", metavar="N", min=1)] = 6000,
    beta: Annotated[
        float, typer.Option("--beta", help="Amplitude of the cubic term; 0 for none.", metavar="X")
    ] = 0.2,
    lower: Annotated[
        float, typer.Option("--lower", help="Start of the band of |x1|.", metavar="X")
    ] = 1.7,
    width: Annotated[float, typer.Option("--width", help="Width of the band.", metavar="X")] = 1.0,
    scale: Annotated[
        float, typer.Option("--scale", help="Standard deviation of the noise.", metavar="X")
    ] = 0.3,
    seed: Seed = 0,
) -> None:
    """Write a table of the published oscillator: x1, x2 and y = -x1 - 0.3 x2 + ... + noise."""
    import pandas as pd

    environment.set_precision(float32=False)
    suffix = Path(out).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise Failure(f"--out must end in .csv or .parquet, got {out!r}")
    check_num_rows("--rows", rows)
    for name, value, least in (("--scale", scale, 0.0), ("--width", width, 0.0)):
        if not (math.isfinite(value) and value >= least):
            raise Failure(f"{name} must be a finite number of at least {least:g}, got {value:g}")
    files.check_target(out)
    numbers = {"beta": beta, "lower": lower, "width": width, "scale": scale}
    sample = scenarios.oscillator(rows)(jax.random.key(seed), **numbers)
    x1, x2 = -np.asarray(sample.design).T
    table = pd.DataFrame({"x1": x1, "x2": x2, "y": np.asarray(sample.response)})
    content = (
        table.to_csv(index=False).encode() if suffix == ".csv" else table.to_parquet(index=False)
    )
    files.write_bytes(out, content)
    say_written(Console(), out)
