"""Figures of a diagnosis, with matplotlib, as SVG that stands inside a page."""

import io
import re
from typing import Any

import numpy as np

from lisdd_jax.report.style import FLAG, INK, SOFT, STYLE, TERM
from lisdd_jax.report.summary import Cell, Region, Summary
from lisdd_jax.tables.problem import Problem

_MAX_POINTS = 2000
_COLORS = {"clean": SOFT, "noisier": "#d9a441", "flagged": FLAG}
_STYLE: Any = {
    **STYLE,
    # Text stays text: selectable, and read by a screen reader.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "text.parse_math": False,
    "text.usetex": False,
}


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


def residual_figure(summary: Summary, problem: Problem) -> str:
    """``draw_residuals`` as an SVG element."""
    return _svg(lambda axes: draw_residuals(axes, summary, problem), height=3.4)


def draw_residuals(axes: Any, summary: Summary, problem: Problem) -> None:
    """Residuals of the trusted physics over the axis, the regions, and the missing terms in them.

    Args:
      axes: of matplotlib, to draw on.
      summary: of the diagnosis.
      problem: its rows.
    """
    order = _draw_rows(axes, problem, problem.response - _physics(summary, problem), "residual")
    axes.axhline(0.0, color=INK, lw=0.8)
    if summary.scale > 0:
        for sign in (-1, 1):
            axes.axhline(sign * summary.scale, color=SOFT, lw=0.8, ls=":")
    for k, region in enumerate(summary.regions):
        _shade(axes, region, "region" if k == 0 else None)
        inside = order[region.contains(problem.axis[order])]
        if region.terms and len(inside):
            label = "missing term" if k == 0 else None
            missing = _missing(region, problem)[inside]
            _draw_curve(axes, problem.axis[inside], missing, color=TERM, label=label)
    _label(axes, summary.axis, f"{summary.response}: residual of the physics")


def draw_fit(axes: Any, summary: Summary, problem: Problem) -> None:
    """The response over the axis, the trusted physics, and the corrected curve in the regions.

    The ends of the regions are shaded from end to end of their confidence intervals.

    Args:
      axes: of matplotlib, to draw on.
      summary: of the diagnosis.
      problem: its rows.
    """
    order = _draw_rows(axes, problem, problem.response, "measured")
    physics = _physics(summary, problem)
    _draw_curve(axes, problem.axis[order], physics[order], color=INK, label="physics")
    for k, region in enumerate(summary.regions):
        first = k == 0
        _shade(axes, region, "region" if first else None)
        inside = order[region.contains(problem.axis[order])]
        if region.terms and len(inside):
            corrected = (physics + _missing(region, problem))[inside]
            label = "corrected" if first else None
            _draw_curve(axes, problem.axis[inside], corrected, color=TERM, label=label)
        for interval in (region.lower_interval, region.upper_interval):
            if np.all(np.isfinite(interval)):
                axes.axvspan(*interval, color=FLAG, alpha=0.18, lw=0)
    _label(axes, summary.axis, summary.response)


def _draw_rows(axes: Any, problem: Problem, values: np.ndarray, label: str) -> np.ndarray:
    """Values ``(n,)`` as points; returns the order of the rows along the axis."""
    order = np.argsort(problem.axis, kind="stable")
    shown = order[:: -(-len(order) // _MAX_POINTS)]
    axes.plot(problem.axis[shown], values[shown], ".", color=SOFT, ms=4, label=label)
    return order


def _draw_curve(
    axes: Any, axis: np.ndarray, values: np.ndarray, *, color: str, label: str | None
) -> None:
    # Terms may depend on more than the axis: then there is a value per row, not a line.
    style = "-" if _is_function(axis, values) else "."
    axes.plot(axis, values, style, color=color, lw=1.8, ms=3, label=label)


def _shade(axes: Any, region: Region, label: str | None) -> None:
    axes.axvspan(region.lower, region.upper, color=FLAG, alpha=0.08, lw=0, label=label)


def _label(axes: Any, below: str, beside: str) -> None:
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, loc="best", fontsize=9)


def _physics(summary: Summary, problem: Problem) -> np.ndarray:
    return problem.design @ np.array([estimate.coefficient for estimate in summary.physics])


def _missing(region: Region, problem: Problem) -> np.ndarray:
    """The missing terms of a region at all rows ``(n,)``."""
    columns = [problem.library.names.index(term.name) for term in region.terms]
    return problem.features[:, columns] @ np.array([term.coefficient for term in region.terms])


def _is_function(axis: np.ndarray, values: np.ndarray) -> bool:
    """Whether the values look like a curve over the sorted axis."""
    steps, extent = np.abs(np.diff(values)), np.ptp(values)
    return bool(len(values) > 1 and steps.sum() <= 3 * extent + 1e-12)


def evidence_figure(summary: Summary) -> str:
    """``draw_evidence`` as an SVG element."""
    return _svg(lambda axes: draw_evidence(axes, summary), height=2.6)


def draw_evidence(axes: Any, summary: Summary) -> None:
    """Root mean square of the residual per cell, in units of the noise scale.

    Args:
      axes: of matplotlib, to draw on.
      summary: of the diagnosis.
    """
    unit = summary.scale if summary.scale > 0 else 1.0
    for label, color in _COLORS.items():
        cells = [c for c in summary.cells if c.rms >= 0 and _kind(c) == label]
        if cells:
            axes.bar(
                [c.lower for c in cells],
                [c.rms / unit for c in cells],
                width=[c.upper - c.lower for c in cells],
                align="edge",
                color=color,
                edgecolor="white",
                linewidth=0.8,
                label=label,
            )
    if summary.scale > 0:
        axes.axhline(1.0, color=INK, lw=0.8, ls=":")
    _label(
        axes, summary.axis, "residual rms / noise scale" if summary.scale > 0 else "residual rms"
    )


def _kind(cell: Cell) -> str:
    return "flagged" if cell.flagged else "noisier" if cell.noisier else "clean"


def _svg(draw: Any, *, height: float) -> str:
    """Draw on fresh axes, without any global state of pyplot."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE, "backend": "svg"}):
        figure = Figure(figsize=(7.6, height), layout="constrained")
        draw(FigureCanvasSVG(figure).figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue())


def _inline(text: str) -> str:
    """The svg element alone, scalable, hidden from screen readers (its figure has a caption)."""
    element = text[text.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    return re.sub(
        r'<svg ([^>]*?)width="[^"]*" ?|<svg ',
        lambda match: '<svg aria-hidden="true" focusable="false" ' + (match.group(1) or ""),
        element,
        count=1,
    ).strip()
