"""Verdicts of the default method on designs that nobody has chosen.

Run ``python benchmarks/random_designs.py [--designs 200] [--replications 20] [--seed 1] [--single]
[--everywhere] [--json FILE]``. A design is drawn by ``default_rng([seed, design])``: rows, axis,
physics columns and their sizes, a library, noise, a fault or none with its place and size, units,
and blocks, trusted rows or noise scales that are given. Its data sets are drawn by
``default_rng([seed, design, i])`` with key ``i``. Printed are shares by kind of fault, each the
mean over designs, and the designs that stand out. *Certified*: a place is, and the verdict is
DISCREPANCY or AMBIGUOUS_REGIME; *right*: certified, and regions and truth share 0.7 of their rows;
*wrong*: less than 0.3 of them; *coverage*: of 95 % intervals of the physics. With ``--everywhere``
the physics lacks something on all rows, a term of the library or a wave along the axis that it does
not hold: then *discrepancy*, the share of that verdict, are wrong answers.
"""

import argparse
import collections
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lisdd_jax import Verdict, diagnose

Array = np.ndarray
Random = np.random.Generator


class Rows(NamedTuple):
    """Rows: axis, its share of its range, physics columns, a covariate."""

    axis: Array
    share: Array
    design: Array
    covariate: Array


SHARES = ("certified", "discrepancy", "right", "wrong", "coverage", "clean")
NUM_ROWS = (60, 120, 250, 600, 1500, 4000)
AXES: dict[str, Callable[[Random, int], Array]] = {
    "uniform": lambda rng, n: rng.random(n),
    "log-uniform": lambda rng, n: 10 ** (3 * rng.random(n)),
    "two clusters": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.normal(0, 0.3, n), rng.normal(2, 0.5, n)
    ),
    "exponential": lambda rng, n: rng.exponential(1, n),
    "time": lambda rng, n: np.arange(n, dtype=float),
    "hours": lambda rng, n: rng.integers(0, 24, n).astype(float),
    "grid": lambda rng, n: np.round(40 * rng.random(n)) / 40,
    "beta": lambda rng, n: rng.beta(2, 5, n),
}
COLUMNS: dict[str, Callable[[Random, Array, Array], Array]] = {
    "constant": lambda rng, share, before: np.ones_like(share),
    "axis": lambda rng, share, before: share,
    "wave": lambda rng, share, before: np.sin(9 * share),
    "normal": lambda rng, share, before: rng.standard_normal(len(share)),
    "another": lambda rng, share, before: rng.standard_normal(len(share)),
    "lognormal": lambda rng, share, before: rng.lognormal(0, 0.7, len(share)),
    "binary": lambda rng, share, before: (rng.random(len(share)) < 0.4).astype(float),
    "correlated": lambda rng, share, before: 0.7 * before + 0.7 * rng.standard_normal(len(share)),
}
TERMS: dict[str, Callable[[Rows], Array]] = {
    "1": lambda rows: np.ones_like(rows.share),
    "z": lambda rows: rows.axis,
    "z^2": lambda rows: rows.share**2,
    "z^3": lambda rows: rows.share**3,
    "hinge": lambda rows: np.maximum(rows.axis - np.median(rows.axis), 0),
    "log": lambda rows: np.log1p(10 * rows.share),
    "sine": lambda rows: np.sin(10 * rows.share),
    "tanh": lambda rows: np.tanh(10 * rows.share - 5),
    "|z - middle|": lambda rows: np.abs(rows.share - 0.5),
    "x": lambda rows: rows.design[:, -1],
    "x z": lambda rows: rows.design[:, -1] * rows.share,
    "x^2": lambda rows: rows.design[:, -1] ** 2,
    "covariate": lambda rows: rows.covariate,
}


def _autoregression(rng: Random, num: int, rho: float) -> Array:
    noise = rng.standard_normal(num)
    for i in range(1, num):
        noise[i] = rho * noise[i - 1] + np.sqrt(1 - rho**2) * noise[i]
    return noise


def _scaled(rng: Random, scale: Array) -> Array:
    """Normal noise of standard deviations ``scale``, of mean square 1."""
    return scale / np.sqrt(np.mean(scale**2)) * rng.standard_normal(len(scale))


