"""Streaming statistics whose results do not depend on the order of the values.

Sums and sums of squares are kept as exact integers, in units of ``2**-UNIT_EXPONENT`` and its
square, which represents every finite float64. Integer addition is associative, so any division
of the replications into chunks, devices and processes gives the same mean and standard error to
the last bit, and both are correctly rounded. Quantiles come from counts of values rounded to
``SKETCH_BITS + 1`` significant bits. Memory does not grow with the number of values.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

# frexp writes the smallest subnormal as 0.5 * 2**-1073, hence an integer of 53 bits * 2**-1126.
UNIT_EXPONENT = 1126
SKETCH_BITS = 9


@dataclass(frozen=True, kw_only=True)
class MetricSummary:
    """Statistics of one metric in one cell, over the replications where it is finite.

    Attributes:
      mean: mean; NaN where ``count`` is 0.
      standard_error: of the mean, from the sample variance; NaN where ``count`` is below 2.
      count: number of finite values.
      num_nan, num_infinite: values left out of every statistic.
      minimum, maximum: NaN where ``count`` is 0.
      quantiles: level -> value, linear between order statistics.
    """

    mean: float
    standard_error: float
    count: int
    num_nan: int
    num_infinite: int
    minimum: float
    maximum: float
    quantiles: dict[float, float] = field(default_factory=dict)


@dataclass(kw_only=True)
class MetricAccumulator:
    """Running statistics of one metric in one cell.

    Attributes:
      sketch: counts of rounded values, or None where no quantiles are wanted.
    """

    count: int = 0
    num_nan: int = 0
    num_infinite: int = 0
    total: int = 0
    squares: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    sketch: Counter[float] | None = None

    def add(self, values: np.ndarray) -> None:
        """Take in values ``(k,)``."""
        values = np.asarray(values, np.float64)
        finite = values[np.isfinite(values)]
        num_nan = int(np.isnan(values).sum())
        self.num_nan += num_nan
        self.num_infinite += values.size - finite.size - num_nan
        if not finite.size:
            return
        self.count += finite.size
        total, squares = exact_sums(finite)
        self.total += total
        self.squares += squares
        self.minimum = min(self.minimum, float(finite.min()))
        self.maximum = max(self.maximum, float(finite.max()))
        if self.sketch is not None:
            rounded, counts = np.unique(round_significand(finite), return_counts=True)
            self.sketch.update(dict(zip(rounded.tolist(), counts.tolist(), strict=True)))

    def merge(self, other: "MetricAccumulator") -> None:
        """Take in what another accumulator has seen."""
        for name in ("count", "num_nan", "num_infinite", "total", "squares"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        if self.sketch is not None and other.sketch is not None:
            self.sketch.update(other.sketch)

    def summary(
        self, levels: Sequence[float] = (), records: np.ndarray | None = None
    ) -> MetricSummary:
        """Statistics so far, with quantiles of the records, or else from the sketch."""
        empty = self.count == 0
        return MetricSummary(
            mean=math.nan if empty else self.total / (self.count << UNIT_EXPONENT),
            standard_error=self._standard_error(),
            count=self.count,
            num_nan=self.num_nan,
            num_infinite=self.num_infinite,
            minimum=math.nan if empty else self.minimum,
            maximum=math.nan if empty else self.maximum,
            quantiles={level: self._quantile(level, records) for level in levels},
        )

    def _quantile(self, level: float, records: np.ndarray | None) -> float:
        if records is None:
            return sketch_quantile(self.sketch or Counter(), level)
        finite = records[np.isfinite(records)]
        return float(np.quantile(finite, level)) if finite.size else math.nan

    def _standard_error(self) -> float:
        if self.count < 2:
            return math.nan
        # Var(mean) = (n S2 - S1^2) / (n^2 (n - 1)), free of cancellation in exact integers.
        numerator = self.count * self.squares - self.total**2
        denominator = (self.count**2 * (self.count - 1)) << (2 * UNIT_EXPONENT)
        return sqrt_ratio(numerator, denominator)


def exact_sums(values: np.ndarray) -> tuple[int, int]:
    """Exact sum and sum of squares of finite float64 values.

    Args:
      values: ``(k,)`` finite.

    Returns:
      The sum in units of ``2**-UNIT_EXPONENT`` and the sum of squares in units of its square.
    """
    fractions, exponents = np.frexp(values)
    integers = np.ldexp(fractions, 53).astype(np.int64)
    total = squares = 0
    for exponent in np.unique(exponents).tolist():
        terms = integers[exponents == exponent].tolist()
        shift = exponent - 53 + UNIT_EXPONENT
        total += sum(terms) << shift
        squares += sum(term * term for term in terms) << (2 * shift)
    return total, squares


def sqrt_ratio(numerator: int, denominator: int) -> float:
    """Square root of a ratio of integers of any size, without overflow of the ratio."""
    half = (numerator.bit_length() - denominator.bit_length()) // 2
    if half > 0:
        denominator <<= 2 * half
    else:
        numerator <<= -2 * half
    return math.ldexp(math.sqrt(numerator / denominator), half)


def round_significand(values: np.ndarray) -> np.ndarray:
    """Round float64 values to ``SKETCH_BITS + 1`` significant bits.

    The relative error is at most ``2**-(SKETCH_BITS + 1)``; integers up to ``2**10`` and short
    binary fractions are kept exactly.
    """
    dropped = 52 - SKETCH_BITS
    bits = np.asarray(values, np.float64).view(np.int64)
    # The carry of the addition moves into the exponent, which is the next power of two.
    bits = (bits + (1 << (dropped - 1))) & ~((1 << dropped) - 1)
    limit = np.finfo(np.float64).max
    return np.clip(bits.view(np.float64), -limit, limit)


def sketch_quantile(sketch: Counter[float], level: float) -> float:
    """Quantile of the rounded values, linear between order statistics (Hyndman-Fan type 7).

    Both order statistics, hence the quantile of values of one sign, are within
    ``2**-(SKETCH_BITS + 1)`` of the exact ones, relatively.

    Args:
      sketch: value -> count.
      level: in [0, 1].

    Returns:
      The quantile; NaN of an empty sketch.

    References:
      Hyndman and Fan (1996), definition 7.
    """
    if not sketch:
        return math.nan
    values, counts = (np.array(column) for column in zip(*sorted(sketch.items()), strict=True))
    below = np.cumsum(counts)
    position = (below[-1] - 1) * level
    lower, upper = values[
        np.searchsorted(below, [math.floor(position), math.ceil(position)], side="right")
    ]
    return float(lower + (upper - lower) * (position - math.floor(position)))
