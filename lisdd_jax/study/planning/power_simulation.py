"""A power plan confirmed by simulation: the certificate alone, and the whole pipeline."""

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.results import in_interval
from lisdd_jax.statistics.f_tests import partial_f
from lisdd_jax.study.engine import StudyResult, run_study
from lisdd_jax.study.experiments import pipeline
from lisdd_jax.study.experiments.scenarios import Sample
from lisdd_jax.study.planning.power import Effect


def edges_around(effect: Effect, num_cells: int) -> jax.Array:
    """Edges of cells on [0, 1] of which the first few make up the region exactly.

    Args:
      effect: gives the share of the region and the cells in it.
      num_cells: of the axis, more than the region has.

    Returns:
      ``(num_cells + 1,)`` edges.
    """
    inner = jnp.linspace(0.0, effect.share, effect.cells_in_region + 1)
    outer = jnp.linspace(effect.share, 1.0, num_cells - effect.cells_in_region + 1)
    return jnp.concatenate([inner, outer[1:]])


@lru_cache
def effect_simulator(
    effect: Effect, num_rows: int, num_distractors: int = 3
) -> Callable[..., Sample]:
    """Data in which an effect is exactly as planned, driven by variables of its own.

    Regressors and candidate terms are independent standard normal. A term that the physics absorbs
    in part, to a share ``a``, is correlated with the first regressor: on all rows the region's term
    has correlation ``sqrt(share a')`` with it, with ``a'`` chosen so that the share is ``a``.

    Args:
      effect: size, share, and numbers of terms and of physics coefficients.
      num_rows: rows.
      num_distractors: candidate terms without effect.

    Returns:
      ``simulate(key) -> Sample``.

    Raises:
      ValueError: so much cannot be absorbed, as the term acts on a share of the rows only.
    """
    if effect.absorbed > effect.share:
        raise ValueError(
            "absorbed must be at most share, what a regressor on all rows can explain of a term"
            f" in the region, got {effect.absorbed} with share {effect.share}"
        )
    correlation = (effect.absorbed / effect.share) ** 0.5

    def simulate(key: jax.Array, **_: Any) -> Sample:
        key_axis, key_design, key_terms, key_noise = jax.random.split(key, 4)
        axis = jax.random.uniform(key_axis, (num_rows,))
        design = jax.random.normal(key_design, (num_rows, effect.num_physics))
        features = jax.random.normal(key_terms, (num_rows, effect.num_terms + num_distractors))
        first = correlation * design[:, 0] + (1 - correlation**2) ** 0.5 * features[:, 0]
        features = features.at[:, 0].set(first)
        signal = jnp.sum(features[:, : effect.num_terms], axis=1) / effect.num_terms**0.5
        return _sample_of(effect, key_noise, axis, design, features, signal)

    return simulate


@lru_cache
def axis_simulator(effect: Effect, num_rows: int) -> Callable[..., Sample]:
    """Data in which the missing terms are powers of the axis.

    Regressors are independent standard normal. Term ``j`` is ``sqrt(2 j + 1) (axis / share)^j``,
    whose mean square in the region is one. The other candidates are a sine and a cosine of the
    axis, and a variable of its own.

    Args:
      effect: size, share, and numbers of terms and of physics coefficients.
      num_rows: rows.

    Returns:
      ``simulate(key) -> Sample``.

    Raises:
      ValueError: part of the effect is absorbed, which regressors of this kind cannot do.
    """
    if effect.absorbed:
        raise ValueError(
            "absorbed must be 0 where the missing term is a function of the axis, which the"
            f" regressors of the simulation do not depend on, got {effect.absorbed}"
        )
    powers = jnp.arange(1.0, effect.num_terms + 1)
    scales = jnp.sqrt(2 * powers + 1)
    # E[f_j f_k] over the region, for the mean square of the sum of the terms.
    products = scales[:, None] * scales[None] / (powers[:, None] + powers[None] + 1)
    amplitude = 1 / jnp.sqrt(jnp.sum(products))

    def simulate(key: jax.Array, **_: Any) -> Sample:
        key_axis, key_design, key_terms, key_noise = jax.random.split(key, 4)
        axis = jax.random.uniform(key_axis, (num_rows,))
        design = jax.random.normal(key_design, (num_rows, effect.num_physics))
        terms = scales[None] * (axis[:, None] / effect.share) ** powers[None]
        own = jax.random.normal(key_terms, (num_rows,))
        others = [jnp.sin(2 * jnp.pi * axis), jnp.cos(2 * jnp.pi * axis), own]
        features = jnp.concatenate([terms, jnp.stack(others, axis=1)], axis=1)
        signal = amplitude * jnp.sum(terms, axis=1)
        return _sample_of(effect, key_noise, axis, design, features, signal)

    return simulate