NOISES: dict[str, Callable[[Random, Rows], Array]] = {
    "normal": lambda rng, rows: rng.standard_normal(len(rows.axis)),
    "Laplace": lambda rng, rows: rng.laplace(0, np.sqrt(0.5), len(rows.axis)),
    "uniform": lambda rng, rows: rng.uniform(-np.sqrt(3), np.sqrt(3), len(rows.axis)),
    "t4": lambda rng, rows: rng.standard_t(4, len(rows.axis)) / np.sqrt(2),
    "gamma": lambda rng, rows: (rng.gamma(2, 1, len(rows.axis)) - 2) / np.sqrt(2),
    "3 % of ten": lambda rng, rows: (
        rng.standard_normal(len(rows.axis)) * np.where(rng.random(len(rows.axis)) < 0.03, 10, 1)
    ),
    "7 % at + 8": lambda rng, rows: (
        rng.standard_normal(len(rows.axis)) + 8 * (rng.random(len(rows.axis)) < 0.07)
    ),
    "goes with x": lambda rng, rows: _scaled(
        rng, 0.3 + np.abs(rows.design[:, -1]) / np.sqrt(np.mean(rows.design[:, -1] ** 2))
    ),
    "goes with z": lambda rng, rows: _scaled(rng, 0.2 + rows.share),
    "AR(.4)": lambda rng, rows: _autoregression(rng, len(rows.axis), 0.4),
    "rounded": lambda rng, rows: np.round(2 * rng.standard_normal(len(rows.axis))) / 2,
}


def _slope(rows: Rows, inside: Array, term: Array) -> tuple[Array, Array]:
    return inside * rows.design[:, -1], inside


def _kink(rows: Rows, inside: Array, term: Array) -> tuple[Array, Array]:
    if inside[np.argmax(rows.axis)]:
        return np.maximum(rows.axis - np.min(rows.axis[inside]), 0), inside
    if inside[np.argmin(rows.axis)]:
        return np.maximum(np.max(rows.axis[inside]) - rows.axis, 0), inside
    return inside.astype(float), inside


def _both_ends(rows: Rows, inside: Array, term: Array) -> tuple[Array, Array]:
    low, high = np.quantile(rows.axis, [0.15, 0.85])
    return 1.0 * (rows.axis < low) - (rows.axis >= high), (rows.axis < low) | (rows.axis >= high)


def _hidden(rows: Rows, inside: Array, term: Array) -> tuple[Array, Array]:
    low, high = np.quantile(rows.axis[inside], [0, 1])
    return inside * np.sin(np.pi * (rows.axis - low) / max(high - low, 1e-300)), inside


def _wave(rows: Rows, inside: Array, term: Array) -> tuple[Array, Array]:
    """A half to one and a half periods, by the place that the design has drawn."""
    periods = 0.5 + np.mean(rows.share[inside])
    return np.sin(2 * np.pi * periods * rows.share + 1), np.ones(len(rows.axis), bool)


Fault = Callable[[Rows, Array, Array], tuple[Array, Array]]
LOCAL: dict[str, Fault] = {
    "none": lambda rows, inside, term: (0.0 * rows.axis, np.zeros(len(rows.axis), bool)),
    "step": lambda rows, inside, term: (inside.astype(float), inside),
    "slope": _slope,
    "kink": _kink,
    "both ends": _both_ends,
    "bump": _hidden,
    "term": lambda rows, inside, term: (inside * term, inside),
}
EVERYWHERE: dict[str, Fault] = {
    "term on all rows": lambda rows, inside, term: (term, np.ones(len(term), bool)),
    "wave": _wave,
}
FAULTS = LOCAL | EVERYWHERE


class Design(NamedTuple):
    """A design; ``place`` are ranks of the axis as shares, ``given`` what the caller knows."""

    number: int
    num_rows: int
    axis: str
    columns: tuple[str, ...]
    sizes: tuple[float, ...]
    terms: tuple[str, ...]
    noise: str
    fault: str
    size: float
    place: tuple[float, float]
    units: tuple[float, float]
    given: str


def draw_design(seed: int, number: int, faults: Iterable[str]) -> Design:
    """The design of a number, with one of the faults."""
    rng = np.random.default_rng([seed, number])

    def some(names: Any, low: int, high: int) -> tuple[str, ...]:
        return tuple(rng.choice(list(names), int(rng.integers(low, high)), replace=False).tolist())

    low, width = rng.uniform(0, 1), rng.choice([0.12, 0.2, 0.3])
    low = float(rng.choice([0.0, 1 - width, low * (1 - width)]))
    return Design(
        number=number,
        num_rows=int(rng.choice(NUM_ROWS)),
        axis=str(rng.choice(list(AXES))),
        columns=some(COLUMNS, 1, 8),
        sizes=tuple((10 ** rng.uniform(-2, 2, len(COLUMNS))).tolist()),
        terms=some(TERMS, 2, 12),
        noise=str(rng.choice(list(NOISES))),
        fault=str(rng.choice(list(faults))),
        size=float(rng.choice([2.0, 3.0, 5.0])),
        place=(low, low + float(width)),
        units=tuple((10 ** rng.uniform(-3, 3, 2)).tolist()),
        given=str(rng.choice(["nothing"] * 7 + ["blocks", "trusted", "noise scales"])),
    )


class Problem(NamedTuple):
    """A data set: arguments of ``diagnose``, the physics, and the rows of the fault."""

    arguments: tuple[Array, ...]
    optional: dict[str, Array]
    truth: Array
    inside: Array


