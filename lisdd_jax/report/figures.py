"""Figures of a diagnosis, with matplotlib, as SVG that stands inside a page."""

import io
import re
from typing import Any

import numpy as np

from lisdd_jax.report.style import FLAG, INK, SOFT, STYLE, TERM
from lisdd_jax.report.summary import Cell, Summary
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
    """Residuals of the trusted physics over the axis, the regions, and the missing terms in them.

    Args:
      summary: of the diagnosis.
      problem: its rows.

    Returns:
      An SVG element.
    """
    coefficients = np.array([estimate.coefficient for estimate in summary.physics])
    residuals = problem.response - problem.design @ coefficients

    def draw(axes: Any) -> None:
        order = np.argsort(problem.axis, kind="stable")
        shown = order[:: -(-len(order) // _MAX_POINTS)]
        axes.plot(problem.axis[shown], residuals[shown], ".", color=SOFT, ms=4, label="residual")
        axes.axhline(0.0, color=INK, lw=0.8)
        if summary.scale > 0:
            for sign in (-1, 1):
                axes.axhline(sign * summary.scale, color=SOFT, lw=0.8, ls=":")
        _draw_regions(axes, summary, problem, order)
        axes.set_xlabel(summary.axis)
        axes.set_ylabel(f"{summary.response}: residual of the physics")
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False, loc="best", fontsize=9)

    return _svg(draw, height=3.4)


def _draw_regions(axes: Any, summary: Summary, problem: Problem, order: np.ndarray) -> None:
    names = list(problem.library.names)
    for k, region in enumerate(summary.regions):
        label = "region" if k == 0 else None
        axes.axvspan(region.lower, region.upper, color=FLAG, alpha=0.08, lw=0, label=label)
        inside = order[region.contains(problem.axis[order])]
        columns = [names.index(term.name) for term in region.terms]
        if not columns or not len(inside):
            continue
        weights = np.array([term.coefficient for term in region.terms])
        curve = problem.features[np.ix_(inside, columns)] @ weights
        label = "missing term" if k == 0 else None
        # Terms may depend on more than the axis: then there is a value per row, not a line.
        style = "-" if _is_function(problem.axis[inside], curve) else "."
        axes.plot(problem.axis[inside], curve, style, color=TERM, lw=1.8, ms=3, label=label)


def _is_function(axis: np.ndarray, values: np.ndarray) -> bool:
    """Whether the values look like a curve over the sorted axis."""
    steps, extent = np.abs(np.diff(values)), np.ptp(values)
    return bool(len(values) > 1 and steps.sum() <= 3 * extent + 1e-12)


def evidence_figure(summary: Summary) -> str:
    """Root mean square of the residual per cell, in units of the noise scale.

    Args:
      summary: of the diagnosis.

    Returns:
      An SVG element.
    """
    unit = summary.scale if summary.scale > 0 else 1.0

    def draw(axes: Any) -> None:
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
        axes.set_xlabel(summary.axis)
        axes.set_ylabel("residual rms / noise scale" if summary.scale > 0 else "residual rms")
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False, loc="best", fontsize=9)

    return _svg(draw, height=2.6)


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
