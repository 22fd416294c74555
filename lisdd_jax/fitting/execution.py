"""Running a diagnosis on the rows of a problem."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from lisdd_jax import diagnosis
from lisdd_jax.config import Config, PublishedConfig, mode_of
from lisdd_jax.fitting import time_blocks
from lisdd_jax.results import Diagnosis
from lisdd_jax.tables.arguments import optional_arguments
from lisdd_jax.tables.problem import Problem, check_problem


class Diagnosed(NamedTuple):
    """A problem and what was found.

    Attributes:
      problem: as given; where blocks were made from the time, with these and a note.
      found: what ``lisdd_jax.diagnose`` returns, its rows in the order of the problem.
    """

    problem: Problem
    found: Diagnosis


def diagnose_problem(
    problem: Problem, config: Config | PublishedConfig, *, seed: int = 0, edges: Any = None
) -> Diagnosed:
    """Diagnose the rows of a problem.

    Rows that have a time are taken in its order. Where no blocks are given and neighbours in that
    order correlate beyond chance, consecutive rows make blocks (``time_blocks``).

    Args:
      problem: named arrays.
      config: settings.
      seed: of starts and splits of the published method.
      edges: ``(R + 1,)`` of the cells; equal widths where None.

    Raises:
      ProblemError: no diagnosis can be made from the problem, or the method cannot take a part of
        it into account.
    """
    check_problem(problem, config.max_terms)
    if problem.time is None:
        return Diagnosed(problem, _diagnose(problem, config, seed, edges))
    order = np.argsort(problem.time, kind="stable")
    ordered = _take(problem, order)
    found = None
    if problem.block is None:
        measuring = config if isinstance(config, Config) else Config(num_cells=config.num_cells)
        found = _diagnose(ordered, measuring, seed, edges)
        ordered = _with_blocks(ordered, float(found.dependence.record_correlation))
        if ordered.block is not None or measuring is not config:
            found = None
    if found is None:
        found = _diagnose(ordered, config, seed, edges)
    place = np.argsort(order)
    found = dataclasses.replace(found, outliers=found.outliers[place])
    block = None if ordered.block is None else ordered.block[place]
    return Diagnosed(dataclasses.replace(problem, block=block, notes=ordered.notes), found)


def settings_record(config: Config | PublishedConfig) -> dict[str, Any]:
    """The method and its settings in types that JSON has."""
    settings = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if isinstance(value, bool | int | float | str)
    }
    return {"mode": mode_of(config), **settings}


def _diagnose(
    problem: Problem, config: Config | PublishedConfig, seed: int, edges: Any
) -> Diagnosis:
    # The order of the rows tells all that a diagnosis makes of their time.
    optional = optional_arguments(dataclasses.replace(problem, time=None), diagnosis.diagnose)
    found = diagnosis.diagnose(
        problem.design,
        problem.response,
        problem.axis,
        problem.features,
        key=jax.random.key(seed),
        config=config,
        edges=edges,
        **optional,
    )
    return jax.block_until_ready(found)


def _take(problem: Problem, order: np.ndarray) -> Problem:
    """The rows of a problem in another order."""
    arrays = {
        name: value[order] for name, value in vars(problem).items() if isinstance(value, np.ndarray)
    }
    return dataclasses.replace(problem, **arrays)


def _with_blocks(ordered: Problem, correlation: float) -> Problem:
    """A problem whose rows are in the order of time, with blocks where they are called for."""
    num_rows = len(ordered.response)
    length = time_blocks.block_length(correlation, num_rows)
    said = f"residuals of neighbours in the order of time correlate by {correlation:.2f}"
    if np.isnan(correlation):
        note = "how residuals of neighbours in the order of time correlate could not be measured"
    elif length == 1:
        note = f"{said}, which is not beyond chance, so rows count as independent"
    else:
        note = f"{said}, so blocks of {length} consecutive rows are kept together"
    block = None if length == 1 else time_blocks.label_blocks(num_rows, length)
    return dataclasses.replace(ordered, block=block, notes=(*ordered.notes, note))
