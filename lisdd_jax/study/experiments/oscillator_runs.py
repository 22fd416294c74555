"""The studies of the oscillator that E1 to E4 read: the pipeline, the baselines, a forced region.

Functions are cached by their settings, so that experiments share compiled programs.
"""

import dataclasses
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import prediction
from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.results import Diagnosis, in_interval
from lisdd_jax.statistics import holdout, splits
from lisdd_jax.statistics.f_tests import partial_f
from lisdd_jax.status import is_failure
from lisdd_jax.study.engine import StudyResult
from lisdd_jax.study.experiments import baselines, metrics, pipeline, scenarios
from lisdd_jax.study.experiments.scenarios import HALF_WIDTH, Sample
from lisdd_jax.study.experiments.setup import Setup

NUM_CELLS = 14
BASELINES = (
    "global_physics",
    "black_box",
    "global_sindy",
    "global_sindy_default",
    "ensemble_sindy",
    "joint",
)
"""Correctors of the oscillator; ``global_sindy_default`` has the usual software's threshold 0.1."""

Metrics = dict[str, jax.Array]


def edges() -> jax.Array:
    """The published cells: 14 of equal width over the domain."""
    return jnp.linspace(-HALF_WIDTH, HALF_WIDTH, NUM_CELLS + 1)


PUBLISHED_GRID = {"beta": [0.2], "width": [1.0]}
"""The one cell that E1 and E4 are about."""


@lru_cache(maxsize=1)
def study_published_cell(setup: Setup) -> tuple[StudyResult, dict[str, StudyResult]]:
    """The baselines and every mode at ``PUBLISHED_GRID``, run once for all that read them."""
    simulate = scenarios.oscillator(setup.num_rows)
    correct = baseline_evaluator(setup.num_rows, setup.num_bootstraps)
    baseline = setup.study("published cell, baselines", simulate, correct, PUBLISHED_GRID)
    modes = {
        mode: setup.study(
            f"published cell, {mode}",
            simulate,
            pipeline_evaluator(setup.config(mode), setup.num_rows),
            PUBLISHED_GRID,
        )
        for mode in setup.modes
    }
    return baseline, modes


LIBRARIES = tuple(name for name in scenarios.LIBRARIES if name != "all")
"""Candidate libraries of E2, numbered in this order."""


@lru_cache
def library_simulator(num_rows: int) -> Callable[..., Sample]:
    """The oscillator with one of ``LIBRARIES``, by number.

    All terms of all libraries are there, those of others as zero columns, which no support can
    hold: one compiled program serves every library.
    """
    terms = scenarios.LIBRARIES["all"].names
    members = [scenarios.LIBRARIES[name].names for name in LIBRARIES]
    table = np.array([[term in names for term in terms] for names in members])
    simulate_all = scenarios.oscillator(num_rows, "all")

    def simulate(key: jax.Array, *, library: jax.Array | int, **numbers: Any) -> Sample:
        sample = simulate_all(key, **numbers)
        kept = jnp.asarray(table)[library]
        return dataclasses.replace(sample, features=jnp.where(kept[None], sample.features, 0.0))

    return simulate


@lru_cache
def library_evaluator(config: Config | PublishedConfig) -> Callable[..., Metrics]:
    """Form recovery alone."""

    def evaluate(sample: Sample, key: jax.Array, **params: Any) -> Metrics:
        found = pipeline.diagnose_sample(key, sample, config=config, edges=edges())
        return {"form_recovery": metrics.form_recovered(found, sample), "status": found.status}

    return evaluate


def naive_rejection(found: Diagnosis, sample: Sample, alpha: jax.Array | float) -> jax.Array:
    """Whether the F-test rejects on the rows that chose region and form: the invalid shortcut."""
    inside = jnp.any(found.regions.contains(sample.axis), axis=0)
    extra = jnp.where(inside[:, None] & found.form.support[None], sample.features, 0.0)
    used = jnp.ones(len(sample.response), bool)
    test = partial_f(sample.design, extra, sample.response, used)
    return ~is_failure(test.status) & (test.log_p_value < jnp.log(alpha))


