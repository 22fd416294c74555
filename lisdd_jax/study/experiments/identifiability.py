"""E1: identifiable physics and localization on the oscillator."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.numerics import cell_sums
from lisdd_jax.statistics.partition import cell_index
from lisdd_jax.study.engine import StudyResult
from lisdd_jax.study.experiments import oscillator_runs as runs
from lisdd_jax.study.experiments import pipeline, scenarios
from lisdd_jax.study.experiments.rows import (
    Published,
    Row,
    Tables,
    key_of,
    make_row,
    summarize_values,
)
from lisdd_jax.study.experiments.setup import Experiment, Setup, count_statuses

_TABLE = "table of E1 (tab:baselines)"
_PRINTED = {
    "black_box": (0.432, 0.00, 0.00),
    "global_sindy": (0.432, 0.44, 0.00),
    "ensemble_sindy": (0.431, 0.44, 0.00),
}
_PUBLISHED = {
    key_of("lisdd", "physics_bias"): Published(
        value=0.002, decimals=3, source=_TABLE, in_text=(0.0025, 4)
    ),
    key_of("lisdd", "f1_centre"): Published(value=0.80, decimals=2, source=_TABLE),
    key_of("lisdd", "form_recovery"): Published(value=1.0, decimals=2, source=_TABLE),
}
for _method, (_bias, _f1, _form) in _PRINTED.items():
    _PUBLISHED |= {
        key_of(_method, "physics_bias"): Published(value=_bias, decimals=3, source=_TABLE),
        key_of(_method, "f1_centre"): Published(value=_f1, decimals=2, source=_TABLE),
        key_of(_method, "form_recovery"): Published(value=_form, decimals=2, source=_TABLE),
    }

_CONVENTION = (
    "by the published convention a sparse global correction counts as flagging every bin, whether"
    " or not a term survives the threshold"
)
_TABLES = Tables(
    published=_PUBLISHED,
    reasons={
        key_of(method, "physics_bias"): (
            "the global fit absorbs the cubic term to the same 0.43; the printed third decimal is"
            " within what sample size and seeds move it"
        )
        for method in _PRINTED
    },
    cautions={
        key_of("lisdd", "f1_centre"): (
            "a bin counts as discrepant where its centre lies in the band, 4 of 14; the six bins"
            " flagged are exactly those that overlap it, which scores 1.00 (f1_overlap)"
        ),
        key_of("global_sindy", "f1_centre"): _CONVENTION,
        key_of("ensemble_sindy", "f1_centre"): _CONVENTION,
        key_of("black_box", "f1_centre"): "a dense correction counts as flagging no bin",
        key_of("global_sindy", "num_terms"): (
            "at the printed threshold of 1.0 no term survives, so nothing is corrected"
        ),
    },
)

_LISDD = (
    "physics_bias",
    "f1_centre",
    "f1_overlap",
    "iou",
    "edge_error",
    "form_recovery",
    "abstention_rate",
    "scale",
)
_FLAGS_NOTHING = ("black_box",)
"""Correctors that name no region at all."""


def _measure(setup: Setup) -> dict[str, Any]:
    """Rows for LISDD in every mode, and for the correctors that act everywhere."""
    baseline, modes = runs.study_published_cell(setup)
    rows: list[Row] = []
    statuses: list[dict[str, Any]] = []
    for mode, result in modes.items():
        statuses += count_statuses(f"E1 {mode}", result)
        found = result.cells[0].metrics
        rows += [
            make_row(_TABLES, found[metric], mode=mode, method="lisdd", metric=metric)
            for metric in _LISDD
        ]
        rows += _baseline_rows(baseline, mode)
    return {
        "settings": {"grid": runs.PUBLISHED_GRID},
        "rows": rows,
        "statuses": statuses,
        "illustration": _illustrate(setup),
    }


def _baseline_rows(result: StudyResult, mode: str) -> list[Row]:
    found = result.cells[0].metrics
    rows = []
    for method in runs.BASELINES:
        for metric in ("physics_bias", "form_recovery", "num_terms"):
            summary = found[f"{metric}_{method}"]
            rows.append(make_row(_TABLES, summary, mode=mode, method=method, metric=metric))
        for metric in ("f1_centre", "f1_overlap"):
            summary = found[f"{metric}_everywhere"]
            if method in _FLAGS_NOTHING or method == "global_physics":
                summary = summarize_values(np.zeros(summary.count))
            rows.append(make_row(_TABLES, summary, mode=mode, method=method, metric=metric))
    return rows


def _illustrate(setup: Setup) -> dict[str, Any]:
    """The map over the axis for one data set, and the true term."""
    simulate = scenarios.oscillator(setup.num_rows)

    @jax.jit
    def one(key: jax.Array) -> dict[str, jax.Array]:
        key_data, key_fit = jax.random.split(key)
        sample = simulate(key_data, beta=0.2, width=1.0)
        found = pipeline.diagnose_sample(
            key_fit, sample, config=setup.config(setup.modes[0]), edges=runs.edges()
        )
        cells = found.cells
        used = jnp.ones(setup.num_rows, bool)
        index = cell_index(sample.axis, runs.edges(), used)
        totals = cell_sums.cell_totals(sample.discrepancy[:, None], index, runs.NUM_CELLS)[:, 0]
        return {
            "lower": cells.lower,
            "upper": cells.upper,
            "count": cells.count,
            "rms": cells.rms,
            "mean": cells.mean,
            "flagged": cells.flagged,
            "true_mean": totals / jnp.maximum(cells.count, 1).astype(totals.dtype),
            "scale": found.scale,
        }

    arrays = one(jax.random.key(setup.seed))
    return {"beta": 0.2, "band": [1.7, 2.7], **{k: v.tolist() for k, v in arrays.items()}}


E1 = Experiment(
    name="E1", title="Identifiable physics and localization", tables=_TABLES, measure=_measure
)
