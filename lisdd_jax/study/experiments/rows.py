"""A row of a reproduced table: our figure, the printed one, and a verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from lisdd_jax.study.engine import MetricSummary

LEVEL = 0.95
"""Level of the confidence intervals."""

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
NOT_PRINTED = "not printed"
OTHER_ALGORITHM = "other algorithm"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A printed number.

    Attributes:
      value: as printed in the table.
      decimals: number of decimals printed.
      source: the table.
      in_text: the same quantity where the text prints it too, with its decimals.
    """

    value: float
    decimals: int
    source: str
    in_text: tuple[float, int] | None = None

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """What the printed numbers can have been before rounding."""
        printed = [(self.value, self.decimals), *([self.in_text] if self.in_text else [])]
        return [(value - 0.5 * 10**-digits, value + 0.5 * 10**-digits) for value, digits in printed]


Key = tuple[str, str, tuple[tuple[str, Any], ...]]


def key_of(method: str, metric: str, **params: Any) -> Key:
    """Key of a row in the tables of printed numbers and of explanations."""
    return method, metric, tuple(sorted(params.items()))


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What is known beforehand about the rows of an experiment.

    Attributes:
      published: printed numbers.
      reasons: why a row differs from the printed number, by the whole key, or by the key without
        parameters for all of them.
      cautions: what a reader should know of a row that agrees, keyed alike.
    """

    published: Mapping[Key, Published] = field(default_factory=dict)
    reasons: Mapping[Key, str] = field(default_factory=dict)
    cautions: Mapping[Key, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of a reproduced table.

    Attributes:
      mode, method, metric, params: what was measured.
      mean, stderr, count: over replications in which it is defined.
      lower, upper: 95 % confidence interval of the mean.
      published: the printed number, None where the publication has none.
      source: where it is printed.
      verdict: one of the four words of this module.
      reason: why it differs, or how to read it; may be empty.
    """

    mode: str
    method: str
    metric: str
    params: dict[str, Any]
    mean: float
    stderr: float
    count: int
    lower: float
    upper: float
    published: float | None
    source: str | None
    verdict: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The row with JSON values; an undefined number is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        }


def confidence_interval(summary: MetricSummary, *, proportion: bool) -> tuple[float, float]:
    """Confidence interval of a mean at ``LEVEL``.

    A proportion has the exact binomial interval (Clopper and Pearson, 1934), which does not shrink
    to a point where all replications agree; other means have the t interval.

    Args:
      summary: statistics of the metric.
      proportion: whether each value is 0 or 1.

    Returns:
      Lower and upper end; NaN where the mean is.
    """
    count, tail = summary.count, 0.5 * (1 - LEVEL)
    if count == 0:
        return math.nan, math.nan
    if proportion:
        hits = round(summary.mean * count)
        lower = special.betaincinv(hits, count - hits + 1, tail) if hits else 0.0
        upper = special.betainccinv(hits + 1, count - hits, tail) if hits < count else 1.0
        return float(lower), float(upper)
    if count < 2:
        return math.nan, math.nan
    half = -float(special.stdtrit(count - 1, tail)) * summary.standard_error
    return summary.mean - half, summary.mean + half


_PROPORTIONS = ("_rate", "_recovery", "_set", "_forms", "power", "fdr", "below")


def _is_proportion(metric: str, summary: MetricSummary) -> bool:
    """Whether a metric is a rate by name, and every value 0 or 1."""
    whole = {summary.minimum, summary.maximum} <= {0.0, 1.0}
    return whole and metric.endswith(_PROPORTIONS)


def make_row(
    tables: Tables,
    summary: MetricSummary,
    *,
    mode: str,
    method: str,
    metric: str,
    **params: Any,
) -> Row:
    """A row with its interval and verdict.

    Args:
      tables: printed numbers and explanations.
      summary: statistics over the replications.
      mode, method, metric, params: what was measured.

    Returns:
      The row.
    """
    lower, upper = confidence_interval(summary, proportion=_is_proportion(metric, summary))
    key, general = key_of(method, metric, **params), key_of(method, metric)
    printed = tables.published.get(key)
    verdict = compare(lower, upper, summary.mean, printed, mode)
    known = tables.reasons if verdict == NOT_REPRODUCED else tables.cautions
    reason = known.get(key, known.get(general, ""))
    if verdict == NOT_REPRODUCED and not reason:
        reason = "no explanation is known; it may be chance or an unstated setting"
    return Row(
        mode=mode,
        method=method,
        metric=metric,
        params=params,
        mean=summary.mean,
        stderr=summary.standard_error,
        count=summary.count,
        lower=lower,
        upper=upper,
        published=printed.value if printed else None,
        source=printed.source if printed else None,
        verdict=verdict,
        reason=reason,
    )


def compare(lower: float, upper: float, mean: float, printed: Published | None, mode: str) -> str:
    """Whether an interval agrees with a printed number, which is known up to its rounding."""
    if printed is None:
        return NOT_PRINTED
    if mode != "paper":
        return OTHER_ALGORITHM
    low, high = (mean, mean) if math.isnan(lower) else (lower, upper)
    agrees = any(low <= top + 1e-12 and high >= bottom - 1e-12 for bottom, top in printed.ranges)
    return REPRODUCED if agrees else NOT_REPRODUCED


def summarize_values(values: Any) -> MetricSummary:
    """Statistics of values at hand, for what is computed after a study."""
    array = np.asarray(values, np.float64).ravel()
    finite = array[np.isfinite(array)]
    count = int(finite.size)
    spread = float(np.std(finite, ddof=1) / np.sqrt(count)) if count > 1 else math.nan
    return MetricSummary(
        mean=float(finite.mean()) if count else math.nan,
        standard_error=spread,
        count=count,
        num_nan=int(np.isnan(array).sum()),
        num_infinite=int(np.isinf(array).sum()),
        minimum=float(finite.min()) if count else math.nan,
        maximum=float(finite.max()) if count else math.nan,
    )
