"""Do the residuals look as the errors assume: independent, of one variance, without far tails?"""

from typing import Any

import numpy as np
from scipy import stats

from lisdd_jax.report.summary import Summary

_COLUMNS = ("check", "value", "expected", "p_value")
_FAR = 3.0
_FEWEST_ROWS = 20
"""Rows from which the tests of tails and of variance hold nearly."""


def check_residuals(
    summary: Summary, residuals: np.ndarray, cell: np.ndarray
) -> list[dict[str, Any]]:
    """One row per check: what was found, what independent Gaussian noise of one variance gives.

    Args:
      summary: of the diagnosis, which measures dependence, repeats and outliers.
      residuals: ``(n,)`` of the corrected model over the rows' noise scale; NaN for outliers.
      cell: ``(n,)`` int, cell of the map that a row lies in.
    """
    found = summary.evidence
    kept = residuals[np.isfinite(residuals)]
    groups = [residuals[(cell == k) & np.isfinite(residuals)] for k in np.unique(cell)]
    spreads, unequal = _variances([group for group in groups if len(group) > 2])
    far = np.mean(np.abs(kept - np.median(kept)) > _FAR * summary.scale) if len(kept) else np.nan
    along, record = found.axis_correlation, found.record_correlation
    rows = (
        ("correlation along the axis", along, 0.0, _by_chance(along, len(kept))),
        ("correlation in the record", record, 0.0, _by_chance(record, len(kept))),
        ("rows that count as one", found.rows_as_one, 1.0, np.nan),
        ("share of repeated rows", found.repeated, 0.0, np.nan),
        ("outliers set aside", float(len(found.outliers)), 0.0, np.nan),
        ("share beyond 3 noise scales", float(far), 2 * float(stats.norm.sf(_FAR)), np.nan),
        ("excess kurtosis", *_tails(kept)),
        ("noisier cells", float(sum(c.noisier for c in summary.cells)), 0.0, np.nan),
        ("largest over smallest noise of a cell", spreads, 1.0, unequal),
    )
    return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]


def _by_chance(correlation: float, num_rows: int) -> float:
    """Two-sided p-value of a correlation of neighbours, whose error is ``1 / sqrt(n)``."""
    return float(2 * stats.norm.sf(abs(correlation) * np.sqrt(num_rows)))


def _tails(kept: np.ndarray) -> tuple[float, float, float]:
    """Excess kurtosis, that of Gaussian noise, and the p-value of Anscombe and Glynn (1983)."""
    if len(kept) < _FEWEST_ROWS or not np.ptp(kept) > 0:
        return np.nan, 0.0, np.nan
    return float(stats.kurtosis(kept)), 0.0, float(stats.kurtosistest(kept).pvalue)


def _variances(groups: list[np.ndarray]) -> tuple[float, float]:
    """Ratio of extreme standard deviations, and the p-value of Brown and Forsythe (1974)."""
    spreads = [float(np.std(group, ddof=1)) for group in groups]
    if len(groups) < 2 or not min(spreads) > 0 or sum(map(len, groups)) < _FEWEST_ROWS:
        return np.nan, np.nan
    return max(spreads) / min(spreads), float(stats.levene(*groups, center="median").pvalue)
