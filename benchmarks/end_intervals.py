"""How often the 95 % intervals of ends hold the ends: jumps, kinks, soft onsets and a hump.

``python benchmarks/end_intervals.py [--replications 200] [--seed 3] [--only NAME]``. The law is
``1 + 2 x1 - x2`` with noise of standard deviation 1, or the use of energy on 365 days: a base, and
0.5 a degree above 60. A line counts the data sets in which a place is certified and one region has
an end inside the axis on that side: *told*, their share; *cover*, of their intervals of the end;
*error*, the median distance of the end; *width*, the median length of the interval; *physics*, the
coverage of 95 % intervals of the coefficients. Standard errors are at most ``0.5 / sqrt(told)``.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from lisdd_jax import diagnose
from lisdd_jax.numerics import compilation

Fault = Callable[[np.ndarray], np.ndarray]


class Setting(NamedTuple):
    """Data with one end, or with two.

    Attributes:
      name: what it shows.
      num: rows.
      axis: draws the axis, from a generator and the number of rows.
      fault: adds to the response, a function of the axis.
      ends: where the deviation begins and where it stops; infinite where it does not.
      columns: of the physics.
    """

    name: str
    num: int
    axis: Callable[[np.random.Generator, int], np.ndarray]
    fault: Fault
    ends: tuple[float, float]
    columns: int = 3


def hinge(along: np.ndarray, half: float) -> np.ndarray:
    """``max(along, 0)``, bent over ``half`` to either side."""
    bent = (along + half) ** 2 / (4 * half) if half else 0 * along
    return np.where(along <= -half, 0.0, np.where(along >= half, along, bent))


def uniform(rng: np.random.Generator, num: int) -> np.ndarray:
    return rng.uniform(0, 10, num)


def bell(rng: np.random.Generator, num: int) -> np.ndarray:
    return rng.normal(5, 2, num)


def skewed(rng: np.random.Generator, num: int) -> np.ndarray:
    return rng.lognormal(1, 0.6, num)


def seasons(rng: np.random.Generator, num: int) -> np.ndarray:
    return 58 - 22 * np.cos(2 * np.pi * np.arange(num) / 365) + rng.normal(0, 6, num)


def warm(rng: np.random.Generator, num: int) -> np.ndarray:
    """A tenth of the days lie above 60."""
    return rng.uniform(0, 66, num)


def jump(size: float, low: float, high: float = np.inf) -> Fault:
    return lambda z: size * ((z >= low) & (z < high))


def kink(slope: float, place: float, half: float = 0.0, sign: float = 1.0) -> Fault:
    return lambda z: slope * hinge(sign * (z - place), half)


def hump(size: float, middle: float, half: float) -> Fault:
    return lambda z: size * np.maximum(half - np.abs(z - middle), 0)


def settings() -> Iterator[Setting]:
    """Jumps, kinks, sharp and soft, and a hump on several axes."""
    axes = {"uniform": (uniform, 7.0), "normal": (bell, 6.0), "lognormal": (skewed, 4.0)}
    for num in (200, 1000):
        for axis, (draw, end) in axes.items():
            faults = {f"jump {size:g}": jump(size, end) for size in (2.0, 5.0)}
            for slope in (1.0, 3.0):
                faults[f"kink {slope:g}"] = kink(slope, end)
                faults[f"kink {slope:g}, soft 2"] = kink(slope, end, 1.0)
            for name, fault in faults.items():
                words = f"{name} from {end:g}, {axis}, n {num}"
                yield Setting(words, num, draw, fault, (end, np.inf))
        both = {
            "jump 2 on 4 to 6": (jump(2.0, 4.0, 6.0), (4.0, 6.0)),
            "kink 2 below 4": (kink(2.0, 4.0, sign=-1.0), (-np.inf, 4.0)),
            "hump 1.5 on 3.5 to 6.5": (hump(1.5, 5.0, 1.5), (3.5, 6.5)),
        }
        for name, (fault, ends) in both.items():
            yield Setting(f"{name}, uniform, n {num}", num, uniform, fault, ends)
    for name, draw in {"seasons": seasons, "a tenth above": warm}.items():
        for half in (0.0, 2.5, 4.0):
            words = f"days, {name}, soft {2 * half:g} degrees"
            yield Setting(words, 365, draw, kink(0.5, 60.0, half), (60.0, np.inf), 1)


def draw(setting: Setting, rng: np.random.Generator) -> tuple[Any, ...]:
    """Design, response, axis, terms and coefficients."""
    axis = setting.axis(rng, setting.num)
    design = rng.standard_normal((setting.num, setting.columns))
    design[:, 0] = 1.0
    law = np.array([1.0, 2.0, -1.0])[: setting.columns]
    response = design @ law + setting.fault(axis) + rng.standard_normal(setting.num)
    terms = np.stack([np.ones_like(axis), axis, axis**2, np.sin(axis)], 1)
    return design, response, axis, terms, law


def judge(setting: Setting, rng: np.random.Generator) -> Iterator[tuple[bool, float, float, float]]:
    """Whether the interval holds an end, its error and width, and the coverage of the physics."""
    design, response, axis, terms, law = draw(setting, rng)
    found = diagnose(design, response, axis, terms, key=jax.random.key(0))
    regions = found.regions
    if not found.place.certified or int(regions.present.sum()) != 1:
        return
    error = np.sqrt(np.diag(found.covariance))
    physics = np.mean(np.abs(np.asarray(found.coefficients) - law) <= 1.96 * error)
    sides = (regions.lower, regions.lower_interval), (regions.upper, regions.upper_interval)
    for (places, intervals), end in zip(sides, setting.ends, strict=True):
        low, high = np.asarray(intervals[0])
        if np.isfinite(end) and np.isfinite(low):
            yield bool(low <= end <= high), abs(float(places[0]) - end), high - low, physics


def main() -> None:
    """Print one line per setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", default="", help="settings whose name holds it")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    # Hundreds of data sets have one shape: compiling in full pays.
    compilation.MOST_ROWS_QUICK = 0
    print("setting | told | cover | error | width | physics")
    for setting in settings():
        if options.only not in setting.name:
            continue
        seeds = range(options.replications)
        judged = [
            one for i in seeds for one in judge(setting, np.random.default_rng([options.seed, i]))
        ]
        wanted = options.replications * np.isfinite(setting.ends).sum()
        held, error, width, physics = (
            np.array(judged, float).T if judged else np.full((4, 1), np.nan)
        )
        print(
            f"{setting.name} | {len(judged) / wanted:.3f} | {held.mean():.3f} |"
            f" {np.median(error):.2f} | {np.median(width):.2f} | {physics.mean():.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
