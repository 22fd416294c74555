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
from typing import Any, NamedTuple

import jax
import numpy as np

from lisdd_jax import Diagnosis, Verdict, diagnose
from lisdd_jax.numerics import compilation

INF = np.inf
BLOCK, COPIES = 25, 5


class Setting(NamedTuple):
    """A setting of the generator.

    Attributes:
      group, name: what it shows.
      options: of ``make``.
      truth: intervals of the axis on which the law is wrong.
      optional: further arguments of ``diagnose``, as a function of the arrays.
      copies: how often every row is in the table, one after the other.
    """

    group: str
    name: str
    options: dict[str, Any]
    truth: tuple[tuple[float, float], ...] = ()
    optional: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {}
    copies: int = 1


def random_walk(rng: np.random.Generator, num: int) -> np.ndarray:
    """An axis that wanders."""
    return np.cumsum(rng.standard_normal(num))


def sound() -> Iterator[Setting]:
    """The law holds."""
    for num in (100, 200, 500, 2000):
        for size in (1, 3, 6):
            yield Setting("sound", f"n {num}, p {size}", {"n": num, "p": size})
        for noise in ("t3", "logn", "mult", "outpos", "outclus"):
            yield Setting("sound", f"n {num}, noise {noise}", {"n": num, "noise": noise})
        for axis in ("logn", "int", "ties", "norm"):
            yield Setting("sound", f"n {num}, axis {axis}", {"n": num, "axis": axis})


def place() -> Iterator[Setting]:
    """A place stands out."""

    def step(name: str, size: float, low: float, high: float, **options: Any) -> Setting:
        regions = [(low, high, {0: size})]
        return Setting("place", name, {"regs": regions, **options}, ((low, high),))

    for size in (2.0, 4.0, 6.0, 10.0):
        yield step(f"step {size:g} from 7", size, 7, INF)
    yield step("step 1 on 4 to 6", 1.0, 4, 6)
    yield step("step 2 on 4 to 6", 2.0, 4, 6)
    yield step("step 2 on 4 to 6, n 200", 2.0, 4, 6, n=200)
    yield step("step 2 on 4 to 6, n 100", 2.0, 4, 6, n=100)
    ends = ((-INF, 2.0), (8.0, INF))
    for noise in ("gauss", "out", "outpos"):
        for size in (2.0, 4.0):
            regions = [(-INF, 2, {0: size}), (8, INF, {0: -size})]
            name = f"steps +-{size:g} at the ends, noise {noise}"
            yield Setting("place", name, {"regs": regions, "noise": noise}, ends)
        regions = [(-INF, 2, {2: 2.0}), (8, INF, {3: 2.0})]
        yield Setting(
            "place", f"z^2 left, sine right, noise {noise}", {"regs": regions, "noise": noise}, ends
        )


def narrow() -> Iterator[Setting]:
    """Steps over so few rows that one of the method's cells, or two, hold each."""
    for num, width in ((100, 0.6), (200, 0.4), (500, 0.2), (2000, 0.1)):
        for size, noise, low in ((5, "gauss", 5.0), (10, "outpos", 5.0), (5, "gauss", 10 - width)):
            name = f"step {size} on {low:g} to {low + width:g}, n {num}, noise {noise}"
            options = {"n": num, "noise": noise, "regs": [(low, low + width, {0: float(size)})]}
            yield Setting("narrow", name, options, ((low, low + width),))
        if num > 100:
            truth = ((2.0, 2 + width), (7.0, 7 + width))
            steps = [(*span, {0: size}) for span, size in zip(truth, (5.0, -5.0), strict=True)]
            yield Setting("narrow", f"two steps, n {num}", {"n": num, "regs": steps}, truth)


def weak() -> Iterator[Setting]:
    """Faults of half a noise scale."""
    yield Setting("weak", "sound", {})
    yield Setting("weak", "step .5 on 4 to 6", {"regs": [(4, 6, {0: 0.5})]}, ((4, 6),))
    yield Setting("weak", "step .5 from 7", {"regs": [(7, INF, {0: 0.5})]}, ((7, INF),))
    ramp = {"miss": lambda z, X: 0.25 * np.maximum(z - 6, 0)}
    slope = {"miss": lambda z, X: 0.5 * X[:, 1] * (z >= 6)}
    yield Setting("weak", "ramp .25 from 6", ramp, ((6, INF),))
    yield Setting("weak", "slope + .5 from 6", slope, ((6, INF),))


def everywhere() -> Iterator[Setting]:
    """Terms that act on all rows."""
    faults = {
        "sin(1.5 z)": lambda z, X: np.sin(1.5 * z),
        "x1^2": lambda z, X: X[:, 1] ** 2,
        "0.1 z^2": lambda z, X: 0.1 * z**2,
    }
    for name, fault in faults.items():
        yield Setting("everywhere", name, {"miss": fault})