@lru_cache
def pipeline_evaluator(config: Config | PublishedConfig, num_rows: int) -> Callable[..., Metrics]:
    """All that E1 to E4 ask of the pipeline: its metrics, the naive test, and forecasts."""
    simulate = scenarios.oscillator(num_rows)

    def evaluate(sample: Sample, key: jax.Array, **params: Any) -> Metrics:
        key_fit, key_fresh = jax.random.split(key)
        found = pipeline.diagnose_sample(key_fit, sample, config=config, edges=edges())
        fresh = simulate(key_fresh, **params)
        corrected = prediction.predict(found, fresh.design, fresh.axis, fresh.features)
        return {
            **metrics.diagnosis_metrics(found, sample),
            "naive_rejection_rate": naive_rejection(found, sample, config.alpha),
            "rmse_uncorrected": metrics.rmse(fresh.design @ found.coefficients, fresh),
            "rmse_lisdd": metrics.rmse(corrected, fresh),
        }

    return evaluate


@lru_cache
def baseline_evaluator(num_rows: int, num_bootstraps: int) -> Callable[..., Metrics]:
    """Physics bias, form and forecast of the correctors that act everywhere, and of the oracle."""
    simulate = scenarios.oscillator(num_rows)

    def evaluate(sample: Sample, key: jax.Array, **params: Any) -> Metrics:
        key_ensemble, key_fresh = jax.random.split(key)
        fresh = simulate(key_fresh, **params)
        models = {
            "global_physics": baselines.global_physics(sample),
            "black_box": baselines.black_box(sample),
            "global_sindy": baselines.global_sparse(sample, 1.0),
            "global_sindy_default": baselines.global_sparse(sample, 0.1),
            "ensemble_sindy": baselines.ensemble_sparse(
                key_ensemble, sample, 1.0, num_bootstraps=num_bootstraps
            ),
            "joint": baselines.joint(sample),
        }
        truth = metrics.cells_inside(edges(), sample, by="centre")
        overlapping = metrics.cells_inside(edges(), sample, by="overlap")
        everywhere = jnp.ones(NUM_CELLS, bool)
        out = {
            "f1_centre_everywhere": metrics.f1_score(everywhere, truth),
            "f1_overlap_everywhere": metrics.f1_score(everywhere, overlapping),
            "rmse_oracle": metrics.rmse(baselines.oracle(sample, fresh), fresh),
        }
        for name, model in models.items():
            bias = jnp.abs(model.coefficients[0] - sample.coefficients[0])
            out[f"physics_bias_{name}"] = bias
            out[f"form_recovery_{name}"] = jnp.all((model.weights != 0) == sample.support[0])
            out[f"num_terms_{name}"] = jnp.sum(model.weights != 0)
            out[f"rmse_{name}"] = metrics.rmse(baselines.forecast(model, fresh), fresh)
        return out

    return evaluate


def _forced_test(
    inputs: tuple[jax.Array, jax.Array, jax.Array],
    sample: Sample,
    config: Config | PublishedConfig,
) -> jax.Array:
    """P-value of the F-test of the best form in the most energetic cell of the rows in ``choose``.

    The test runs on the rows in ``test``.
    """
    key, choose, test = inputs
    key_fit, key_half = jax.random.split(key)
    found = pipeline.diagnose_sample(key_fit, sample, config=config, edges=edges(), mask=choose)
    evidence = found.cells.log_p_value
    cell = jnp.argmin(jnp.where(jnp.isnan(evidence), jnp.inf, evidence))
    lower, upper = found.cells.lower[cell], found.cells.upper[cell]
    inside = in_interval(sample.axis, lower, upper)
    residuals = sample.response - sample.design @ found.coefficients
    chosen, _ = holdout.select_by_chance(
        key_half,
        sample.features,
        residuals,
        inside & choose,
        config.max_terms,
        jnp.asarray(config.tolerance, residuals.dtype),
    )
    extra = jnp.where(inside[:, None] & chosen.support[None], sample.features, 0.0)
    return partial_f(sample.design, extra, sample.response, test).p_value


@lru_cache
def forced_evaluator(config: Config | PublishedConfig) -> Callable[..., Metrics]:
    """The split and the naive test with the region forced to the most energetic cell."""

    def evaluate(sample: Sample, key: jax.Array, **params: Any) -> Metrics:
        key_half, key_tests = jax.random.split(key)
        everything = jnp.ones(len(sample.response), bool)
        half = splits.random_half(key_half, everything)
        inputs = (
            jax.random.split(key_tests),
            jnp.stack([half, everything]),
            jnp.stack([~half, everything]),
        )
        p_values = jax.lax.map(partial(_forced_test, sample=sample, config=config), inputs)
        reject = jnp.where(
            jnp.isnan(p_values), jnp.nan, (p_values < config.alpha).astype(p_values.dtype)
        )
        return {
            "p_value_split": p_values[0],
            "p_value_naive": p_values[1],
            "reject_split": reject[0],
            "reject_naive": reject[1],
        }

    return evaluate
