"""Commands for planning: ``power`` and ``simulate``."""

import dataclasses
import json as json_format
import math
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.console import Console

from lisdd_jax.cli import environment
from lisdd_jax.cli.failure import Failure
from lisdd_jax.cli.study_options import Float32, Seed, in_sentences, say_written
from lisdd_jax.report import files
from lisdd_jax.study.experiments import scenarios
from lisdd_jax.study.planning import power as planning


@in_sentences
def power(
    *,
    effect: Annotated[
        float,
        typer.Option(
            "--effect",
            help="Root mean square of the missing term in its region, over the noise.",
            metavar="X",
        ),
    ],
    share: Annotated[
        float, typer.Option("--share", help="Share of the rows in the region.", metavar="X")
    ],
    wanted: Annotated[
        float, typer.Option("--power", help="Probability of finding it.", metavar="X")
    ] = 0.8,
    alpha: Annotated[
        float, typer.Option("--alpha", help="Level of the certificate.", metavar="X")
    ] = 0.05,
    alpha_cell: Annotated[
        float, typer.Option("--alpha-cell", help="Level of the test of a cell.", metavar="X")
    ] = 1e-3,
    terms: Annotated[int, typer.Option("--terms", help="Terms of the mechanism.", metavar="N")] = 1,
    coefficients: Annotated[
        int, typer.Option("--coefficients", help="Coefficients of the physics.", metavar="N")
    ] = 2,
    absorbed: Annotated[
        float,
        typer.Option("--absorbed", help="Share of the term that physics can mimic.", metavar="X"),
    ] = 0.0,
    cells: Annotated[
        int, typer.Option("--cells", help="Cells that the region covers.", metavar="N")
    ] = 1,
    replications: Annotated[
        int,
        typer.Option("--simulate", help="Confirm with so many simulated data sets.", metavar="N"),
    ] = 0,
    seed: Seed = 0,
    json: Annotated[
        str | None, typer.Option("--json", help="Write the plan for programs.", metavar="FILE")
    ] = None,
    float32: Float32 = False,
) -> None:
    """How many rows are needed to find a missing term of a given size."""
    environment.prepare(float32=float32)
    looked_for = planning.Effect(
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
    plan = planning.plan_rows(looked_for, power=wanted)
    content = dataclasses.asdict(plan)
    console = Console()
    console.print(
        f"[bold]{plan.num_rows_known_region}[/bold] rows certify the term with power {wanted:g}"
        " where region and form are known or found."
    )
    console.print(
        f"[bold]{plan.num_rows}[/bold] rows are needed for the energy test of a single cell of the"
        f" published map to notice the region too (localization {plan.localization:.3f},"
        f" certificate {plan.certificate:.3f}). The local test of the default mode needs fewer."
    )
    if replications:
        content["simulated"] = _confirm(plan, replications, seed, console)
    if json:
        files.write_text(json, json_format.dumps(content, indent=1) + "\n")
        say_written(console, json)


def _confirm(
    plan: planning.PowerPlan, replications: int, seed: int, console: Console
) -> list[dict[str, Any]]:
    found = []
    for num_rows in dict.fromkeys((plan.num_rows_known_region, plan.num_rows)):
        result = power_check.simulate_power(
            plan.effect, num_rows, key=jax.random.key(seed), num_replications=replications
        )
        predicted = planning.power_curve(plan.effect, [num_rows])
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

    environment.prepare(float32=False)
    suffix = Path(out).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise Failure(f"--out must end in .csv or .parquet, got {out!r}")
    for name, value, least in (("--scale", scale, 0.0), ("--width", width, 0.0)):
        if not (math.isfinite(value) and value >= least):
            raise Failure(f"{name} must be a finite number of at least {least:g}, got {value:g}")
    files.check_target(out)
    numbers = {"beta": beta, "lower": lower, "width": width, "scale": scale}
    sample = scenarios.oscillator(rows)(jax.random.key(seed), **numbers)
    x1, x2 = -np.asarray(sample.design).T
    table = pd.DataFrame({"x1": x1, "x2": x2, "y": np.asarray(sample.response)})
    if suffix == ".csv":
        table.to_csv(out, index=False)
    else:
        table.to_parquet(out, index=False)
    say_written(Console(), out)
