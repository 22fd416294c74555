"""Does a verdict depend on the key or on the cells of the map? Measured tables, over and over.

Run ``python benchmarks/repeatability.py [FOLDER] [--cases CASES] [--drawn SEED] [--keys 20]``.
FOLDER holds measured tables as ``benchmarks/real_tables.py`` wants them; CASES holds those that
``tests/test_case_tables.py`` names, with the formulas and libraries of that module; of SEED come
the first data sets of the designs of ``benchmarks/random_designs.py`` to which nothing is given
besides, of the first hundred designs. Layouts are
equal and quantile cells, 14, 10 and 20 of them; all keys are tried with the first, three with each
other one. Of each table is told: the verdict that comes most often with the first layout; its share
over the keys there; its share of all runs, every layout counting alike; and the share of runs of
that verdict whose regions share 0.7 of their rows with the first's.
"""

import argparse
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
import random_designs
import real_tables

import lisdd_jax

LAYOUTS = [(num, quantile) for quantile in (False, True) for num in (14, 10, 20)]
FEW_KEYS = 3
SAME_REGION = 0.7
MOST_DESIGNS = 100
CASE_TABLES = Path(__file__).resolve().parents[1] / "tests" / "test_case_tables.py"


class Run(NamedTuple):
    """One diagnosis: its verdict and the rows of its regions."""

    verdict: str
    inside: np.ndarray


def edges_of(axis: np.ndarray, num: int, quantile: bool) -> np.ndarray:
    """Cells of the map; quantiles that coincide are one edge."""
    if quantile:
        return np.unique(np.quantile(axis, np.linspace(0, 1, num + 1)))
    return np.linspace(axis.min(), axis.max(), num + 1)


def measured(folder: Path) -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """Tables of the index: design, response, axis, features."""
    for entry in json.loads((folder / "index.json").read_text()):
        yield entry["name"], tuple(real_tables.read(folder, entry)[:4])


def cases(folder: Path) -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """Tables that tests name with a formula and a library."""
    spec = importlib.util.spec_from_file_location("case_tables", CASE_TABLES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, (formula, library) in module.FORMULAS.items():
        rows = pd.read_csv(folder / f"{name}.csv")
        problem = lisdd_jax.fit(formula, rows, library=library).problem
        yield name, (problem.design, problem.response, problem.axis, problem.features)


def drawn(seed: int) -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """Data sets of designs that nobody has chosen."""
    for number in range(MOST_DESIGNS):
        design = random_designs.draw_design(seed, number, ("none", *random_designs.LOCAL))
        if design.given == "nothing":
            rng = np.random.default_rng([seed, number, 0])
            name = f"design {number}, {design.num_rows} rows, {design.fault}"
            yield name, random_designs.draw_problem(design, rng).arguments


def runs(arrays: tuple[np.ndarray, ...], keys: int) -> dict[tuple[int, bool], list[Run]]:
    """Every layout and key."""
    axis = arrays[2]
    table: dict[tuple[int, bool], list[Run]] = {}
    for layout in LAYOUTS:
        edges = edges_of(axis, *layout)
        config = lisdd_jax.Config(num_cells=len(edges) - 1)
        table[layout] = []
        for seed in range(keys if layout == LAYOUTS[0] else min(keys, FEW_KEYS)):
            key = jax.random.key(seed)
            found = lisdd_jax.diagnose(*arrays, key=key, edges=edges, config=config)
            name = lisdd_jax.Verdict(int(found.verdict)).name
            table[layout].append(Run(name, np.asarray(found.regions.contains(axis)).any(0)))
    return table


def summary(table: dict[tuple[int, bool], list[Run]]) -> dict[str, Any]:
    """The verdict that comes most often, how often, and whether its regions are the same."""
    ((verdict, _),) = Counter(run.verdict for run in table[LAYOUTS[0]]).most_common(1)
    every = [run for part in table.values() for run in part]
    shares = [np.mean([run.verdict == verdict for run in part]) for part in table.values()]
    same = [run for run in every if run.verdict == verdict]
    first = same[0].inside
    overlaps = [
        (run.inside & first).sum() / max((run.inside | first).sum(), 1)
        for run in same
        if first.any()
    ]
    return {
        "verdict": verdict,
        "keys": shares[0],
        "layouts": np.mean(shares),
        "regions": np.mean(np.array(overlaps) >= SAME_REGION) if overlaps else np.nan,
    }


def main() -> None:
    """Print one line per table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--drawn", type=int, metavar="SEED")
    parser.add_argument("--keys", type=int, default=20)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    tables = list(measured(options.folder)) if options.folder else []
    if options.cases:
        tables += cases(options.cases)
    if options.drawn is not None:
        tables += drawn(options.drawn)
    print("table | verdict | over keys | over layouts | same regions")
    for name, arrays in tables:
        found = summary(runs(arrays, options.keys))
        shares = " | ".join(f"{found[part]:.3f}" for part in ("keys", "layouts", "regions"))
        print(f"{name} | {found['verdict'].lower()} | {shares}", flush=True)


if __name__ == "__main__":
    main()
