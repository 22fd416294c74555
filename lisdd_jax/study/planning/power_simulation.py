"""A power plan confirmed by simulation: the certificate alone, and the whole pipeline."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax import detection
from lisdd_jax.config import Config
from lisdd_jax.study.engine import run_study
from lisdd_jax.study.engine.summary import StudyResult
from lisdd_jax.study.experiments import pipeline
from lisdd_jax.study.experiments.scenarios import Sample
from lisdd_jax.study.planning.power import Effect


def layout(effect: Effect, num_cells: int) -> jax.Array:
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
def simulator(effect: Effect, num_rows: int, num_distractors: int = 3) -> Callable[..., Sample]:
    """Data in which an effect is exactly as planned.

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
        shape = (num_rows, effect.num_terms + num_distractors)
        features = jax.random.normal(key_terms, shape)
        first = correlation * design[:, 0] + (1 - correlation**2) ** 0.5 * features[:, 0]
        features = features.at[:, 0].set(first)
        inside = axis < effect.share
        signal = jnp.sum(features[:, : effect.num_terms], axis=1) / effect.num_terms**0.5
        discrepancy = jnp.where(inside, effect.size * signal, 0.0)
        physics = jnp.arange(1.0, effect.num_physics + 1)
        noise = jax.random.normal(key_noise, (num_rows,))
        return Sample(
            design=design,
            response=design @ physics + discrepancy + noise,
            axis=axis,
            features=features,
            discrepancy=discrepancy,
            coefficients=physics,
            lower=jnp.zeros(1),
            upper=jnp.full(1, effect.share),
            present=jnp.ones(1, bool),
            support=(jnp.arange(shape[1]) < effect.num_terms)[None],
        )

    return simulate


@lru_cache
def evaluator(effect: Effect, config: Config) -> Callable[..., dict[str, jax.Array]]:
    """Rejection given region and form, and by the whole pipeline."""

    def evaluate(sample: Sample, key: jax.Array, **_: Any) -> dict[str, jax.Array]:
        held_out = jnp.arange(len(sample.response)) % 2 == 1
        inside = sample.axis < effect.share
        extra = jnp.where(inside[:, None] & sample.support[0], sample.features, 0.0)
        known = detection.partial_f(sample.design, extra, sample.response, held_out)
        edges = layout(effect, config.num_cells)
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
    config: Config | None = None,
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
    config = pipeline.config_of("paper") if config is None else config
    if effect.cells_in_region >= config.num_cells:
        raise ValueError(
            f"cells_in_region must leave a clean cell of {config.num_cells},"
            f" got {effect.cells_in_region}"
        )
    levels = {"alpha": effect.alpha, "alpha_cell": effect.alpha_cell}
    config = type(config)(**{**vars(config), **levels})
    return run_study(
        simulator(effect, num_rows),
        evaluator(effect, config),
        grid={"num_rows": [num_rows]},
        static=("num_rows",),
        num_replications=num_replications,
        key=key,
        **options,
    )
