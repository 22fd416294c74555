"""Figures of the default method on simulated data, with standard errors.

Run ``python benchmarks/default_figures.py`` (about ten minutes on two cores); ``--replications``
changes the size, ``--only NAME`` runs one table: testbed, grid, share, libraries, rows or null.
"""

import argparse
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import Config, Verdict, predict
from lisdd_jax.study.engine import run_study
from lisdd_jax.study.experiments import metrics, pipeline, scenarios
from lisdd_jax.study.experiments import oscillator_runs as runs

COLUMNS = (
    "physics_bias",
    "iou",
    "edge_error",
    "f1_centre",
    "forms",
    "rmse",
    "certified",
    "abstained",
    "confident_error",
)
WIDTHS, BETAS = (0.6, 1.0, 1.4), (0.1, 0.15, 0.2, 0.3)
SHARES = (0.5, 0.36, 0.25, 0.18, 0.12, 0.08, 0.05, 0.02)


@lru_cache
def simulator(num_rows: int, library: str) -> Any:
    """The oscillator; the level of the method is no matter of the data."""
    simulate = scenarios.oscillator(num_rows, library)
    return lambda key, alpha, **params: simulate(key, **params)


@lru_cache
def evaluator(num_rows: int) -> Any:
    """Metrics of the regions found, of the verdict, and of a forecast."""
    simulate = scenarios.oscillator(num_rows)

    def evaluate(
        sample: Any, key: jax.Array, alpha: jax.Array, **params: Any
    ) -> dict[str, jax.Array]:
        key_fit, key_fresh = jax.random.split(key)
        config = Config(alpha=alpha)
        found = pipeline.diagnose_sample(key_fit, sample, config=config, edges=runs.edges())
        own = metrics.diagnosis_metrics(found, sample)
        truth = sample.support[0]
        same = jnp.all((found.regions.support == truth) | ~found.regions.present[:, None])
        forms = same & jnp.any(found.regions.present)
        certified = found.verdict == Verdict.DISCREPANCY
        testable = ~jnp.isnan(found.cells.p_value)
        out = {name: own[name] for name in COLUMNS[:4]}
        if truth.shape == (6,):
            fresh = simulate(key_fresh, **params)
            forecast = predict(found, fresh.design, fresh.axis, fresh.features)
            out["rmse"] = metrics.rmse(forecast, fresh)
        return out | {
            "forms": forms,
            "certified": certified,
            "abstained": own["abstention_rate"],
            "confident_error": certified & ~forms,
            "failed": ~forms,
            "clean": found.verdict == Verdict.CLEAN,
            "rejected": found.test.reject,
            "flag_rate": jnp.sum(found.cells.flagged & testable) / jnp.sum(testable),
            "status": found.status,
        }

    return evaluate


def study(
    cells: list[dict[str, float]],
    replications: int,
    num_rows: int = 6000,
    library: str = "six",
) -> Iterator[tuple[dict[str, float], dict[str, tuple[float, float]]]]:
    """Mean and standard error of every metric for a list of cells of numbers."""
    result = run_study(
        simulator(num_rows, library),
        evaluator(num_rows),
        grid={name: np.array([cell[name] for cell in cells]) for name in cells[0]},
        num_replications=replications,
        key=jax.random.key(2024),
        paired=True,
    )
    for number, cell in enumerate(cells):
        found = result.cells[number].metrics
        yield cell, {name: (m.mean, m.standard_error) for name, m in found.items()}


def show(title: str, table: Any, columns: tuple[str, ...] = COLUMNS) -> None:
    print(f"\n{title}\n  " + " ".join(f"{name:>17s}" for name in columns))
    for cell, found in table:
        values = (found.get(name, (np.nan, np.nan)) for name in columns)
        text = " ".join(f"{mean:9.4f} ({error:.4f})" for mean, error in values)
        print(f"  {text}  " + " ".join(f"{k}={v:.3g}" for k, v in cell.items()), flush=True)


def band(
    beta: float, width: float, lower: float = 1.7, scale: float = 0.3, alpha: float = 0.05
) -> dict[str, float]:
    return {"beta": beta, "width": width, "lower": lower, "scale": scale, "alpha": alpha}


def testbed(replications: int) -> None:
    show("E1 and E4, and a small term", study([band(0.2, 1.0), band(0.01, 1.0)], replications))


def grid(replications: int) -> None:
    every = [(width, beta) for width in WIDTHS for beta in BETAS]
    for title, cells in (
        ("phase grid, band from 1.7", [band(b, w) for w, b in every]),
        ("phase grid, band about 2.2", [band(b, w, 2.2 - w / 2) for w, b in every]),
    ):
        show(title, study(cells, replications))


def share(replications: int) -> None:
    cells = [band(beta, 3.3 * (1 - share), 3.3 * share) for share in SHARES for beta in (0.1, 0.2)]
    show("clean share = lower / 3.3", study(cells, replications))


def libraries(replications: int) -> None:
    for name in ("ten", "eight_linear_cosine", "eight_saturation_sign", "eight_odd_powers"):
        cells = [band(0.1, 1.0), band(0.2, 1.0)]
        show(f"library {name}", study(cells, replications, library=name))


def rows(replications: int) -> None:
    for num_rows in (600, 2000):
        cells = [band(0.2, 1.0), band(0.2, 1.0, scale=0.5)]
        show(f"{num_rows} rows", study(cells, replications, num_rows))


def null(replications: int) -> None:
    columns = ("flag_rate", "rejected", "clean", "certified", "abstained")
    for num_rows in (150, 600, 6000):
        cells = [band(0.0, 1.0, alpha=alpha) for alpha in (0.001, 0.01, 0.05)]
        show(f"null, {num_rows} rows", study(cells, replications, num_rows), columns)


TABLES = {f.__name__: f for f in (testbed, grid, share, libraries, rows, null)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--only", choices=TABLES)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name, table in TABLES.items():
        if options.only in (None, name):
            table(options.replications)


if __name__ == "__main__":
    main()
