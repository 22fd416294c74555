"""Figures as SVG elements inside a page: sharp, themed by it, and legible on a phone."""

import io
import re
import textwrap
from html import escape
from typing import Any, NamedTuple

from lisdd_jax.report.curves import Curves
from lisdd_jax.report.figures import DRAWINGS
from lisdd_jax.report.style import PALETTE, STYLE

_STYLE: Any = {
    **STYLE,
    # Text stays text: it can be searched, and scales with the page.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "text.parse_math": False,
    "text.usetex": False,
}
_CHARACTERS = 11
"""Characters of a label per inch."""


class _Layout(NamedTuple):
    """Size in inches, points drawn, columns of the legend."""

    width: float
    height: float
    points: int
    columns: int


_LAYOUTS = {"wide": _Layout(7.0, 3.3, 800, 5), "narrow": _Layout(3.5, 3.1, 300, 2)}
"""By class of the page's style sheet, which shows one of them."""


def figure_elements(name: str, curves: Curves, alternative: str) -> str:
    """A figure as two SVG elements, of which the page shows the one that fits its width.

    Args:
      name: of the figure, one of ``figures.DRAWINGS``.
      curves: of the diagnosis.
      alternative: what it shows, in words.
    """
    return "".join(_element(name, curves, alternative, width) for width in _LAYOUTS)


def _element(name: str, curves: Curves, alternative: str, width: str) -> str:
    """Draw on fresh axes, without any global state of pyplot."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    layout = _LAYOUTS[width]
    # Elements refer to each other by ids, which must differ between the figures of a page.
    own: Any = {"svg.hashsalt": f"lisdd-jax {name} {width}", "backend": "svg"}
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE, **own}):
        figure = Figure(figsize=(layout.width, layout.height), layout="constrained")
        axes = FigureCanvasSVG(figure).figure.subplots()
        DRAWINGS[name](axes, curves, layout.points)
        _fit_texts(axes, layout)
        buffer = io.StringIO()
        metadata = {"Date": None, "Creator": None}
        figure.savefig(buffer, format="svg", metadata=metadata, transparent=True)
    return _inline(buffer.getvalue(), alternative, width)


def _fit_texts(axes: Any, layout: _Layout) -> None:
    """The legend above the axes, where it hides no row; long labels on several lines."""
    if axes.get_legend():
        axes.legend(
            frameon=False,
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=layout.columns,
            borderaxespad=0.2,
            columnspacing=1.2,
            handletextpad=0.5,
        )
    for inches, get, put in (
        (layout.width, axes.get_xlabel, axes.set_xlabel),
        (layout.height - 0.9, axes.get_ylabel, axes.set_ylabel),
    ):
        put("\n".join(textwrap.wrap(get(), max(8, int(_CHARACTERS * inches)))))


def _inline(text: str, alternative: str, width: str) -> str:
    """The element alone, scalable, its colours those of the page, its text an image's to hear."""
    element = text[text.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", element, flags=re.DOTALL)
    for name, (light, _) in PALETTE.items():
        element = element.replace(light, f"var(--{name}, {light})")
    used = set(re.findall(r"#([\w-]+)", element))
    element = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", element)
    box = re.search(r'viewBox="[^"]*"', element)
    assert box, "matplotlib writes a view box"
    start = (
        f'<svg class="{width}" role="img" aria-label="{escape(alternative)}" {box[0]}'
        ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg">'
    )
    return start + element[element.index(">") + 1 :].strip()
