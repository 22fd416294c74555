"""A chart of cost against the number of rows, from the record that ``record.py`` writes.

``python benchmarks/cost_chart.py record.json --out docs/cost.png``. Shown is what a call costs once
compiled, in processor seconds, which bear that other programs run beside it; and peers.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

NAMES = {
    "default": "diagnose, default method",
    "published": "diagnose, published method (3000 starts)",
    "fit_trimmed": "fit_trimmed, 500 starts",
    "select_form": "select_form, 6 terms",
    "f_test": "f_test",
}
PEERS = {
    "ltsReg 500": "robustbase::ltsReg, 500 starts",
    "lmtree": "partykit::lmtree",
    "breakpoints 300": "strucchange::breakpoints",
    "stlsq": "PySINDy STLSQ",
    "compare_f_test": "statsmodels compare_f_test",
}


def series(lines: list[dict[str, Any]], kind: str, name: str) -> list[tuple[int, float]]:
    """Rows and processor seconds of a call, with all other settings at their first values."""
    first = {"num_terms": 6, "batch": 1, "precision": "float64"}
    return sorted(
        (line["num_rows"], line["run_cpu"])
        for line in lines
        if line.get(kind) == name
        and "error" not in line
        and all(line.get(key, value) == value for key, value in first.items())
    )


def draw(record: dict[str, Any]) -> Any:
    """The figure."""
    figure, axes = plt.subplots(figsize=(8.0, 5.0), layout="constrained")
    largest = 1
    for key, label in NAMES.items():
        points = series(record["lines"], "stage", key)
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=label)
            largest = max(largest, points[-1][0])
    for (key, label), marker in zip(PEERS.items(), "sD^vP", strict=True):
        points = series(record["peers"], "peer", key)
        if points:
            axes.plot(*zip(*points, strict=True), marker, color="0.45", ls=":", label=label)
    axes.plot([largest / 100, largest], [4e-4, 4e-2], color="0.7", lw=1)
    axes.annotate("proportional to rows", (largest / 8, 4e-3), color="0.45", rotation=27)
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="processor seconds of a call")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return figure


def main() -> None:
    """Write the chart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("--out", type=Path, default=Path("cost.png"))
    options = parser.parse_args()
    figure = draw(json.loads(options.record.read_text()))
    figure.savefig(options.out, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
