"""Figures of a result, on axes of one's own or on new ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lisdd_jax.report import figures
from lisdd_jax.report.summary import Summary
from lisdd_jax.tables.problem import Problem


@dataclass(frozen=True, eq=False)
class Plots:
    """What ``Result.plot`` draws; every method returns the axes.

    Attributes:
      summary: of the diagnosis.
      problem: its rows.
    """

    summary: Summary
    problem: Problem

    def fit(self, ax: Any = None) -> Any:
        """The response over the axis, the physics, and the corrected curve in the regions.

        Args:
          ax: axes of matplotlib; new ones where None.

        Raises:
          FigureError: matplotlib is not installed.
        """
        return _on_axes(ax, lambda axes: figures.draw_fit(axes, self.summary, self.problem))

    def map(self, ax: Any = None) -> Any:
        """Root mean square of the residual per cell, in noise scales; see ``fit``."""
        return _on_axes(ax, lambda axes: figures.draw_evidence(axes, self.summary))

    def residuals(self, ax: Any = None) -> Any:
        """Residuals of the physics over the axis, and the missing terms; see ``fit``."""
        return _on_axes(ax, lambda axes: figures.draw_residuals(axes, self.summary, self.problem))


def _on_axes(ax: Any, draw: Callable[[Any], None]) -> Any:
    figures.check_available()
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    draw(ax)
    return ax