def _sample_of(
    effect: Effect,
    key: jax.Array,
    axis: jax.Array,
    design: jax.Array,
    features: jax.Array,
    signal: jax.Array,
) -> Sample:
    """A sample with standard normal noise whose region is the start of the axis."""
    discrepancy = jnp.where(in_interval(axis, 0.0, effect.share), effect.size * signal, 0.0)
    physics = jnp.arange(1.0, effect.num_physics + 1)
    return Sample(
        design=design,
        response=design @ physics + discrepancy + jax.random.normal(key, axis.shape),
        axis=axis,
        features=features,
        discrepancy=discrepancy,
        coefficients=physics,
        lower=jnp.zeros(1),
        upper=jnp.full(1, effect.share),
        present=jnp.ones(1, bool),
        support=(jnp.arange(features.shape[1]) < effect.num_terms)[None],
    )


@lru_cache
def _power_evaluator(
    effect: Effect, config: Config | PublishedConfig
) -> Callable[..., dict[str, jax.Array]]:
    """Rejection given region and form, and by the whole pipeline."""

    def evaluate(sample: Sample, key: jax.Array, **_: Any) -> dict[str, jax.Array]:
        held_out = jnp.arange(len(sample.response)) % 2 == 1
        inside = in_interval(sample.axis, sample.lower[0], sample.upper[0])
        extra = jnp.where(inside[:, None] & sample.support[:1], sample.features, 0.0)
        known = partial_f(sample.design, extra, sample.response, held_out)
        edges = edges_around(effect, config.num_cells)
        found = pipeline.diagnose_sample(key, sample, config=config, edges=edges)
        true_cell = jnp.arange(config.num_cells) < effect.cells_in_region
        return {
            "certificate": known.log_p_value < jnp.log(effect.alpha),
            "localization": jnp.mean(found.test.flagged, where=true_cell),
            "whole": found.test.reject,
            "status": found.status,
        }

    return evaluate


def simulate_power(
    effect: Effect,
    num_rows: int,
    *,
    key: jax.Array,
    num_replications: int = 1000,
    config: Config | PublishedConfig | None = None,
    **options: Any,
) -> StudyResult:
    """Simulate what a power plan predicts.

    Args:
      effect: what is to be found.
      num_rows: rows of both halves together.
      key: typed key.
      num_replications: data sets.
      config: settings; its levels are set to those of the effect. ``Config.paper()`` where None.
      options: of ``run_study``.

    Returns:
      One cell with the metrics ``certificate`` (region and form given), ``localization`` (share of
      the region's cells that are flagged on one half) and ``whole`` (the pipeline rejects).

    Raises:
      ValueError: the region leaves no clean cell, or the effect cannot be simulated.
    """
    config = PublishedConfig() if config is None else config
    config = dataclasses.replace(config, alpha=effect.alpha, alpha_cell=effect.alpha_cell)
    check_cells(effect, config)
    return run_study(
        effect_simulator(effect, num_rows),
        _power_evaluator(effect, config),
        grid={"num_rows": [num_rows]},
        static=("num_rows",),
        num_replications=num_replications,
        key=key,
        **options,
    )


def check_cells(effect: Effect, config: Config | PublishedConfig) -> None:
    """Refuse a region that leaves no clean cell.

    Raises:
      ValueError: it does.
    """
    if effect.cells_in_region >= config.num_cells:
        raise ValueError(
            f"cells_in_region must leave a clean cell of {config.num_cells},"
            f" got {effect.cells_in_region}"
        )
