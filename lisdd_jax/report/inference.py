"""Student's t of estimates: statistics, p-values and intervals."""

import math
from dataclasses import dataclass

import numpy as np

from lisdd_jax.numerics.hosted import special_functions
from lisdd_jax.report.summary import Estimate
from lisdd_jax.results import Diagnosis
from lisdd_jax.tables.problem import Problem

LEVEL = 0.95
"""Of the intervals in reports."""


@dataclass(frozen=True, kw_only=True)
class Inference:
    """What an estimate and its standard error say; NaN where either is undefined.

    Attributes:
      statistic: estimate over standard error.
      p_value: two-sided, that the coefficient is zero.
      lower, upper: ends of the confidence interval.
    """

    statistic: float
    p_value: float
    lower: float
    upper: float


def infer(estimate: Estimate, degrees: float, level: float = LEVEL) -> Inference:
    """Test an estimate against zero, and give its interval.

    Args:
      estimate: with its standard error.
      degrees: of freedom.
      level: that the interval covers.

    Example:
      >>> found = infer(Estimate(name="x", coefficient=2.0, stderr=1.0), 10)
      >>> round(found.p_value, 4), round(found.lower, 3), round(found.upper, 3)
      (0.0734, -0.228, 4.228)
    """
    value, error = estimate.coefficient, estimate.stderr
    statistic = value / error if error > 0 else math.nan
    half = quantile(degrees, level) * error
    return Inference(
        statistic=statistic,
        p_value=float(2 * special_functions().stdtr(degrees, -abs(statistic))),
        lower=value - half,
        upper=value + half,
    )


def quantile(degrees: float, level: float) -> float:
    """Standard errors on either side of an estimate that an interval of a level spans."""
    return float(special_functions().stdtrit(degrees, 0.5 + 0.5 * level))


def degrees_of_freedom(found: Diagnosis, problem: Problem) -> float:
    """Independent rows less coefficients of the physics, at least 1.

    Dependent rows count for fewer (``Dependence.rows``). Where blocks are given, the errors come
    from sums over blocks, of which one less than there are can vary.

    Args:
      found: the diagnosis, on the host.
      problem: its rows.

    References:
      Cameron and Miller (2015), A practitioner's guide to cluster-robust inference, Journal of
      Human Resources 50.
    """
    as_one = float(found.dependence.rows)
    rows = int(found.num_rows) - int(np.sum(found.outliers))
    degrees = rows / (as_one if as_one > 1 else 1.0) - len(problem.physics)
    if problem.block is not None:
        degrees = min(degrees, len(np.unique(problem.block)) - 1)
    return float(max(degrees, 1.0))
