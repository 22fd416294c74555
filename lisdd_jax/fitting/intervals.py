"""Intervals of predictions, from the errors of the physics and of the missing terms together.

The physics ``c`` is fitted on the rows where it holds, with covariance ``C``; the terms of a region
are fitted to what it leaves there. With rows weighted by one over their squared noise scale, ``A``
the terms' products with the physics, and ``B`` the inverse of those among themselves,

    cov(w, c) = -B A C,    cov(w) = B scale^2 + B A C A' B.

What the diagnosis adds to the terms' errors besides is kept: rows and columns of ``w`` are scaled
so that its standard errors are those reported.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from lisdd_jax.report.inference import quantile
from lisdd_jax.results import Diagnosis, in_interval
from lisdd_jax.tables.model import Predictions
from lisdd_jax.tables.problem import Problem

Kind = Literal["confidence", "prediction"]
KINDS = ("confidence", "prediction")


class Interval(NamedTuple):
    """Predictions ``(m,)``, their standard errors, and the ends of their intervals."""

    predicted: np.ndarray
    stderr: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def inside_regions(found: Diagnosis, axis: np.ndarray) -> np.ndarray:
    """Which values ``(n,)`` of the axis lie in which region, ``(K, n)`` bool."""
    table = found.regions
    ends = (table.lower, table.upper, table.open_below, table.open_above)
    return (
        in_interval(axis[None], *(np.asarray(end)[:, None] for end in ends))
        & np.asarray(table.present)[:, None]
    )


def joint_covariance(found: Diagnosis, problem: Problem, region: int) -> np.ndarray:
    """Covariance ``(p + s, p + s)`` of the physics and the ``s`` terms of a region.

    Args:
      found: the diagnosis, on the host.
      problem: its rows.
      region: slot of the region.
    """
    physics = np.asarray(found.covariance, float)
    terms = np.flatnonzero(found.regions.support[region])
    regions = inside_regions(found, problem.axis)
    inside = regions.any(axis=0) if found.regions.shared else regions[region]
    rows = inside & ~np.asarray(found.outliers)
    noise = np.asarray(found.row_noise, float) * (
        1.0 if problem.noise_scale is None else problem.noise_scale
    )
    weight = 1 / noise[rows, None]
    columns = weight * problem.features[np.ix_(rows, terms)]
    triangle = np.linalg.inv(np.linalg.qr(columns, mode="r"))
    carried = -triangle @ triangle.T @ columns.T @ (weight * problem.design[rows])
    own = triangle @ triangle.T * float(found.scale) ** 2
    across = carried @ physics
    joint = np.block([[physics, across.T], [across, own + across @ carried.T]])
    reported = np.asarray(found.regions.stderr[region], float)[terms]
    ratio = reported / np.sqrt(np.diagonal(joint)[len(physics) :])
    scaling = np.concatenate([np.ones(len(physics)), ratio])
    return joint * scaling[:, None] * scaling


def interval(
    predictions: Predictions,
    found: Diagnosis,
    problem: Problem,
    *,
    degrees: float,
    corrected: bool,
    level: float,
    noise: np.ndarray | float,
) -> Interval:
    """Predictions with their intervals.

    Args:
      predictions: of the corrected model.
      found: its diagnosis, on the host.
      problem: the rows of the diagnosis.
      degrees: of freedom.
      corrected: whether with the missing terms, or the physics alone.
      level: that the intervals cover.
      noise: ``(m,)`` or one, standard deviation of the noise of a row to be measured; 0 for that
        of the mean.
    """
    scatter = float(np.nan_to_num(found.law_scatter))
    spread = np.hypot(scatter, noise)
    factor = quantile(degrees, level)

    def given(predicted: np.ndarray, rows: np.ndarray, covariance: Any) -> Interval:
        variance = np.einsum("ni,ij,nj->n", rows, covariance, rows)
        stderr = np.hypot(np.sqrt(np.maximum(variance, 0.0)), spread)
        return Interval(predicted, stderr, predicted - factor * stderr, predicted + factor * stderr)

    outside = given(predictions.physics, predictions.design, np.asarray(found.covariance, float))
    if not corrected:
        return outside
    unplaced = np.isnan(predictions.axis)
    result = Interval(*(np.where(unplaced, np.nan, part) for part in outside))
    slots = np.flatnonzero(found.regions.present).tolist()
    for k, features in zip(slots, predictions.features, strict=True):
        rows = np.concatenate([predictions.design, features], axis=1)
        coefficients = np.asarray(found.regions.coefficients[k], float)
        missing = features @ coefficients[np.asarray(found.regions.support[k])]
        covariance = joint_covariance(found, problem, k)
        own = given(predictions.physics + missing, rows, covariance)
        result = _with_region(result, own, outside, predictions, found, k)
    # The numbers of a prediction are those that it has without an interval.
    return result._replace(predicted=predictions.corrected)


def _with_region(
    result: Interval,
    own: Interval,
    outside: Interval,
    predictions: Predictions,
    found: Diagnosis,
    k: int,
) -> Interval:
    """The interval of a region within it, and of both sides where its end is not known."""
    ends = (found.regions.lower[k], found.regions.upper[k])
    open_ends = (found.regions.open_below[k], found.regions.open_above[k])
    inside = in_interval(predictions.axis, *ends, *open_ends)
    near = np.zeros(len(inside), bool)
    for pair in (found.regions.lower_interval[k], found.regions.upper_interval[k]):
        near |= in_interval(predictions.axis, *pair)
    chosen = Interval(*(np.where(inside, mine, old) for mine, old in zip(own, result, strict=True)))
    both = [(part.lower, part.upper) for part in (chosen, own, outside)]
    lower = np.minimum.reduce([low for low, _ in both])
    upper = np.maximum.reduce([high for _, high in both])
    return chosen._replace(
        lower=np.where(near, lower, chosen.lower), upper=np.where(near, upper, chosen.upper)
    )
