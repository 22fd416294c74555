"""Residuals and noise of rows: of those in use, and of rows to be measured."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from lisdd_jax.default.noise_functions import carry_over
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


def noise_of(
    table: Table,
    predictions: model.Predictions,
    problem: Problem,
    found: Diagnosis,
    noise_scale: str | None,
) -> Any:
    """Standard deviation of the noise of the rows of a table, ``(m,)`` or one for all.

    Args:
      table: the rows.
      predictions: of them.
      problem: the rows of the diagnosis.
      found: the diagnosis, on the host.
      noise_scale: expression of the relative error; None where it is one for all.
    """
    scale: Any = float(found.scale)
    if np.any(found.noise_exponents):
        scale = _shaped_noise(predictions, problem, found)
    if noise_scale is None:
        return scale
    term = parts.read_term("noise_scale", noise_scale, table.names)
    return scale * model.evaluate_term(term, table)


def _shaped_noise(predictions: model.Predictions, problem: Problem, found: Diagnosis) -> np.ndarray:
    """Standard deviations ``(m,)`` of noise that goes with columns, beside errors that were given.

    The functions are those of the diagnosis, the prediction that of the physics; their scale is the
    root mean square of what the corrected model leaves, over the functions.
    """
    physics = problem.design @ np.asarray(found.coefficients, float)
    known = np.vstack([problem.axis, problem.design.T, physics])
    new = np.vstack([predictions.axis, predictions.design.T, predictions.physics])
    logs = carry_over(*map(jnp.asarray, (found.noise_exponents, known, new)))
    shape = np.exp(np.asarray(logs))
    own, others = np.split(shape, [len(physics)])
    given = 1.0 if problem.noise_scale is None else problem.noise_scale
    kept = ~np.asarray(found.outliers)
    ratio = (unexplained(problem, found, True) / (given * own))[kept]
    degrees = max(len(ratio) - problem.design.shape[1] - int(np.sum(found.regions.support)), 1)
    return others * np.sqrt(np.sum(ratio**2) / degrees)
