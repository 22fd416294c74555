"""E3: size and power of the certificate, of the naive test, and of both with a forced region."""

from typing import Any

import numpy as np

from lisdd_jax.study.engine import MetricSummary, StudyResult
from lisdd_jax.study.experiments import oscillator_runs as runs
from lisdd_jax.study.experiments import scenarios
from lisdd_jax.study.experiments.rows import (
    Published,
    Row,
    Tables,
    key_of,
    make_row,
    summarize_values,
)
from lisdd_jax.study.experiments.setup import Experiment, Setup, count_statuses

_BETAS = (0.0, 0.1, 0.2)
_GRID = {"beta": list(_BETAS), "width": [1.0]}
_RATES = {"split": "rejection_rate", "naive": "naive_rejection_rate"}
_LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5)
_FORCED_FACTOR = 5
"""The forced study has so many times the replications: its rates are what is to be estimated."""

_TABLE = "table of E3 (tab:detection)"
_PIPELINE_SIZE = (
    "this is the probability that some bin of split A is flagged and that the test then rejects,"
    " not the size of the test, which is alpha (see conditional_rejection_rate)"
)
_TABLES = Tables(
    published={
        key_of("lisdd", "rejection_rate", beta=beta, test="split"): Published(
            value=value, decimals=3, source=_TABLE
        )
        for beta, value in zip(_BETAS, (0.0, 1.0, 1.0), strict=True)
    },
    reasons={key_of("lisdd", "rejection_rate"): _PIPELINE_SIZE},
    cautions={
        key_of("lisdd", "rejection_rate", beta=0.0, test="split"): _PIPELINE_SIZE,
        key_of("lisdd", "conditional_rejection_rate", beta=0.0, test="split"): (
            "region forced to the most energetic bin of split A: exact size, alpha = 0.05"
        ),
        key_of("lisdd", "conditional_rejection_rate", beta=0.0, test="naive"): (
            "region and form chosen on the rows of the test: the size that selection costs"
        ),
    },
)


def _measure(setup: Setup) -> dict[str, Any]:
    """Rates of the whole pipeline, given a flagged cell, and with the region forced.

    ``rejection_rate`` of the whole pipeline, ``flagged_rejection_rate`` given that it flagged a
    cell, ``conditional_rejection_rate`` with the region forced, and the uniformity of the forced
    p-values under the null.
    """
    rows: list[Row] = []
    statuses: list[dict[str, Any]] = []
    for mode in setup.modes:
        whole, forced = _studies(setup, mode)
        statuses += count_statuses(f"E3 {mode}", whole)
        for i in range(len(_BETAS)):
            rows += _rates(whole, forced, mode, i)
        for test in _RATES:
            rows += _uniformity(forced.records[f"p_value_{test}"][0, 0], mode, test)
    settings = {"grid": _GRID, "forced_replications": _FORCED_FACTOR * setup.num_replications}
    return {"settings": settings, "rows": rows, "statuses": statuses}


def _studies(setup: Setup, mode: str) -> tuple[StudyResult, StudyResult]:
    """The whole pipeline, and the tests with the region forced."""
    config = setup.config(mode)
    whole = setup.study(
        f"E3 {mode}",
        scenarios.oscillator(setup.num_rows),
        runs.pipeline_evaluator(config, setup.num_rows),
        _GRID,
        keep_records=True,
    )
    forced = setup.study(
        f"E3 forced {mode}",
        scenarios.oscillator(setup.num_rows_forced),
        runs.forced_evaluator(config),
        _GRID,
        factor=_FORCED_FACTOR,
        keep_records=True,
    )
    return whole, forced


def _rates(whole: StudyResult, forced: StudyResult, mode: str, i: int) -> list[Row]:
    """How often cells are flagged and tests reject at effect ``i``."""
    where: dict[str, Any] = {"mode": mode, "method": "lisdd", "beta": _BETAS[i]}
    flagged = whole.records["flagged_rate"][i, 0] > 0
    rate = whole.cells[i].metrics["flagged_rate"]
    rows = [make_row(_TABLES, rate, metric="flagged_rate", **where)]
    for test, metric in _RATES.items():
        overall = whole.cells[i].metrics[metric]
        given = summarize_values(whole.records[metric][i, 0][flagged])
        conditional = forced.cells[i].metrics[f"reject_{test}"]
        rows += [
            make_row(_TABLES, overall, metric="rejection_rate", test=test, **where),
            make_row(_TABLES, conditional, metric="conditional_rejection_rate", test=test, **where),
            make_row(_TABLES, given, metric="flagged_rejection_rate", test=test, **where),
        ]
    return rows


def _uniformity(p_values: np.ndarray, mode: str, test: str) -> list[Row]:
    """How far null p-values are from uniform: shares below levels, and the Kolmogorov distance."""
    p_values = np.asarray(p_values, np.float64)
    p_values = p_values[np.isfinite(p_values)]
    where: dict[str, Any] = {"mode": mode, "method": "lisdd", "beta": 0.0, "test": test}
    rows = [
        make_row(
            _TABLES,
            summarize_values((p_values < level).astype(float)),
            metric="p_value_share_below",
            level=level,
            **where,
        )
        for level in _LEVELS
    ]
    # Imported here, since it takes longer to import than all else that a diagnosis needs.
    from scipy import stats

    outcome = stats.kstest(p_values, "uniform")
    for metric, value in (("ks_distance", outcome.statistic), ("ks_p_value", outcome.pvalue)):
        rows.append(make_row(_TABLES, _single(float(value), p_values.size), metric=metric, **where))
    return rows


def _single(value: float, count: int) -> MetricSummary:
    """A statistic of all replications together: it has no standard error."""
    return MetricSummary(
        mean=value,
        standard_error=float("nan"),
        count=count,
        num_nan=0,
        num_infinite=0,
        minimum=value,
        maximum=value,
    )


E3 = Experiment(name="E3", title="Calibrated detection", tables=_TABLES, measure=_measure)
