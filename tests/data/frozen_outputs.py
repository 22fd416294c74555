"""Fifty problems, and what the published method and the public functions gave for them.

``python tests/data/frozen_outputs.py`` writes ``frozen_outputs.npz`` beside this file, with the
settings of XLA that the tests use. Run it only to record a change of the numbers that is meant.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

import jax
import numpy as np

from lisdd_jax import (
    Config,
    adjust_p_values,
    chi2_logsf,
    chi2_sf,
    diagnose,
    diagnose_regions,
    f_logsf,
    f_sf,
    f_test,
    fit_clean_regime,
    fit_trimmed,
    predict,
    select_form,
    supports,
)

PATH = Path(__file__).with_suffix(".npz")


class Group(NamedTuple):
    """Problems of one shape and floating-point type, so that they share compiled programs."""

    num: int
    num_rows: int
    num_physics: int
    num_terms: int
    num_cells: int
    max_terms: int
    dtype: type
    regions: bool


GROUPS = {
    "oscillator": Group(8, 2048, 2, 5, 14, 2, np.float64, True),
    "line": Group(18, 300, 2, 3, 8, 2, np.float64, True),
    "four": Group(16, 500, 4, 6, 12, 3, np.float64, False),
    "single": Group(8, 300, 2, 3, 8, 2, np.float32, False),
}


class Problem(NamedTuple):
    """One data set with its cells, key and settings."""

    design: np.ndarray
    response: np.ndarray
    axis: np.ndarray
    features: np.ndarray
    mask: np.ndarray
    edges: np.ndarray | None
    seed: int
    config: Config


def names() -> Iterator[tuple[str, int]]:
    """Group and number of every problem."""
    for name, group in GROUPS.items():
        for i in range(group.num):
            yield name, i


def make(name: str, i: int) -> Problem:
    """A problem: ordinary data, and by its number one or another awkward feature."""
    group = GROUPS[name]
    seed = 1000 * list(GROUPS).index(name) + i
    rng = np.random.default_rng(seed)
    n, p = group.num_rows, group.num_physics
    axis = rng.uniform(-2, 2, n)
    edges = np.linspace(-2, 2, group.num_cells + 1)
    if i % 4 == 1:
        axis = 2 * np.tanh(1.5 * rng.normal(size=n))
        inner = np.quantile(axis, np.linspace(0, 1, group.num_cells + 1))[1:-1]
        edges = np.array([-2.0, *inner, 2.0])
    if i % 5 == 2:
        # Many rows lie on edges, and some cells hold no row.
        axis = np.round(axis * 4) / 4
    design = np.column_stack([np.ones(n), axis, *rng.normal(size=(p - 2, n))])
    others = rng.normal(size=(2, n))
    columns = [axis**2, axis**3, np.sin(2 * axis), others[0], others[0] * axis, others[1]]
    features = np.column_stack(columns[: group.num_terms])
    weight = [1.5, 0.3, 0.0, 4.0][i % 4]
    inside = (axis > 0.5) & (axis < 1.6)
    noise = [rng.normal(size=n), rng.standard_t(3, n)][i % 6 == 3]
    response = design @ np.arange(1.0, p + 1) + np.where(inside, weight * features[:, 1], 0.0)
    response = response + 0.3 * noise
    mask = np.ones(n, bool)
    if i % 3 == 1:
        mask = rng.random(n) < [0.9, 0.6][i % 2]
    if i % 6 == 5:
        mask = (np.arange(n) >= 7) & (np.arange(n) < n - 40)
    match i % 8:
        case 4:
            # Nearly a twin: of exact ones rounding chooses.
            features[:, 2] = features[:, 0] + 1e-3 * rng.normal(size=n)
        case 5:
            features[:, -1] = 0.0
        case 6:
            response = np.round(response, 1)
        case 7:
            design[:, 1] += 1e4
            response += 300.0
    if i == 11 and not group.regions:
        response = design @ np.arange(1.0, p + 1)
    if i == 13:
        design[:, -1] = 2 * design[:, 0]
    if i == 15:
        mask = np.arange(n) < 30
    design[~mask], response[~mask] = np.nan, np.nan
    alpha_cell, trim = [1e-3, 0.01][i % 2], [0.36, 0.2, 0.5][i % 3]
    config = Config.paper(
        num_cells=group.num_cells,
        max_terms=group.max_terms,
        num_starts=40,
        alpha_cell=alpha_cell,
        trim=trim,
        tolerance=[0.15, 0.0][i % 7 == 6],
    )
    arrays = (array.astype(group.dtype) for array in (design, response, axis, features))
    covering = i % 4 == 0 and i % 5 != 2
    return Problem(*arrays, mask, None if covering else edges.astype(group.dtype), seed, config)


def _leaves(prefix: str, tree: Any) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(tree, jax.Array):
        value = np.asarray(tree)
        # Masks of rows are long.
        packed = value.dtype == bool and value.size > 100
        yield prefix, np.packbits(value) if packed else value
        return
    for name, part in vars(tree).items():
        yield from _leaves(f"{prefix}.{name}", part)


def outputs(name: str, i: int) -> dict[str, np.ndarray]:
    """All that is recorded of one problem, by name."""
    group, problem = GROUPS[name], make(name, i)
    design, response, axis, features, mask, edges, seed, config = problem
    key, dtype = jax.random.key(seed), group.dtype
    found = diagnose(
        design, response, axis, features, key=key, config=config, edges=edges, mask=mask
    )
    rows = slice(0, 40, 4)
    fresh = np.random.default_rng(seed).uniform(-3, 3, (10, group.num_terms)).astype(dtype)
    place = np.linspace(-2.5, 2.5, 10).astype(dtype)
    new = np.nan_to_num(design[rows])
    bounds = np.append(np.asarray(found.cells.lower), np.asarray(found.cells.upper[-1]))
    cell = np.clip(np.searchsorted(bounds, axis, side="right") - 1, 0, group.num_cells - 1)
    half = np.arange(group.num_rows) % 2 == 0
    inside = mask & (axis > 0.4)
    extra = np.where(inside[:, None], features[:, :2], 0).astype(dtype)
    start = np.arange(1.0, group.num_physics + 1).astype(dtype)
    trees = {
        "diagnose": found,
        "predict": predict(found, new, place, fresh),
        "fit_trimmed": fit_trimmed(
            design, response, key=key, trim=config.trim, num_starts=60, mask=mask
        ),
        "fit_clean_regime": fit_clean_regime(
            design, response, cell, start, num_cells=group.num_cells, config=config, mask=mask
        ),
        "select_form": select_form(
            features,
            response,
            inside & half,
            inside & ~half,
            max_terms=config.max_terms,
            tolerance=config.tolerance,
        ),
        "f_test": f_test(design, extra, response, mask=mask & half),
    }
    if group.regions:
        trees["diagnose_regions"] = diagnose_regions(
            design,
            response,
            axis,
            features,
            np.array([-1.5, 0.5], dtype),
            np.array([-0.5, 2.0], dtype),
            key=key,
            config=config,
            scale=("all", "clean")[i % 2],
            edges=edges,
            mask=mask,
        )
    return {path: leaf for part, tree in trees.items() for path, leaf in _leaves(part, tree)}


def shared_outputs() -> dict[str, np.ndarray]:
    """What does not belong to one problem: tails, adjusted p-values, tables of supports."""
    x, df_num, df_den = np.meshgrid([0.01, 0.5, 1.0, 3.0, 40.0, 900.0], [1, 2, 7, 300], [3, 2990])
    tails: dict[str, Callable[[], jax.Array]] = {
        "chi2_logsf": lambda: chi2_logsf(x * df_num, df_num.astype(float)),
        "chi2_sf": lambda: chi2_sf(x * df_num, df_num.astype(float)),
        "f_logsf": lambda: f_logsf(x, df_num.astype(float), df_den.astype(float)),
        "f_sf": lambda: f_sf(x, df_num.astype(float), df_den.astype(float)),
    }
    found = {name: np.asarray(tail()) for name, tail in tails.items()}
    p_values = np.random.default_rng(0).uniform(size=12) ** 3
    p_values[4] = np.nan
    for method in ("bh", "by"):
        found[f"adjust_p_values.{method}"] = np.asarray(adjust_p_values(p_values, method=method))
    for num, most in ((1, 1), (5, 2), (6, 3), (4, 9)):
        found[f"supports.{num}.{most}"] = supports(num, most)
    return found


def read() -> dict[str, np.ndarray]:
    """The record: ``"group/path"`` holds one row per problem of the group."""
    with np.load(PATH) as record:
        return {name: record[name] for name in record.files}


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    record = {f"shared/{path}": value for path, value in shared_outputs().items()}
    for name, group in GROUPS.items():
        found = [outputs(name, i) for i in range(group.num)]
        record |= {f"{name}/{path}": np.stack([one[path] for one in found]) for path in found[0]}
        kinds = [found[0][f"diagnose.{part}"].dtype for part in ("coefficients", "status")]
        counts = {
            part: np.unique(record[f"{name}/diagnose.{part}"], return_counts=True)
            for part in ("verdict", "status")
        }
        print(name, kinds, counts)
    np.savez_compressed(PATH, **record)
    print(f"{len(record)} arrays, {PATH.stat().st_size} bytes; jax {jax.__version__}")


if __name__ == "__main__":
    main()
