"""What the figures show, in words, for those who do not see them."""

from collections.abc import Callable, Sequence

import numpy as np

from lisdd_jax.report import numbers, words
from lisdd_jax.report.curves import Curves
from lisdd_jax.report.summary import Cell


def describe_figure(name: str, curves: Curves) -> str:
    """One or two sentences on a figure, with its main numbers.

    Args:
      name: one of ``figures.DRAWINGS``.
      curves: of the diagnosis.
    """
    return " ".join(map(words.sentence, _DESCRIPTIONS[name](curves)))


def _fit(curves: Curves) -> list[str]:
    summary, axis = curves.summary, curves.problem.axis
    low, high = numbers.positions([axis.min(), axis.max()])
    held = ", the other terms of the physics at their means" if curves.others else ""
    clauses = [
        f"points of {summary.response} at {numbers.count(len(axis), 'row')} over {summary.axis}"
        f" from {low} to {high}{held}, and the line of the physics"
    ]
    for region in summary.regions:
        correction = f", by {region.formula}" if region.terms else ""
        clauses.append(f"for {region.interval} the rows leave that line{correction}")
    return clauses if summary.regions else [*clauses, "no region is marked"]


def _residuals(curves: Curves) -> list[str]:
    summary, residual = curves.summary, curves.problem.response - curves.physics
    clauses = [f"residuals of the physics over {summary.axis}"]
    outside = ~curves.outlier
    for region in summary.regions:
        inside = region.contains(curves.problem.axis)
        outside &= ~inside
        if inside.any():
            low, high = np.quantile(residual[inside], [0.05, 0.95])
            clauses.append(
                f"for {region.interval} nine in ten lie from {numbers.short(low, 3)} to"
                f" {numbers.short(high, 3)}"
            )
    if outside.any():
        low, high = np.quantile(residual[outside], [0.05, 0.95])
        where = "elsewhere" if summary.regions else "all along"
        clauses.append(
            f"{where} nine in ten lie from {numbers.short(low, 3)} to {numbers.short(high, 3)}"
        )
    return clauses


def _record(curves: Curves) -> list[str]:
    order = "of time" if curves.problem.time is not None else "of the table"
    clauses = [f"residuals of the corrected model in the order {order}"]
    correlation = curves.summary.evidence.record_correlation
    if correlation == correlation:
        clauses.append(f"neighbours correlate by {correlation:.2f}")
    return clauses


def _qq(curves: Curves) -> list[str]:
    kept = curves.left[~curves.outlier]
    scale = curves.summary.scale
    clauses = ["sorted residuals of the corrected model against those of normal noise"]
    if scale > 0 and len(kept):
        far = int(np.sum(np.abs(kept) > 3 * scale))
        clauses.append(
            f"{far} of {len(kept)} lie beyond 3 noise scales, where normal noise has"
            f" {0.0027 * len(kept):.1f}; the extremes are {kept.min() / scale:.1f} and"
            f" {kept.max() / scale:.1f}"
        )
    return clauses


def _map(curves: Curves) -> list[str]:
    summary = curves.summary
    flagged = [cell for cell in summary.cells if cell.flagged]
    clean = [cell for cell in summary.cells if not cell.flagged and cell.rms >= 0]
    clauses = [f"a bar for each of {len(summary.cells)} cells of {summary.axis}"]
    unit = summary.scale if summary.scale > 0 else 1.0
    for name, cells in (("flagged", flagged), ("other", clean)):
        if cells:
            clauses.append(f"{numbers.count(len(cells), f'{name} cell')}, {_extent(cells, unit)}")
    return clauses


def _extent(cells: Sequence[Cell], unit: float) -> str:
    heights = [cell.rms / unit for cell in cells]
    low, high = f"{min(heights):.1f}", f"{max(heights):.1f}"
    return f"of height {low}" if low == high else f"of height {low} to {high}"


_DESCRIPTIONS: dict[str, Callable[[Curves], list[str]]] = {
    "fit": _fit,
    "residuals": _residuals,
    "record": _record,
    "qq": _qq,
    "map": _map,
}
