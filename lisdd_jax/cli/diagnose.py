"""``lisdd-jax diagnose``: from a table to a verdict."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

import lisdd_jax
from lisdd_jax import problem, spec, tables
from lisdd_jax.cli import environment, execution, options
from lisdd_jax.cli.arguments import with_settings
from lisdd_jax.cli.failure import Failure
from lisdd_jax.cli.waiting import waiting
from lisdd_jax.config import Config, PublishedConfig, mode_of
from lisdd_jax.problem import Problem
from lisdd_jax.report import figures, files, html, json_report, summarize, terminal
from lisdd_jax.report.summary import Summary
from lisdd_jax.spec import Spec

_LARGE_TABLE = 20_000_000
"""Bytes of a table on which a program that is quick to compile would run too long."""

HELP = r"""
Find where a trusted model is wrong, which term is missing there, and whether that is real.

An EXPR is a column name or an expression over columns: x1^3, log10(Re),
max(temp - 18, 0). Several may follow one option.

[bold]Example[/bold]

    lisdd-jax diagnose pipe.csv --where "Re > 3500" \
      --response "log10(f)" --physics "log10(Re)" --intercept \
      --axis "log10(Re)" --library "log10(Re)^2" "max(log10(Re) - 5, 0)" \
      --report pipe.html
"""


@with_settings
def command(
    table: options.TablePath = None,
    *,
    response: options.Response = None,
    physics: options.Physics = None,
    intercept: options.Intercept = None,
    axis: options.Axis = None,
    library: options.LibraryTerms = None,
    where: options.Where = None,
    spec_file: options.SpecPath = None,
    edges: options.Edges = None,
    quantile_cells: options.QuantileCells = None,
    min_rows_per_cell: options.MinRowsPerCell = None,
    paper: options.Paper = None,
    seed: options.Seed = None,
    float32: options.Float32 = None,
    json: options.JsonPath = None,
    report: options.ReportPath = None,
    **settings: Any,
) -> None:
    """Run a diagnosis; ``settings`` are those of either method, None where not given."""
    given = Spec(
        table=table,
        response=response,
        physics=tuple(physics) if physics else None,
        axis=axis,
        library=tuple(library) if library else None,
        intercept=intercept,
        where=where,
        paper=paper,
        edges=tuple(edges) if edges else None,
        quantile_cells=quantile_cells,
        min_rows_per_cell=min_rows_per_cell,
        seed=seed,
        float32=float32,
        json=json,
        report=report,
        config={name: value for name, value in settings.items() if value is not None},
    )
    try:
        _diagnose(given, spec_file)
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Failure(str(error)) from error


def _diagnose(given: Spec, spec_file: str | None) -> None:
    plan = given if spec_file is None else spec.load(spec_file).override(given)
    spec.check(plan)
    config = plan.settings()
    _check_outputs(plan, spec_file)
    environment.set_precision(float32=bool(plan.float32))
    table = Path(plan.table or "")
    if table.is_file() and table.stat().st_size < _LARGE_TABLE:
        environment.compile_quickly()
    with waiting(f"Reading {plan.table}"):
        data = _read(plan)
    problem.check(data, config.max_terms)
    with waiting("Diagnosing (the first run of its kind compiles)"):
        found = jax.block_until_ready(execution.run(data, plan, config))
    record = _record(plan, config)
    summary = summarize(found, data, config=record, version=lisdd_jax.__version__)
    _write(summary, data, plan)


def _check_outputs(plan: Spec, spec_file: str | None) -> None:
    outputs = [path for path in (plan.json, plan.report) if path and path != "-"]
    inputs = [path for path in (plan.table, spec_file) if path]
    for path in outputs:
        files.check_target(path, inputs)
    if len(outputs) == 2 and Path(outputs[0]).resolve() == Path(outputs[1]).resolve():
        raise files.OutputError(f"--json and --report must differ, got {outputs[0]!r} for both")
    if plan.report:
        figures.check_available()


def _read(plan: Spec) -> Problem:
    return problem.from_table(
        tables.open_table(plan.table or ""),
        response=plan.response or "",
        physics=plan.physics or (),
        axis=plan.axis or "",
        library=plan.library or (),
        intercept=bool(plan.intercept),
        where=plan.where,
    )


def _record(plan: Spec, config: Config | PublishedConfig) -> dict[str, Any]:
    """All that is needed to repeat the run, in types that JSON has."""
    said = {name: value for name, value in vars(plan).items() if name not in ("config", "paper")}
    settings = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if isinstance(value, bool | int | float | str)
    }
    certain = {"seed": plan.seed or 0, "intercept": bool(plan.intercept)}
    return {**said, **certain, "float32": bool(plan.float32), "mode": mode_of(config), **settings}


def _write(summary: Summary, data: Problem, plan: Spec) -> None:
    """Write the files first, so that a closed terminal loses nothing."""
    source = str(plan.table)
    to_stdout = plan.json == "-"
    if plan.report:
        files.write_text(plan.report, html.render(summary, data, source=source))
    if plan.json and not to_stdout:
        files.write_text(plan.json, json_report.to_json(summary))
    console = Console(stderr=to_stdout)
    terminal.print_report(summary, console, source=source)
    for path in (plan.report, None if to_stdout else plan.json):
        if path:
            console.print(f"Written: {path}", style="dim", markup=False, highlight=False)
    if to_stdout:
        print(json_report.to_json(summary), end="")
