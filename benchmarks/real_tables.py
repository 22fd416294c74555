"""Verdicts of the default method on measured tables, with a library that knows nothing of them.

Run ``python benchmarks/real_tables.py FOLDER``; the folder holds ``index.json`` and the tables that
it names, each with its law, its axis and the rows on which domain knowledge says that it holds. The
library is 1, z, z^2, z^3, max(z - middle, 0), log z (|z| z where some z are not positive) and
sin z of the axis z. A diagnosis is right where it says DISCREPANCY, its law lies nearer to that of
the clean rows than half of the global fit's distance (root mean square over the rows), and its
regions share 0.4 of their rows with the others, or its cells have an F1 of 0.7; for a table whose
rows are all clean, where it says CLEAN. It is wrong where it says DISCREPANCY and is not right.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd

from lisdd_jax import Config, Diagnosis, Verdict, diagnose, expressions

KEYS = (0, 1, 2)
LAYOUTS = {"equal 14": (14, False), "quantile 10": (10, True)}


class Table(NamedTuple):
    """A table with its law.

    Attributes:
      design, response, axis, features: arguments of a diagnosis.
      clean: ``(n,)`` bool, by domain knowledge.
    """

    design: np.ndarray
    response: np.ndarray
    axis: np.ndarray
    features: np.ndarray
    clean: np.ndarray


def translate(source: str) -> str:
    """From the NumPy expressions of the index to the grammar of the library."""
    for old, new in (("np.", ""), ("maximum(", "max("), ("**", "^")):
        source = source.replace(old, new)
    return "1" if source == "one" else source


def generic_library(axis: np.ndarray) -> np.ndarray:
    """The library ``(n, 7)``."""
    bent = np.log(axis) if np.all(axis > 0) else np.abs(axis) * axis
    hinge = np.maximum(axis - np.median(axis), 0)
    return np.stack([axis**0, axis, axis**2, axis**3, hinge, bent, np.sin(axis)], axis=1)


def read(folder: Path, entry: dict[str, Any]) -> Table:
    """One table of the index."""
    frame = pd.read_csv(folder / entry["csv"])
    if entry["use"]:
        frame = frame.query(entry["use"], engine="python")
    columns = {name: frame[name].to_numpy() for name in frame.select_dtypes("number")}
    num = len(frame)

    def values(source: str) -> np.ndarray:
        parsed = expressions.parse(translate(source))
        found = np.asarray(expressions.evaluate(parsed, columns), float)
        return np.broadcast_to(found, (num,))

    clean = pd.eval(entry["clean"].replace("np.abs", "abs"), local_dict=columns, engine="python")
    design = np.stack([values(source) for source in entry["phi"].values()], axis=1)
    response, axis = values(entry["y"]), values(entry["axis"])
    known = np.isfinite(response) & np.isfinite(axis) & np.isfinite(design).all(1)
    axis = axis[known]
    return Table(
        design[known], response[known], axis, generic_library(axis), np.asarray(clean)[known]
    )


def edges_of(axis: np.ndarray, layout: str) -> np.ndarray:
    """Cells of the map."""
    num, quantile = LAYOUTS[layout]
    if quantile:
        return np.quantile(axis, np.linspace(0, 1, num + 1))
    return np.linspace(axis.min(), axis.max(), num + 1)


def judge(table: Table, found: Diagnosis) -> dict[str, Any]:
    """Right, wrong, and by how much."""
    verdict = Verdict(int(found.verdict))
    inside = np.asarray(found.regions.contains(table.axis)).any(0)
    truth = ~table.clean
    union = (inside | truth).sum()
    iou = (inside & truth).sum() / union if union else 1.0
    cells = np.asarray(found.cells.flagged)
    edges = np.append(np.asarray(found.cells.lower), np.asarray(found.cells.upper)[-1])
    cell = np.clip(np.searchsorted(edges, table.axis, side="right") - 1, 0, len(cells) - 1)
    total = np.bincount(cell, minlength=len(cells))
    broken = np.bincount(cell, weights=truth, minlength=len(cells)) > 0.5 * np.maximum(total, 1)
    score = 2 * (cells & broken).sum() / max(cells.sum() + broken.sum(), 1)

    def spread(coefficients: np.ndarray) -> float:
        return float(np.sqrt(np.mean((table.design @ (coefficients - expected)) ** 2)))

    expected = np.linalg.lstsq(table.design[table.clean], table.response[table.clean])[0]
    overall = np.linalg.lstsq(table.design, table.response)[0]
    distance = spread(np.asarray(found.coefficients))
    if not table.clean.all():
        # Where all rows are clean the global fit is the law of the clean ones.
        distance = distance / spread(overall)
    said = verdict == Verdict.DISCREPANCY
    if table.clean.all():
        right = verdict == Verdict.CLEAN
    else:
        right = said and distance < 0.5 and (iou >= 0.4 or score >= 0.7)
    return {"verdict": verdict, "right": right, "wrong": said and not right, "iou": iou,
            "score": score, "distance": distance, "inside": inside}  # fmt: skip


def runs(
    table: Table, keys: tuple[int, ...]
) -> Iterator[tuple[str, int, dict[str, Any], Diagnosis]]:
    """Every layout and key."""
    for layout in LAYOUTS:
        edges = edges_of(table.axis, layout)
        for seed in keys:
            found = diagnose(
                *table[:4],
                key=jax.random.key(seed),
                edges=edges,
                config=Config(num_cells=len(edges) - 1),
            )
            yield layout, seed, judge(table, found), found


def interval_words(found: Diagnosis) -> str:
    """The regions in short."""
    table = found.regions
    present = np.flatnonzero(table.present)
    return ", ".join(f"{table.lower[k]:.4g} to {table.upper[k]:.4g}" for k in present)


def main() -> None:
    """Print one line per table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keys", type=int, default=len(KEYS), help="keys for each layout")
    parser.add_argument("--only", help="one table")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    index = json.loads((options.folder / "index.json").read_text())
    print(
        "table | right | wrong | same verdict | verdicts | region (first run) | IoU | F1"
        " | distance over global"
    )
    good = bad = 0
    for entry in index:
        if options.only and entry["name"] != options.only:
            continue
        table = read(options.folder, entry)
        found = list(runs(table, tuple(range(options.keys))))
        right = sum(outcome["right"] for _, _, outcome, _ in found)
        wrong = sum(outcome["wrong"] for _, _, outcome, _ in found)
        good, bad = good + (right > len(found) / 2), bad + (wrong > 0)
        counts = Counter(outcome["verdict"].name for _, _, outcome, _ in found)
        (_, same), *_ = counts.most_common(1)
        first = found[0][2]
        print(
            f"{entry['name']} | {right}/{len(found)} | {wrong}/{len(found)} | {same}/{len(found)}"
            f" | {', '.join(sorted(counts))} | {interval_words(found[0][3])}"
            f" | {first['iou']:.2f} | {first['score']:.2f}"
            f" | {first['distance']:.2f}",
            flush=True,
        )
    print(f"right in {good} of {len(index)} tables; wrong in some run of {bad}")


if __name__ == "__main__":
    main()
