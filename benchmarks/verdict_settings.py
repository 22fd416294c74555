"""Settings of the generator on which verdicts of the default method are counted."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

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


def clusters(
    likeness: float,
) -> Callable[[np.random.Generator, dict[str, Any]], dict[str, Any]]:
    """Every regressor measured ``COPIES`` times, with noise that correlates by ``likeness``."""

    def draw(rng: np.random.Generator, arrays: dict[str, Any]) -> dict[str, Any]:
        num = len(arrays["y"])
        first = COPIES * (np.arange(num) // COPIES)
        arrays |= {name: arrays[name][first] for name in ("X", "z", "F", "mu")}
        common, own = rng.standard_normal((2, num))
        noise = np.sqrt(likeness) * common[first] + np.sqrt(1 - likeness) * own
        return arrays | {"y": arrays["mu"] + noise}

    return draw


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

    for likeness in (0.5, 0.9):
        made = {"post": clusters(likeness)}
        name = f"{COPIES} rows a place, noise alike by {likeness}"
        yield Setting("dependence", name, made)
        yield Setting("dependence", f"{name}, blocks", made, (), copies)
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
