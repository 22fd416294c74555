"""A diagnosis of a table in one call: a formula or its parts, candidate terms, rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lisdd_jax import validation
from lisdd_jax.config import Config, PublishedConfig, check_config
from lisdd_jax.fitting import execution
from lisdd_jax.fitting.frames import index_of
from lisdd_jax.fitting.result import Result
from lisdd_jax.library import as_terms
from lisdd_jax.tables import as_table, parts
from lisdd_jax.tables.errors import ProblemError
from lisdd_jax.tables.formula import Formula, parse_formula, parse_physics
from lisdd_jax.tables.problem import Problem, from_table
from lisdd_jax.tables.table import Table


def fit(
    formula: str | None = None,
    data: Any = None,
    *,
    library: Any,
    response: str | None = None,
    physics: str | Sequence[str] | None = None,
    axis: str | None = None,
    block: str | None = None,
    time: str | None = None,
    trusted: str | None = None,
    noise_scale: str | None = None,
    seed: int = 0,
    config: Config | PublishedConfig | None = None,
) -> Result:
    """Find where a trusted model is wrong, which term is missing there, and whether that is real.

    Every text is the name of a column or an expression over columns (``log10(Re)``,
    ``max(temp - 18, 0)``). Numbers are computed in float64 where JAX has it switched on.

    Args:
      formula: ``"response ~ physics | axis"``; an intercept is there unless ``- 1`` takes it away.
      data: a data frame of pandas or Polars, a mapping from names to arrays, a table of
        ``lisdd_jax.tables``, or the path of a file. Rows with a missing value in a column in use
        are left out and counted.
      library: candidate terms: strings, expressions, terms, or a feature library of PySINDy, whose
        variables are then the columns of physics and axis, in order of appearance.
      response, physics, axis: in place of a formula; the physics is the part between ``~`` and
        ``|``, or a list of terms, among which ``"0"`` or ``"-1"`` takes the intercept away.
      block: what rows that depend on each other have in common, such as a day or a device.
      time: when a row was measured. Rows are taken in its order, and where neighbours in it
        correlate, consecutive rows make blocks (``fitting.time_blocks``).
      trusted: a condition on the rows where the law is vouched for (default method).
      noise_scale: relative size of the measurement error, positive.
      seed: of random starts and splits of the published method; the default one has none.
      config: settings, whose type chooses the method; ``Config()`` where None.

    Returns:
      A ``Result``. That the data do not decide is a verdict, not an error.

    Raises:
      ExpressionError: the formula or an expression does not parse, or a column is unknown.
      ProblemError: no diagnosis can be made of these rows, or the method cannot use a part.
      TableError: the table cannot be read, or a column in use holds no numbers.
      TypeError, ValueError: an argument is of a wrong kind.

    Example:
      >>> import numpy as np
      >>> from lisdd_jax import fit
      >>> t = np.linspace(0, 1, 60)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0) + 0.05 * np.sin(997 * t**2)
      >>> found = fit("y ~ t | t", {"t": t, "y": y}, library=["1", "t"])
      >>> found.verdict, found.terms.term.tolist()
      ('discrepancy', ['1', 't'])
    """
    if data is None:
        raise TypeError("data must be a table, such as a data frame, got None")
    table, config = as_table(data), check_config(config)
    seed = validation.check_seed("seed", seed)
    roles: dict[str, Any] = {"block": block, "time": time, "trusted": trusted}
    roles["noise_scale"] = noise_scale
    _check_texts(response=response, axis=axis, **roles)
    asked = read_law(formula, response, physics, axis, table.names)
    problem = from_table(
        table, **vars(asked), library=as_terms(library, law_columns(asked, table.names)), **roles
    )
    problem, found = execution.diagnose_problem(problem, config, seed=seed)
    said = {**roles, "library": list(problem.library.names), "seed": seed}
    return Result(
        problem=problem,
        arrays=found,
        config={
            **_in_texts(asked),
            **{name: value for name, value in said.items() if value is not None},
            "float32": found.scale.dtype == np.float32,
            **execution.settings_record(config),
        },
        labels=_labels(data, problem),
        source=_source(table),
    )


def _check_texts(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(
                f"{name} must be the name of a column or an expression over columns, got"
                f" {type(value).__name__}; add it to the table as a column"
            )


def read_law(
    formula: str | None,
    response: str | None,
    physics: str | Sequence[str] | None,
    axis: str | None,
    names: Sequence[str],
) -> Formula:
    """Response, physics, axis and intercept, from either way to say them.

    Args:
      formula, response, physics, axis: as for ``fit``.
      names: of the columns.

    Raises:
      ExpressionError, ProblemError, TypeError: as ``fit``.
    """
    given = {"response": response, "physics": physics, "axis": axis}
    said = [name for name, value in given.items() if value is not None]
    if formula is not None:
        if said:
            raise ProblemError(f"{said[0]} is part of the formula; give one or the other")
        if not isinstance(formula, str):
            raise TypeError(
                f"formula must be text such as 'y ~ t | t', got {type(formula).__name__}"
            )
        return parse_formula(formula, names)
    if response is None or physics is None or axis is None:
        absent = [name for name in given if name not in said]
        raise ProblemError(
            f"{' and '.join(absent)} must be given, or a formula 'response ~ physics | axis'"
        )
    if isinstance(physics, str):
        terms, intercept = parse_physics(physics, names)
    else:
        terms, intercept = _without_constants(physics)
    return Formula(response=response, physics=terms, axis=axis, intercept=intercept)


def _without_constants(physics: Sequence[Any]) -> tuple[tuple[Any, ...], bool]:
    """Terms of a list, and whether there is an intercept, as a formula would have it."""
    constants = {"1": True, "0": False, "-1": False, "- 1": False}
    intercept, terms = True, []
    for term in physics:
        if isinstance(term, str) and term.strip() in constants:
            intercept = constants[term.strip()]
        else:
            terms.append(term)
    return tuple(terms), intercept


def law_columns(asked: Formula, names: Sequence[str]) -> list[str]:
    """Columns that the physics and the axis use, in order of appearance."""
    used = parts.read_parts("physics", asked.physics, names)
    return parts.columns_of([*used, parts.read_term("axis", asked.axis, names)])


def _in_texts(asked: Formula) -> dict[str, Any]:
    """The law in types that JSON has; terms and expressions as their texts."""
    terms = [str(getattr(term, "source", term)) for term in asked.physics]
    return {**vars(asked), "physics": terms}


def _labels(data: Any, problem: Problem) -> np.ndarray:
    """What the rows in use are called: by the index of a pandas frame, else from 0."""
    index = index_of(data)
    return problem.positions if index is None else np.asarray(index)[problem.positions]


def _source(table: Table) -> str:
    """The name of a file; tables in memory have none worth printing."""
    return "" if table.name == "data" else table.name
