"""Figures of a result, on axes of one's own or on new ones."""

import functools
from dataclasses import dataclass
from typing import Any

from lisdd_jax.report import figures
from lisdd_jax.report.curves import Curves
from lisdd_jax.report.figure_words import describe_figure
from lisdd_jax.report.summary import Summary
from lisdd_jax.tables.problem import Problem

_ORDERS = {"axis": "residuals", "record": "record"}


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

        Terms of the physics that are no function of the axis are held at their means, in the rows
        as well.

        Args:
          ax: axes of matplotlib; new ones where None.

        Raises:
          FigureError: matplotlib is not installed.
        """
        return self._draw("fit", ax)

    def map(self, ax: Any = None) -> Any:
        """Root mean square of the residual per cell, in noise scales; see ``fit``."""
        return self._draw("map", ax)

    def residuals(self, ax: Any = None, *, order: str = "axis") -> Any:
        """Residuals, rows set aside as crosses; see ``fit``.

        Args:
          ax: as for ``fit``.
          order: ``"axis"`` for those of the physics over the axis, with the missing terms;
            ``"record"`` for those of the corrected model by row, in the order of time where that is
            known.

        Raises:
          FigureError: matplotlib is not installed.
          ValueError: ``order`` is neither.
        """
        if order not in _ORDERS:
            raise ValueError(f"order must be one of {tuple(_ORDERS)}, got {order!r}")
        return self._draw(_ORDERS[order], ax)

    def qq(self, ax: Any = None) -> Any:
        """Sorted residuals of the corrected model against those of normal noise; see ``fit``."""
        return self._draw("qq", ax)

    def describe(self, name: str) -> str:
        """What a figure shows, in words, for those who do not see it.

        Args:
          name: ``"fit"``, ``"map"``, ``"residuals"``, ``"record"`` or ``"qq"``.

        Raises:
          ValueError: there is no such figure.
        """
        if name not in figures.DRAWINGS:
            raise ValueError(f"name must be one of {tuple(figures.DRAWINGS)}, got {name!r}")
        return describe_figure(name, self._curves)

    @functools.cached_property
    def _curves(self) -> Curves:
        return Curves(self.summary, self.problem)

    def _draw(self, name: str, ax: Any) -> Any:
        figures.check_available()
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        figures.DRAWINGS[name](ax, self._curves)
        return ax
