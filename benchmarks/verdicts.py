"""Verdicts of the default method on simulated settings: sound laws, places, weak faults and more.

Run ``python benchmarks/verdicts.py GENERATOR [--replications 200] [--only GROUP] [--seed 7]
[--single]``. GENERATOR is a Python file with ``make(n, p, axis, noise, regs, ...)``, which returns
a function of a NumPy generator that gives the arrays ``X, y, z, F`` and the coefficients ``beta``.
Data set ``i`` of a setting is drawn by ``default_rng([seed, i])``. Groups: sound, place, narrow,
weak, everywhere, dependence, majority, soft, skewed, unequal. Shares have a standard error of at
most ``0.5 / sqrt(replications)``; the coverage of 95 % intervals of the physics is told for all
data sets and for those called CLEAN. *Bias* is the largest of the coefficients' mean errors, in
standard errors; by chance it is about ``1.5 / sqrt(replications)``.
"""

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from verdict_settings import GROUPS, Setting

from lisdd_jax import Diagnosis, Verdict, diagnose
from lisdd_jax.numerics import compilation


def run(
    setting: Setting, make: Callable[..., Any], replications: int, seed: int
) -> Iterator[dict[str, Any]]:
    """What is counted of every data set."""
    draw = make(**setting.options)
    for i in range(replications):
        arrays = draw(np.random.default_rng([seed, i]))
        names = ("X", "y", "z", "F")
        arrays |= {name: np.repeat(arrays[name], setting.copies, axis=0) for name in names}
        key = jax.random.key(i)
        found = diagnose(*(arrays[name] for name in names), key=key, **setting.optional(arrays))
        yield count(found, arrays, setting.truth)


def count(
    found: Diagnosis, arrays: dict[str, Any], intervals: tuple[tuple[float, float], ...]
) -> dict[str, Any]:
    """The verdict, the place, and whether 95 % intervals of the physics cover."""
    axis = arrays["z"]
    truth = np.zeros(len(axis), bool)
    for low, high in intervals:
        truth |= (axis >= low) & (axis < high)
    inside = np.asarray(found.regions.contains(axis)).any(0)
    overlap = (inside & truth).sum() / max((inside | truth).sum(), 1)
    off = (np.asarray(found.coefficients) - arrays["beta"]) / np.sqrt(np.diag(found.covariance))
    verdict = Verdict(int(found.verdict))
    placed = bool(found.place.certified)
    said = verdict in (Verdict.DISCREPANCY, Verdict.AMBIGUOUS_REGIME)
    return {
        "verdict": verdict.name,
        "certified": placed and said,
        "right": placed and overlap >= 0.7,
        "wrong": placed and overlap < 0.3,
        "coverage": np.mean(np.abs(off) <= 1.96),
        "off": off,
        "named": bool(found.dependence.significant),
    }


def main() -> None:
    """Print one line per setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("generator", type=Path)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", choices=[group.__name__ for group in GROUPS])
    parser.add_argument("--single", action="store_true", help="in single precision")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.single)
    # Hundreds of data sets have one shape: compiling in full pays.
    compilation.MOST_ROWS_QUICK = 0
    module = importlib.util.spec_from_file_location("generator", options.generator)
    generator = importlib.util.module_from_spec(module)
    module.loader.exec_module(generator)
    print(
        "group | setting | certified | right | wrong | coverage | of clean ones | dependence named"
        " | bias | verdicts"
    )
    for group in GROUPS:
        if options.only not in (None, group.__name__):
            continue
        for setting in group():
            found = list(run(setting, generator.make, options.replications, options.seed))
            names, counts = np.unique([one["verdict"] for one in found], return_counts=True)
            verdicts = ", ".join(
                f"{name} {k / len(found):.3f}" for name, k in zip(names, counts, strict=True)
            )
            clean = [one for one in found if one["verdict"] == Verdict.CLEAN.name]
            columns = [
                *((found, key) for key in ("certified", "right", "wrong", "coverage")),
                (clean, "coverage"),
                (found, "named"),
            ]
            shares = " | ".join(
                f"{np.mean([one[key] for one in part]):.3f}" if part else "-"
                for part, key in columns
            )
            bias = np.max(np.abs(np.mean([one["off"] for one in found], axis=0)))
            print(
                f"{setting.group} | {setting.name} | {shares} | {bias:.3f} | {verdicts}", flush=True
            )


if __name__ == "__main__":
    main()