def dependence() -> Iterator[Setting]:
    """Rows that depend on each other, without and with blocks."""

    def blocks(arrays: dict[str, Any]) -> dict[str, Any]:
        return {"block": np.arange(len(arrays["y"])) // BLOCK}

    for rho in (0.5, 0.8, 0.9):
        axes = {"sorted": {"sortz": True}, "random walk": {"axis": random_walk}, "fast": {}}
        for kind, options in axes.items():
            made = {"noise": f"ar{rho}", **options}
            yield Setting("dependence", f"AR({rho}), {kind} axis", made)
            yield Setting("dependence", f"AR({rho}), {kind} axis, blocks", made, (), blocks)

    def copies(arrays: dict[str, Any]) -> dict[str, Any]:
        return {"block": np.arange(len(arrays["y"])) // COPIES}

    for num in (20, 100, 500):
        name = f"{num} rows {COPIES} times"
        yield Setting("dependence", name, {"n": num}, copies=COPIES)
        yield Setting("dependence", f"{name}, blocks", {"n": num}, (), copies, COPIES)


def majority() -> Iterator[Setting]:
    """Most rows are wrong by what the physics spans, without and with trusted rows."""

    def trust(arrays: dict[str, Any]) -> dict[str, Any]:
        return {"trusted": arrays["z"] < 3}

    step = {"regs": [(4, INF, {0: 2.0})]}
    slope = {"miss": lambda z, X: 2 * X[:, 1] * (z >= 3.5)}
    for name, made, low in (("+ 2 on 60 %", step, 4.0), ("slope + 2 on 65 %", slope, 3.5)):
        yield Setting("majority", name, made, ((low, INF),))
        yield Setting("majority", f"{name}, trusted below 3", made, ((low, INF),), trust)


def soft() -> Iterator[Setting]:
    """Discrepancies that set in softly."""

    def step(size: float) -> Callable[[Any, Any], Any]:
        return lambda z, X: size / (1 + np.exp(-(z - 7.5) / 0.4))

    faults = {
        "exp((z - 6) / 1.5) - 1 from 6": (lambda z, X: np.expm1(np.maximum(z - 6, 0) / 1.5), 6.0),
        "0.1 (z - 5)^3 from 5": (lambda z, X: 0.1 * np.maximum(z - 5, 0) ** 3, 5.0),
        "0.3 (z - 5)^2 from 5": (lambda z, X: 0.3 * np.maximum(z - 5, 0) ** 2, 5.0),
        "logistic step 3 at 7.5": (step(3.0), 7.5),
        "logistic step 6 at 7.5": (step(6.0), 7.5),
    }
    for name, (fault, low) in faults.items():
        yield Setting("soft", name, {"n": 1000, "miss": fault}, ((low, INF),))


def skewed() -> Iterator[Setting]:
    """Noise with one long tail."""
    for num in (500, 2000):
        for low, high, size in ((7, INF, 2.0), (3, 5, -3.0)):
            made = {"n": num, "noise": "logn", "regs": [(low, high, {0: size})]}
            yield Setting("skewed", f"step {size:g} from {low}, n {num}", made, ((low, high),))


def unequal() -> Iterator[Setting]:
    """Noise that goes with a regressor or the axis: sound laws, then steps of 2."""

    def about(scale: Callable[[Any, Any], Any]) -> Callable[..., dict[str, Any]]:
        def draw(rng: np.random.Generator, arrays: dict[str, Any]) -> dict[str, Any]:
            size = scale(arrays["z"], arrays["X"])
            noise = size / np.sqrt(np.mean(size**2)) * rng.standard_normal(len(size))
            return {**arrays, "y": arrays["mu"] + noise}

        return draw

    kinds = {
        "0.3 + |x2|": ("unif", about(lambda z, X: 0.3 + np.abs(X[:, 2]))),
        "exp(0.7 x1)": ("unif", about(lambda z, X: np.exp(0.7 * X[:, 1]))),
        "0.5 + |prediction|": ("unif", about(lambda z, X: 0.5 + np.abs(X @ [1.0, 2.0, -1.0]))),
        "z, lognormal": ("logn", about(lambda z, X: z)),
        "1 / (1 + z), lognormal": ("logn", about(lambda z, X: 1 / (1 + z))),
    }
    for num in (100, 500, 2000):
        for name, (axis, post) in kinds.items():
            made = {"n": num, "axis": axis, "post": post}
            yield Setting("unequal", f"n {num}, noise {name}", made)
    louder = about(lambda z, X: np.where(z > 7, 3.0, 1.0))

    def with_more_columns(rng: np.random.Generator, arrays: dict[str, Any]) -> dict[str, Any]:
        more = rng.standard_normal((len(arrays["z"]), 5))
        wide = {"X": np.hstack([arrays["X"], more]), "beta": np.append(arrays["beta"], np.zeros(5))}
        return louder(rng, arrays) | wide

    for num, size, post in ((100, 6, louder), (140, 11, with_more_columns)):
        name = f"n {num}, p {size}, noise three times from 7"
        yield Setting("unequal", name, {"n": num, "p": 6, "post": post})
    for name, (axis, post) in kinds.items():
        low, high = (7.0, INF) if axis == "unif" else (2.0, 4.0)
        made = {"axis": axis, "post": post, "regs": [(low, high, {0: 2.0})]}
        yield Setting("unequal", f"step 2 from {low:g}, noise {name}", made, ((low, high),))


GROUPS = (sound, place, narrow, weak, everywhere, dependence, majority, soft, skewed, unequal)


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
