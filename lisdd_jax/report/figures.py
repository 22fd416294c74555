"""Figures of a diagnosis, drawn on axes of matplotlib."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lisdd_jax.numerics.hosted import special_functions
from lisdd_jax.report.curves import Curves, is_line, thinned
from lisdd_jax.report.style import FLAG, INK, SOFT, TERM, WARN
from lisdd_jax.report.summary import Cell, Region

MOST_POINTS = 1000
_COLORS = {"clean": SOFT, "noisier": WARN, "flagged": FLAG}


class FigureError(ValueError):
    """Figures cannot be drawn here."""


def check_available() -> None:
    """Refuse early where matplotlib is not installed.

    Raises:
      FigureError: it is not.
    """
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise FigureError("figures need matplotlib: pip install matplotlib") from None


def draw_fit(axes: Any, curves: Curves, most: int = MOST_POINTS) -> None:
    """The response over the axis, the trusted physics, and the corrected curve in the regions.

    Terms of the physics that are no function of the axis are held at their means, in the rows as
    well, so that what is left is seen about one line. An end of a region is shaded from end to end
    of its confidence interval.

    Args:
      axes: of matplotlib, to draw on; this and the rest as in all that follow.
      curves: of the diagnosis.
      most: points that are drawn of the rows.
    """
    order = np.argsort(curves.problem.axis, kind="stable")
    shift, axis = curves.shift, curves.problem.axis
    _draw_rows(axes, curves, order, axis, curves.problem.response - shift, "measured", most)
    _draw_curve(axes, axis[order], (curves.physics - shift)[order], color=INK, label="physics")
    for first, region, inside in _regions(axes, curves, order):
        corrected = (curves.physics + curves.missing(region) - shift)[inside]
        label = "corrected" if first else None
        _draw_curve(axes, axis[inside], corrected, color=TERM, label=label)
    _mark_ends(axes, curves)
    others = [term.name for term in curves.others]
    held = f", {' and '.join(others)} at the mean" if len(others) < 3 else ", other terms at means"
    _label(axes, curves.summary.axis, curves.summary.response + (held if others else ""))


def draw_residuals(axes: Any, curves: Curves, most: int = MOST_POINTS) -> None:
    """Residuals of the trusted physics over the axis, the regions, and the missing terms in them.

    Args:
      axes, curves, most: as for ``draw_fit``.
    """
    order = np.argsort(curves.problem.axis, kind="stable")
    axis, residual = curves.problem.axis, curves.problem.response - curves.physics
    _draw_rows(axes, curves, order, axis, residual, "residual", most)
    _draw_scale(axes, curves.summary.scale)
    for first, region, inside in _regions(axes, curves, order):
        label = "missing term" if first else None
        missing = curves.missing(region)[inside]
        _draw_curve(axes, axis[inside], missing, color=TERM, label=label)
    _label(axes, curves.summary.axis, f"{curves.summary.response}: residual of the physics")


def draw_record(axes: Any, curves: Curves, most: int = MOST_POINTS) -> None:
    """Residuals of the corrected model in the order of time, or of the record.

    Args:
      axes, curves, most: as for ``draw_fit``.
    """
    order = curves.record
    place = np.empty(len(order))
    timed = curves.problem.time is not None
    place[order] = np.arange(1, len(order) + 1) if timed else curves.problem.positions + 1
    _draw_rows(axes, curves, order, place, curves.left, "residual", most)
    _draw_scale(axes, curves.summary.scale)
    below = "row, in the order of time" if timed else "row of the table"
    _label(axes, below, f"{curves.summary.response}: residual of the corrected model")


def draw_qq(axes: Any, curves: Curves, most: int = MOST_POINTS) -> None:
    """Sorted residuals of the corrected model against quantiles of the normal distribution.

    The ``i``-th of ``n`` stands over the quantile of ``(i - 1/2) / n``. Rows set aside are left
    out. On the line lies noise of the reported scale.

    Args:
      axes, curves, most: as for ``draw_fit``.
    """
    unit = curves.summary.scale if curves.summary.scale > 0 else 1.0
    values = np.sort(curves.left[~curves.outlier]) / unit
    ranks = (np.arange(len(values)) + 0.5) / max(len(values), 1)
    quantiles = special_functions().ndtri(ranks)
    # Every point of the tails, and the middle as densely as there is room.
    tails = np.minimum(np.arange(len(values)), np.arange(len(values))[::-1]) < most // 8
    middle = thinned(np.flatnonzero(~tails), most - 2 * (most // 8))
    shown = np.sort(np.concatenate([np.flatnonzero(tails), middle]))
    axes.plot(quantiles[shown], values[shown], ".", color=SOFT, ms=4, label="residuals")
    if len(values):
        ends = quantiles[[0, -1]]
        axes.plot(ends, ends if curves.summary.scale > 0 else values[[0, -1]], color=INK, lw=1.2,
                  label="normal noise")  # fmt: skip
    _label(axes, "quantile of the normal distribution", "residual / noise scale")


def draw_evidence(axes: Any, curves: Curves, most: int = MOST_POINTS) -> None:
    """Root mean square of the residual per cell in noise scales, and the regions.

    Args:
      axes, curves, most: as for ``draw_fit``.
    """
    summary = curves.summary
    unit = summary.scale if summary.scale > 0 else 1.0
    for label, color in _COLORS.items():
        cells = [c for c in summary.cells if c.rms >= 0 and _kind(c) == label]
        if cells:
            axes.bar(
                [c.lower for c in cells],
                [c.rms / unit for c in cells],
                width=[0.94 * (c.upper - c.lower) for c in cells],
                align="edge",
                color=color,
                label=label,
            )
    for k, region in enumerate(summary.regions):
        _shade(axes, region, "region" if k == 0 else None)
    if summary.scale > 0:
        axes.axhline(1.0, color=INK, lw=0.8, ls=":")
    name = "residual rms / noise scale" if summary.scale > 0 else "residual rms"
    _label(axes, summary.axis, name)


DRAWINGS: dict[str, Callable[..., None]] = {
    "fit": draw_fit,
    "residuals": draw_residuals,
    "record": draw_record,
    "qq": draw_qq,
    "map": draw_evidence,
}
"""Every figure by name."""


def _kind(cell: Cell) -> str:
    return "flagged" if cell.flagged else "noisier" if cell.noisier else "clean"


def _draw_rows(
    axes: Any,
    curves: Curves,
    order: np.ndarray,
    below: np.ndarray,
    values: np.ndarray,
    label: str,
    most: int,
) -> None:
    """Rows in an order as points, those set aside as crosses."""
    kept, aside = order[~curves.outlier[order]], order[curves.outlier[order]]
    shown = thinned(kept, most)
    axes.plot(below[shown], values[shown], ".", color=SOFT, ms=4, label=label)
    if len(aside):
        axes.plot(below[aside], values[aside], "x", color=WARN, ms=6, label="set aside")


def _draw_scale(axes: Any, scale: float) -> None:
    axes.axhline(0.0, color=INK, lw=0.8)
    if scale > 0:
        for sign in (-1, 1):
            axes.axhline(sign * scale, color=INK, lw=0.8, ls=":")


def _regions(
    axes: Any, curves: Curves, order: np.ndarray
) -> Iterator[tuple[bool, Region, np.ndarray]]:
    """Shade the regions; give those with terms, and their rows in order."""
    for k, region in enumerate(curves.summary.regions):
        _shade(axes, region, "region" if k == 0 else None)
        inside = order[region.contains(curves.problem.axis[order])]
        if region.terms and len(inside):
            yield k == 0, region, inside


def _draw_curve(
    axes: Any, axis: np.ndarray, values: np.ndarray, *, color: str, label: str | None
) -> None:
    # Terms may depend on more than the axis: then there is a value per row, not a line.
    line = is_line(values)
    shown = np.arange(len(axis)) if line else thinned(np.arange(len(axis)), MOST_POINTS)
    style = "-" if line else "."
    axes.plot(axis[shown], values[shown], style, color=color, lw=1.8, ms=3, label=label)


def _shade(axes: Any, region: Region, label: str | None) -> None:
    axes.axvspan(region.lower, region.upper, color=FLAG, alpha=0.1, lw=0, label=label)


def _mark_ends(axes: Any, curves: Curves) -> None:
    """Confidence intervals of the ends, and the ends themselves."""
    label: str | None = "end, 95 %"
    for region in curves.summary.regions:
        sides = (
            (region.lower, region.lower_interval, region.open_below),
            (region.upper, region.upper_interval, region.open_above),
        )
        for end, interval, is_open in sides:
            if not is_open:
                axes.axvline(end, color=FLAG, lw=1.0)
            if np.all(np.isfinite(interval)):
                axes.axvspan(*interval, color=FLAG, alpha=0.25, lw=0, label=label)
                label = None


def _label(axes: Any, below: str, beside: str) -> None:
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, loc="best", fontsize="medium")
