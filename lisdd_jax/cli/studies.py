"""Commands for studies: ``reproduce``, ``study``, ``power`` and ``simulate``."""

import csv
import dataclasses
import io
import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lisdd_jax.cli import environment, planning
from lisdd_jax.cli.failure import Failure, in_sentences
from lisdd_jax.cli.outputs import say_written
from lisdd_jax.cli.study_options import Float32, ProgressLine, Seed
from lisdd_jax.report import figures, files, paper_figures, reproduction_report
from lisdd_jax.study.engine import StudyResult
from lisdd_jax.study.experiments import reproduction
from lisdd_jax.study.experiments.setup import Outcome, Setup
from lisdd_jax.study.planning import specification

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="rich")
app.command()(planning.power)
app.command()(planning.simulate)

_MODES = {"paper": ("paper",), "default": ("default",), "both": ("paper", "default")}


def _make_folder(folder: str) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise Failure(f"--out {folder!r} cannot be made a folder: {reason}") from None
    return path


@app.command()
@in_sentences
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
    environment.set_precision(float32=float32)
    folder = _make_folder(out)
    setup = Setup(
        num_replications=replications,
        seed=seed,
        modes=_MODES[mode],
        num_rows=rows,
        num_rows_forced=min(1500, rows),
        num_starts=starts,
        progress=ProgressLine(),
    )
    console = Console()
    for outcome in reproduction.reproduce(names, setup):
        path = reproduction.write_outcome(outcome, folder)
        _show(outcome, console)
        say_written(console, path)
    tables = reproduction.read_outcomes(folder)
    drawn = paper_figures.draw_all(tables, folder)
    report = folder / "report.md"
    files.write_text(report, reproduction_report.to_markdown(tables, drawn))
    for path in (*drawn, report):
        say_written(console, path)


def _show(outcome: Outcome, console: Console) -> None:
    table = Table(title=f"{outcome.name}: {outcome.title}", title_justify="left")
    for name in ("mode", "method", "metric", "parameters", "ours", "published", "verdict"):
        table.add_column(name, justify="right" if name in ("ours", "published") else "left")
    for row in outcome.rows:
        if row.published is None:
            continue
        params = ", ".join(f"{name} {value}" for name, value in row.params.items())
        half = 0.5 * (row.upper - row.lower)
        ours = f"{row.mean:.4f}" + ("" if math.isnan(half) else f" ± {half:.4f}")
        cells = (row.mode, row.method, row.metric, params, ours, f"{row.published:g}", row.verdict)
        table.add_row(*cells)
    console.print(table)


@app.command()
@in_sentences
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
    plan = specification.read_specification(spec)
    if replications is not None:
        plan = dataclasses.replace(plan, num_replications=replications)
    environment.set_precision(float32=float32)
    folder = _make_folder(out)
    show = ProgressLine()
    result = specification.run_specification(
        plan,
        out_dir=folder / "records",
        resume=resume,
        progress=lambda progress: show(spec, progress),
    )
    files.write_text(folder / "result.json", result.to_json() + "\n")
    _write_rows(result, folder / "rows.csv")
    console = Console()
    console.print(_study_table(result, list(plan.grid)))
    for name in ("result.json", "rows.csv"):
        say_written(console, folder / name)


def _write_rows(result: StudyResult, path: Path) -> None:
    rows = result.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files.write_text(path, text.getvalue())


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
