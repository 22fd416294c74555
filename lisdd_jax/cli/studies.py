"""Commands for studies: ``reproduce``, ``study``, ``power`` and ``simulate``."""

import csv
import dataclasses
import functools
import json as json_format
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from lisdd_jax.cli import environment
from lisdd_jax.cli.failure import Failure
from lisdd_jax.report import figures, files, paper_figures, reproduction_report
from lisdd_jax.study import power as planning
from lisdd_jax.study import power_check, reproduction, scenarios, study_spec
from lisdd_jax.study.experiments.setup import Experiment, Setup
from lisdd_jax.study.progress import Progress
from lisdd_jax.study.summary import StudyResult

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="rich")

_MODES = {"paper": ("paper",), "default": ("default",), "both": ("paper", "default")}

Seed = Annotated[int, typer.Option("--seed", help="Seed of all random numbers.", metavar="N")]
Float32 = Annotated[bool, typer.Option("--float32/--float64", help="Precision.")]


def _in_sentences(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors of the input into one sentence."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise Failure(str(error)) from error

    return wrapped


class _Reporter:
    """One line of progress on stderr, on a terminal only."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def __call__(self, name: str, progress: Progress) -> None:
        if not self._shown:
            return
        left = "" if progress.seconds_left is None else f", {progress.seconds_left:.0f} s left"
        line = f"{name}: {progress.done} of {progress.total} replications{left}"
        sys.stderr.write("\r\x1b[K" + line)
        if progress.done >= progress.total:
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _make_folder(folder: str) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise Failure(f"--out {folder!r} cannot be made a folder: {reason}") from None
    return path


@app.command()
@_in_sentences
def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[E1 E2 E3 E4 E5]", help="Which; all where none is given."),
    ] = None,
    *,
    out: Annotated[
        str, typer.Option("--out", help="Folder for tables, figures and report.", metavar="DIR")
    ],
    replications: Annotated[
        int, typer.Option("--replications", help="Data sets per cell.", metavar="N", min=2)
    ] = 200,
    mode: Annotated[
        str, typer.Option("--mode", help="paper, default or both.", metavar="MODE")
    ] = "paper",
    seed: Seed = 0,
    rows: Annotated[
        int, typer.Option("--rows", help="Rows of a data set.", metavar="N", min=100)
    ] = 6000,
    starts: Annotated[
        int, typer.Option("--starts", help="Random starts of the trimmed fit.", metavar="N", min=1)
    ] = 50,
    float32: Float32 = False,
) -> None:
    """Run the published experiments again and compare every printed number with ours."""
    names = reproduction.check_names(experiments or [])
    if mode not in _MODES:
        raise Failure(f"--mode must be one of {', '.join(_MODES)}, got {mode!r}")
    figures.check_available()
    environment.prepare(float32=float32)
    folder = _make_folder(out)
    setup = Setup(
        num_replications=replications,
        seed=seed,
        modes=_MODES[mode],
        num_rows=rows,
        num_rows_forced=min(1500, rows),
        num_starts=starts,
        progress=_Reporter(),
    )
    console = Console()
    for experiment in reproduction.reproduce(names, setup):
        path = reproduction.write_json(experiment, folder)
        _show(experiment, console)
        console.print(f"Written: {path}", style="dim", markup=False, highlight=False)
    tables = reproduction.read_json(folder)
    drawn = paper_figures.draw_all(tables, folder)
    report = folder / "report.md"
    files.write_text(report, reproduction_report.render(tables, drawn))
    for path in (*drawn, report):
        console.print(f"Written: {path}", style="dim", markup=False, highlight=False)


def _show(experiment: Experiment, console: Console) -> None:
    table = Table(title=f"{experiment.name}: {experiment.title}", title_justify="left")
    for name in ("mode", "method", "metric", "parameters", "ours", "published", "verdict"):
        table.add_column(name, justify="right" if name in ("ours", "published") else "left")
    for row in experiment.rows:
        if row.published is None:
            continue
        params = ", ".join(f"{name} {value}" for name, value in row.params.items())
        half = 0.5 * (row.upper - row.lower)
        ours = f"{row.mean:.4f}" + ("" if math.isnan(half) else f" ± {half:.4f}")
        cells = (row.mode, row.method, row.metric, params, ours, f"{row.published:g}", row.verdict)
        table.add_row(*cells)
    console.print(table)


@app.command()
@_in_sentences
def study(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml", help="The study, written down.")],
    out: Annotated[
        str, typer.Option("--out", help="Folder for records and results.", metavar="DIR")
    ],
    replications: Annotated[
        int | None,
        typer.Option("--replications", help="In place of the file's.", metavar="N", min=1),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue what the folder holds.")
    ] = False,
    float32: Float32 = False,
) -> None:
    """Run a Monte Carlo study over a grid; a killed one goes on with --resume."""
    plan = study_spec.load(spec)
    if replications is not None:
        plan = dataclasses.replace(plan, num_replications=replications)
    environment.prepare(float32=float32)
    folder = _make_folder(out)
    report = _Reporter()
    result = study_spec.run(
        plan,
        out_dir=folder / "records",
        resume=resume,
        progress=lambda progress: report(spec, progress),
    )
    files.write_text(folder / "result.json", result.to_json() + "\n")
    _write_rows(result, folder / "rows.csv")
    console = Console()
    console.print(_study_table(result, list(plan.grid)))
    for name in ("result.json", "rows.csv"):
        console.print(f"Written: {folder / name}", style="dim", markup=False, highlight=False)


def _write_rows(result: StudyResult, path: Path) -> None:
    rows = result.rows()
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _study_table(result: StudyResult, axes: list[str]) -> Table:
    shown = ("physics_bias", "f1_overlap", "iou", "form_recovery", "rejection_rate")
    table = Table(title="Means (standard errors)", title_justify="left")
    for name in (*axes, "replications", *shown):
        table.add_column(name, justify="right")
    for cell in result.cells:
        values = [cell.metrics[name] for name in shown]
        table.add_row(
            *(f"{cell.params[name]:g}" for name in axes),
            str(cell.num_replications),
            *(f"{m.mean:.4f} ({m.standard_error:.4f})" for m in values),
        )
    return table


@app.command()
@_in_sentences
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
        console.print(f"Written: {json}", style="dim", markup=False, highlight=False)


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


@app.command()
@_in_sentences
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
    Console().print(f"Written: {out}", style="dim", markup=False, highlight=False)
