"""``lisdd-jax diagnose``: from a table to a verdict."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import lisdd_jax
from lisdd_jax.cli import environment, execution, options, outputs
from lisdd_jax.cli.arguments import with_settings
from lisdd_jax.cli.failure import in_sentences
from lisdd_jax.cli.waiting import waiting
from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.fitting.execution import settings_record
from lisdd_jax.numerics.compilation import made_ahead
from lisdd_jax.report import figures, html, json_report, summarize, terminal
from lisdd_jax.report.summary import Summary
from lisdd_jax.tables import SpecError, Table, model, model_format, problem, read_table, spec
from lisdd_jax.tables.model import Model
from lisdd_jax.tables.problem import Problem
from lisdd_jax.tables.spec import Spec

HELP = r"""
Find where a trusted model is wrong, which term is missing there, and whether that is real.

An EXPR is a column name or an expression over columns: x1^3, log10(Re),
max(temp - 18, 0), day < date('2020-06-01'). Several may follow one option.

[bold]Example[/bold]

    lisdd-jax diagnose pipe.csv --where "Re > 3500" \
      --response "log10(f)" --physics "log10(Re)" --intercept \
      --axis "log10(Re)" --library "log10(Re)^2" "max(log10(Re) - 5, 0)" \
      --report pipe.html
"""


@with_settings
@in_sentences
def command(
    table: options.TablePath = None,
    *,
    spec_file: options.SpecPath = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    where: options.Where = None,
    response: options.Response = None,
    physics: options.Physics = None,
    intercept: options.Intercept = None,
    axis: options.Axis = None,
    library: options.LibraryTerms = None,
    block: options.Block = None,
    time: options.Time = None,
    trusted: options.Trusted = None,
    noise_scale: options.NoiseScale = None,
    paper: options.Paper = None,
    seed: options.Seed = None,
    quantile_cells: options.QuantileCells = None,
    edges: options.Edges = None,
    min_rows_per_cell: options.MinRowsPerCell = None,
    json: options.JsonPath = None,
    report: options.ReportPath = None,
    predictions: options.PredictionsPath = None,
    float32: options.Float32 = None,
    **settings: Any,
) -> None:
    """Run a diagnosis; ``settings`` are those of either method, None where not given."""
    given = Spec(
        table=table,
        sep=sep,
        decimal=decimal,
        encoding=encoding,
        sheet=sheet,
        response=response,
        physics=tuple(physics) if physics else None,
        axis=axis,
        library=tuple(library) if library else None,
        intercept=intercept,
        where=where,
        block=block,
        time=time,
        trusted=trusted,
        noise_scale=noise_scale,
        paper=paper,
        edges=tuple(edges) if edges else None,
        quantile_cells=quantile_cells,
        min_rows_per_cell=min_rows_per_cell,
        seed=seed,
        float32=float32,
        json=json,
        report=report,
        predictions=predictions,
        config={name: value for name, value in settings.items() if value is not None},
    )
    plan = given if spec_file is None else spec.load(spec_file).override(given)
    _check(plan)
    _diagnose(plan, spec_file)


def _check(plan: Spec) -> None:
    try:
        spec.check(plan)
    except SpecError as error:
        swallowed = [text for text in (plan.library or plan.physics or ()) if Path(text).is_file()]
        if plan.table or not swallowed:
            raise
        raise SpecError(
            f"{error}; {swallowed[-1]!r} was read as an expression: put the table first"
        ) from None


def _diagnose(plan: Spec, spec_file: str | None) -> None:
    config = plan.settings()
    _check_outputs(plan, spec_file)
    environment.set_precision(float32=bool(plan.float32))
    # Programs that the same command took before are loaded while the table is read.
    with made_ahead(f"diagnose {plan}"):
        with waiting(f"Reading {plan.table}"):
            table = read_table(Path(plan.table or ""), plan.reading())
            data = _read(table, plan)
        with waiting("Diagnosing (the first run of its kind compiles)"):
            data, found = execution.run(data, plan, config)
    record = _record(plan, config)
    summary = summarize(found, data, config=record, version=lisdd_jax.__version__)
    fitted = model.from_diagnosis(found, data)
    if plan.predictions:
        _write_predictions(fitted, table, data, plan.predictions)
    _write(summary, fitted, data, plan)


def _check_outputs(plan: Spec, spec_file: str | None) -> None:
    inputs = [path for path in (plan.table, spec_file) if path]
    outputs.check_outputs(
        {"--json": plan.json, "--report": plan.report, "--predictions": plan.predictions}, inputs
    )
    if plan.report:
        figures.check_available()


def _read(table: Table, plan: Spec) -> Problem:
    return problem.from_table(
        table,
        response=plan.response or "",
        physics=plan.physics or (),
        axis=plan.axis or "",
        library=plan.library or (),
        intercept=bool(plan.intercept),
        where=plan.where,
        block=plan.block,
        time=plan.time,
        trusted=plan.trusted,
        noise_scale=plan.noise_scale,
    )


def _record(plan: Spec, config: Config | PublishedConfig) -> dict[str, Any]:
    """All that is needed to repeat the run, in types that JSON has."""
    said = {name: value for name, value in vars(plan).items() if name not in ("config", "paper")}
    certain = {"seed": plan.seed or 0, "intercept": bool(plan.intercept)}
    return {**said, **certain, "float32": bool(plan.float32), **settings_record(config)}


def _write_predictions(fitted: Model, table: Table, data: Problem, path: str) -> None:
    predicted = model.predict(fitted, table)
    columns = predicted.columns()
    used = np.zeros(table.num_rows, int)
    used[data.positions] = 1
    outputs.write_columns(path, {**columns, "used": used})


def _write(summary: Summary, fitted: Model, data: Problem, plan: Spec) -> None:
    """Write the files first, so that a closed terminal loses nothing."""
    source = str(plan.table)
    if plan.report:
        outputs.write_text(plan.report, html.render(summary, data, source=source))
    if plan.json:
        text = json_report.to_json(summary, model=model_format.to_dict(fitted))
        outputs.write_text(plan.json, text)
    written = [path for path in (plan.report, plan.json, plan.predictions) if path]
    console = Console(stderr=outputs.STANDARD_OUTPUT in written)
    terminal.print_report(summary, console, source=source)
    for path in written:
        outputs.say_written(console, path)
