"""A diagnosis as plain names and numbers, from which every report is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lisdd_jax.report import numbers
from lisdd_jax.results import in_interval
from lisdd_jax.status import Status
from lisdd_jax.tables.problem import Rows


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A named coefficient; NaN where it is undefined."""

    name: str
    coefficient: float
    stderr: float


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the map; ``mean`` and ``rms`` are those of the residual of the physics.

    A cell that is ``noisier`` has larger noise, but no wrong mean.
    """

    lower: float
    upper: float
    count: int
    mean: float
    rms: float
    statistic: float
    p_value: float
    log_p_value: float
    flagged: bool
    noisier: bool


@dataclass(frozen=True, kw_only=True)
class Region:
    """One discrepant interval with its missing terms.

    Attributes:
      axis: name of the operating variable.
      lower, upper: ends.
      open_below, open_above: whether it reaches that end of the axis, and goes on beyond it.
      lower_interval, upper_interval: 95 % confidence intervals of the ends; NaN where unknown.
      interval: the interval in words, open where it reaches the end of the axis.
      count: rows inside.
      p_value, log_p_value: evidence for the interval.
      same_rows: whether the rows that gave it also chose the interval, so that it is too small.
      bound: whether it is a bound, with the search for the interval paid for.
      softness: half widths over which the correction grows from zero at the two ends; 0 where it
        does at once, NaN where it jumps.
      lacking: whether no candidate term predicts as well as a change of the law itself would.
      adjusted_p_value: the same, adjusted over the regions; NaN where unknown.
      terms: what is missing there.
      formula: the same as a sum, with its sign in front.
      equivalent: other supports that predict as well, best first.
    """

    axis: str
    lower: float
    upper: float
    open_below: bool
    open_above: bool
    lower_interval: tuple[float, float]
    upper_interval: tuple[float, float]
    interval: str
    count: int
    p_value: float
    log_p_value: float
    same_rows: bool
    bound: bool
    softness: tuple[float, float]
    lacking: bool
    adjusted_p_value: float
    terms: tuple[Estimate, ...]
    formula: str
    equivalent: tuple[tuple[str, ...], ...]

    def contains(self, axis: np.ndarray) -> np.ndarray:
        """Which values of the axis lie in the region, by the rule of ``Regions.contains``."""
        ends = (self.lower, self.upper, self.open_below, self.open_above)
        return np.asarray(in_interval(axis, *ends))

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """Equivalent supports that are other forms, not the chosen one with more terms."""
        chosen = {term.name for term in self.terms}
        return tuple(support for support in self.equivalent if not chosen <= set(support))


@dataclass(frozen=True, kw_only=True)
class Test:
    """The certificate; NaN where it is undefined, for the reason in ``status``.

    Attributes:
      statistic, df_num, df_den, p_value, log_p_value, reject: the F-test on held-out rows.
      p_value_robust: the same for noise of unequal variance; NaN where unknown.
      terms, intervals: what was tested there, as chosen on the other rows.
      same_cells: whether these are the cells that all rows together flag.
      status: of the test.
    """

    statistic: float
    df_num: float
    df_den: float
    p_value: float
    log_p_value: float
    p_value_robust: float
    reject: bool
    terms: tuple[str, ...]
    intervals: tuple[str, ...]
    same_cells: bool
    status: Status


PREDICTION = "the prediction"
"""What stands for it where columns have names."""


@dataclass(frozen=True, kw_only=True)
class NoisePower:
    """Powers of a column, far from its middle, with which the noise goes.

    Attributes:
      name: of the axis or a physics column, or ``PREDICTION``.
      rising: from the lower side to the upper one.
      both_sides: away from the middle; of the prediction, from zero.
    """

    name: str
    rising: float
    both_sides: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What all rows together say of the law; NaN under the published method, which does not ask.

    Attributes:
      place_p_value, place_log_p_value: bound for the place that stands out most.
      place_certified: whether it is below the level.
      exact_p_value, exact_log_p_value: of the test that the law holds exactly.
      exact_interval: where that test looked worst, in words.
      law_scatter: how nearly the law holds where it holds, in units of the response.
      rival_share: rows of a rival law over those of the law; 0 without one.
      rival: its coefficients; empty without one.
      everywhere: terms that act on all rows.
      axis_correlation, record_correlation: of the residuals of neighbouring rows.
      rows_as_one: how many rows of one place count as one.
      repeated: share of rows that equal another one.
      dependent: whether any of these is beyond chance.
      outliers: positions of the rows set aside, from 0, in the table.
      noise_goes_with: columns that tell how large the noise of a row is.
      form_certified: whether held-out rows confirm the terms in the certified place.
    """

    place_p_value: float
    place_log_p_value: float
    place_certified: bool
    exact_p_value: float
    exact_log_p_value: float
    exact_interval: str
    law_scatter: float
    rival_share: float
    rival: tuple[Estimate, ...]
    everywhere: tuple[str, ...]
    axis_correlation: float
    record_correlation: float
    rows_as_one: float
    repeated: float
    dependent: bool
    outliers: tuple[int, ...]
    noise_goes_with: tuple[NoisePower, ...]
    form_certified: bool


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All that a report says.

    Attributes:
      verdict: lower-case name of a ``Verdict``.
      response, axis: names.
      physics: trusted coefficients.
      degrees: of freedom of the standard errors.
      scale: noise scale.
      regions, test, cells, rows: the findings.
      shared: whether several regions share one mechanism.
      evidence: what all rows together say of the law.
      warnings: sentences on what limits the findings.
      notes: sentences on how the table was read.
      status, form_status: of the diagnosis and of the choice of terms.
      config: settings of the run, in types that JSON has.
      version: of the package.
    """

    verdict: str
    response: str
    axis: str
    physics: tuple[Estimate, ...]
    degrees: float
    scale: float
    regions: tuple[Region, ...]
    shared: bool
    evidence: Evidence
    test: Test
    cells: tuple[Cell, ...]
    rows: Rows
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    status: Status
    form_status: Status
    config: Mapping[str, Any]
    version: str


def interval_words(axis: str, lower: float, upper: float, cells: Sequence[Cell]) -> str:
    """An interval of the axis as a condition; open where it reaches the end of the map.

    Example:
      >>> interval_words("x1", 1.7, 2.7, ())
      '1.700 <= x1 < 2.700'
    """
    ends = [cell.lower for cell in cells] + [cell.upper for cell in cells] + [lower, upper]
    *_, low, high = numbers.positions(ends)
    first = bool(cells) and lower <= cells[0].lower
    last = bool(cells) and upper >= cells[-1].upper
    if first and last:
        return f"all {axis}"
    if first:
        return f"{axis} < {high}"
    return f"{axis} >= {low}" if last else f"{low} <= {axis} < {high}"
