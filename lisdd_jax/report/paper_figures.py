"""The published figures, drawn from reproduced tables, as PNG and SVG."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lisdd_jax.report.figures import check_available
from lisdd_jax.report.style import FLAG, INK, SOFT, STYLE, TERM

Tables = Mapping[str, Mapping[str, Any]]

LABELS = {
    "uncorrected": "clean physics,\nno correction",
    "global_physics": "global physics",
    "black_box": "black box",
    "global_sindy": "global SINDy",
    "global_sindy_default": "global SINDy,\nthreshold 0.1",
    "ensemble_sindy": "ensemble SINDy",
    "joint": "joint fit",
    "lisdd": "LISDD",
    "oracle": "oracle",
}


def draw_all(tables: Tables, folder: str | Path) -> list[Path]:
    """Draw every figure that the tables allow.

    Args:
      tables: experiments by name, as ``reproduction.read_outcomes`` gives them.
      folder: existing; receives ``figure_*.png`` and ``figure_*.svg``.

    Returns:
      The files.

    Raises:
      FigureError: matplotlib is not installed.
    """
    check_available()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    written = []
    for name, (needs, size, draw) in _FIGURES.items():
        if needs not in tables:
            continue
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure, tables[needs])
            for suffix in ("png", "svg"):
                path = Path(folder) / f"figure_{name}.{suffix}"
                metadata = {"Date": None} if suffix == "svg" else None
                figure.savefig(path, dpi=150, metadata=metadata)
                written.append(path)
    return written


def _rows(table: Mapping[str, Any], **wanted: Any) -> list[Mapping[str, Any]]:
    """Rows that match; the first mode where none is named."""
    mode = table["settings"]["modes"][0]
    wanted = {"mode": mode, **wanted}
    return [row for row in table["rows"] if all(row[k] == v for k, v in wanted.items())]


def _bars(axes: Any, rows: list[Mapping[str, Any]], log: bool = False) -> None:
    values = np.array([row["mean"] for row in rows], float)
    ends = np.array([[row["lower"], row["upper"]] for row in rows], float)
    errors = np.nan_to_num(np.abs(ends - values[:, None]).T)
    colors = [TERM if row["method"] == "lisdd" else SOFT for row in rows]
    positions = np.arange(len(rows))
    axes.bar(positions, values, yerr=errors, color=colors, capsize=3, log=log)
    published = [
        (i, row["published"]) for i, row in enumerate(rows) if row["published"] is not None
    ]
    if published:
        axes.plot(*zip(*published, strict=True), "D", color=FLAG, ms=5, label="published")
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    labels = [LABELS.get(row["method"], row["method"]) for row in rows]
    axes.set_xticks(positions, labels, rotation=35, ha="right")


def _draw_cells(figure: Any, table: Mapping[str, Any]) -> None:
    shown = {k: np.asarray(v) for k, v in table["illustration"].items()}
    left, right = figure.subplots(1, 2)
    middle = 0.5 * (shown["lower"] + shown["upper"])
    colors = np.where(shown["flagged"], FLAG, SOFT)
    left.bar(middle, shown["rms"], width=0.9 * (shown["upper"] - shown["lower"]), color=colors)
    left.axhline(shown["scale"], color=INK, ls="--", lw=1, label="noise scale in use")
    left.set_ylabel("residual root mean square")
    right.scatter(middle, shown["mean"], c=colors, zorder=3, label="residual mean")
    right.plot(middle, shown["true_mean"], "x", color=INK, label="true term, mean of the bin")
    low, high = shown["band"]
    for sign, label in ((-1, None), (1, r"$\beta\, x_1^3$")):
        x = sign * np.linspace(low, high, 50)
        right.plot(x, shown["beta"] * x**3, color=INK, lw=1, label=label)
    right.set_ylabel("residual mean")
    for axes in (left, right):
        for edge in (-high, -low, low, high):
            axes.axvline(edge, color=INK, ls=":", lw=0.8)
        axes.set_xlabel("$x_1$")
        axes.legend(frameon=False)


def _draw_baselines(figure: Any, table: Mapping[str, Any]) -> None:
    methods = ("black_box", "global_sindy", "ensemble_sindy", "lisdd")
    left, right = figure.subplots(1, 2)
    for axes, metric in ((left, "physics_bias"), (right, "f1_centre")):
        rows = [row for m in methods for row in _rows(table, method=m, metric=metric, params={})]
        _bars(axes, rows, log=metric == "physics_bias")
    left.set_ylabel(r"$|\hat k - k|$")
    right.set_ylabel("F1 of flagged bins (centre in band)")


def _draw_forecast(figure: Any, table: Mapping[str, Any]) -> None:
    axes = figure.subplots()
    _bars(axes, _rows(table, metric="rmse"))
    axes.set_ylabel("root mean square forecast error")


def _draw_regions(figure: Any, table: Mapping[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    regions = table["settings"]["candidate_regions"]
    truth = np.asarray(table["settings"]["discrepant"])
    rows = _rows(table, method="lisdd", metric="evidence")
    evidence = np.maximum([row["mean"] for row in rows], 1e-3)
    left.bar(np.arange(len(rows)), evidence, color=np.where(truth, FLAG, SOFT), log=True)
    left.axhline(-np.log10(0.05), color=INK, ls="--", lw=1, label="0.05")
    left.set_xticks(np.arange(len(rows)), [f"[{low:g}, {high:g}]" for low, high in regions])
    left.set_ylabel(r"mean $-\log_{10} p$ (red: discrepant)")
    left.legend(frameon=False)
    lines = (
        ("lisdd", "fdr", "-", FLAG, "false discoveries, published scale"),
        ("lisdd_clean_scale", "fdr", "--", FLAG, "false discoveries, scale of clean cells"),
        ("lisdd", "power", "-", TERM, "power"),
        ("lisdd", "both_forms", ":", INK, "both forms right"),
    )
    for method, metric, style, color, label in lines:
        rows = _rows(table, method=method, metric=metric)
        if rows:
            levels = [row["params"]["q"] for row in rows]
            right.plot(levels, [row["mean"] for row in rows], style, color=color, label=label)
    right.plot([0, 0.3], [0, 0.15], color=SOFT, lw=0.8, label="bound (2/4) q")
    right.set_xlabel("level q")
    right.set_ylabel("rate")
    right.legend(frameon=False, fontsize=8)


_Draw = Callable[[Any, Mapping[str, Any]], None]
_FIGURES: dict[str, tuple[str, tuple[float, float], _Draw]] = {
    "residuals": ("E1", (9.0, 3.6), _draw_cells),
    "baselines": ("E1", (9.0, 3.8), _draw_baselines),
    "forecast": ("E4", (7.0, 4.0), _draw_forecast),
    "regions": ("E5", (9.0, 3.8), _draw_regions),
}
