"""Residuals and noise of rows: of those in use, and of rows to be measured."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lisdd_jax.fitting.intervals import inside_regions
from lisdd_jax.results import Diagnosis
from lisdd_jax.tables import model, parts
from lisdd_jax.tables.problem import Problem
from lisdd_jax.tables.table import Table


def unexplained(problem: Problem, found: Diagnosis, corrected: bool) -> np.ndarray:
    """Response less prediction ``(n,)`` at the rows in use.

    Args:
      problem: the rows.
      found: their diagnosis, on the host.
      corrected: whether of the corrected model, or of the trusted physics alone.
    """
    predicted = problem.design @ np.asarray(found.coefficients, float)
    if corrected:
        inside = inside_regions(found, problem.axis)
        missing = problem.features @ np.asarray(found.regions.coefficients, float).T
        predicted = predicted + np.where(inside.T, missing, 0.0).sum(axis=1)
    return problem.response - predicted


def for_checks(
    problem: Problem, found: Diagnosis, cell_starts: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals ``(n,)`` of the corrected model in one unit, NaN for outliers, and their cells.

    Args:
      problem: the rows.
      found: their diagnosis, on the host.
      cell_starts: where the cells of the map begin.
    """
    relative = 1.0 if problem.noise_scale is None else problem.noise_scale
    residuals = unexplained(problem, found, True) / (relative * np.asarray(found.row_noise, float))
    cell = np.searchsorted(cell_starts, problem.axis, side="right")
    return np.where(found.outliers, np.nan, residuals), cell


def noise_of(table: Table, scale: float, noise_scale: str | None) -> Any:
    """Standard deviation of the noise of the rows of a table, ``(m,)`` or one for all.

    Args:
      table: the rows.
      scale: of the noise at a relative error of one.
      noise_scale: expression of the relative error; None where it is one for all.
    """
    if noise_scale is None:
        return scale
    term = parts.read_term("noise_scale", noise_scale, table.names)
    return scale * model.evaluate_term(term, table)