def draw_problem(design: Design, rng: Random) -> Problem:
    """A data set of a design."""
    num = design.num_rows
    axis = AXES[design.axis](rng, num)
    share = (axis - axis.min()) / np.ptp(axis)
    columns, before = [], rng.standard_normal(num)
    for name, size in zip(design.columns, design.sizes, strict=False):
        before = COLUMNS[name](rng, share, before)
        columns.append(before * size)
    rows = Rows(axis, share, np.stack(columns, 1), rng.standard_normal(num))
    features = np.stack([TERMS[name](rows) for name in design.terms], 1)
    truth = 2 / np.abs(rows.design).mean(0)

    low, high = np.quantile(axis, design.place)
    inside = (axis >= low) & ((axis < high) | (high == axis.max()))
    term = features[:, design.number % features.shape[1]]
    change, wrong = FAULTS[design.fault](rows, inside, term)
    length = np.sqrt(np.mean(change[wrong] ** 2)) if wrong.any() else 0.0
    noise = NOISES[design.noise](rng, rows)

    optional: dict[str, Array] = {}
    if design.given == "blocks":
        optional["block"] = rng.integers(0, num // 6, num)
        noise = 0.8 * noise + 0.6 * rng.standard_normal(num // 6)[optional["block"]]
    elif design.given == "noise scales":
        optional["noise_scale"] = np.exp(rng.normal(0, 0.7, num))
        noise = noise * optional["noise_scale"]
    elif design.given == "trusted":
        optional["trusted"] = ~wrong & (rng.random(num) < 0.5)
    response = rows.design @ truth + design.size * change / (length or 1.0) + noise
    unit, axis_unit = design.units
    arguments = (rows.design, response * unit, axis * axis_unit, features)
    return Problem(arguments, optional, truth * unit, wrong)


def count(problem: Problem, key: jax.Array) -> dict[str, Any]:
    """What is counted of a data set."""
    found = diagnose(*problem.arguments, key=key, **problem.optional)
    axis = np.asarray(problem.arguments[2], found.coefficients.dtype)
    inside = np.asarray(found.regions.contains(axis)).any(0)
    overlap = (inside & problem.inside).sum() / max((inside | problem.inside).sum(), 1)
    error = np.sqrt(np.diag(np.asarray(found.covariance, float)))
    off = np.abs(np.asarray(found.coefficients, float) - problem.truth)
    verdict = Verdict(int(found.verdict))
    placed = bool(found.place.certified)
    certified = placed and verdict in (Verdict.DISCREPANCY, Verdict.AMBIGUOUS_REGIME)
    alone = verdict == Verdict.DISCREPANCY
    shares = (certified, alone, certified and overlap >= 0.7, certified and overlap < 0.3)
    shares = (*shares, np.mean(off <= 1.96 * error), verdict == Verdict.CLEAN)
    return {**dict(zip(SHARES, shares, strict=True)), "verdict": verdict.name}


def run(design: Design, seed: int, replications: int) -> dict[str, Any]:
    """Shares over the data sets of a design, and its verdicts."""
    found = []
    for i in range(replications):
        problem = draw_problem(design, np.random.default_rng([seed, design.number, i]))
        found.append(count(problem, jax.random.key(i)))
    shares = {name: float(np.mean([one[name] for one in found])) for name in SHARES}
    verdicts = dict(collections.Counter(one["verdict"] for one in found))
    return {**design._asdict(), **shares, "verdicts": verdicts}


def stands_out(row: dict[str, Any]) -> bool:
    """Whether a design has errors that chance hardly gives in twenty data sets."""
    if row["fault"] in EVERYWHERE:
        return row["discrepancy"] > 0.3
    sound = row["fault"] == "none"
    erred = row["certified"] > 0.15 or row["clean"] < 0.75 if sound else row["wrong"] > 0.15
    return erred or row["coverage"] < 0.8


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of shares by kind of fault, with standard errors over designs."""
    yield "fault | designs | " + " | ".join(SHARES)
    for fault in FAULTS:
        own = [row for row in rows if row["fault"] == fault]
        if own:
            values = np.array([[row[name] for name in SHARES] for row in own])
            errors = values.std(0) / np.sqrt(len(own))
            means = zip(values.mean(0), errors, strict=True)
            yield f"{fault} | {len(own)} | " + " | ".join(f"{m:.3f} ({e:.3f})" for m, e in means)


def main() -> None:
    """Print the table, and the designs that stand out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", type=int, default=200)
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--single", action="store_true", help="in single precision")
    parser.add_argument("--everywhere", action="store_true", help="wrong on all rows")
    parser.add_argument("--json", type=Path, help="every design, a line each")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.single)
    rows, faults = [], EVERYWHERE if options.everywhere else ("none", "none", *LOCAL)
    for number in range(options.designs):
        design = draw_design(options.seed, number, faults)
        rows.append(run(design, options.seed, options.replications))
        if options.json is not None:
            with options.json.open("a") as file:
                print(json.dumps(rows[-1]), file=file)
    print("\n".join(table(rows)))
    for row in filter(stands_out, rows):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
