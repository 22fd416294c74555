"""The published method on one data set: all stages, as printed.

The physics is fitted and the cells are flagged on all rows. For the certificate the same stages run
on a random half, and the other half tests what they chose.

References:
  docs/method.md, algorithm 1.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax.config import PublishedConfig
from lisdd_jax.dataset import Dataset
from lisdd_jax.published.certificate import certify
from lisdd_jax.published.form import choose_each, make_form
from lisdd_jax.published.physics import fit_each
from lisdd_jax.published.regions import make_cells, make_regions
from lisdd_jax.results import (
    Certificate,
    Dependence,
    Diagnosis,
    Exactness,
    Form,
    Place,
    Rival,
    Verdict,
    verdict_unless_failed,
)
from lisdd_jax.statistics.splits import random_halves
from lisdd_jax.status import Status, is_failure


def decide(status: jax.Array, form: Form, test: Certificate, flagged: jax.Array) -> jax.Array:
    """The verdict of a diagnosis.

    Args:
      status: of the stages before the form.
      form: the missing mechanism.
      test: the certificate.
      flagged: ``(R,)`` bool, cells called discrepant on all rows.

    Returns:
      int32, a ``Verdict``.
    """
    any_flagged = jnp.any(flagged)
    found = jnp.where(test.reject, int(Verdict.DISCREPANCY), int(Verdict.NOT_CERTIFIED))
    found = jnp.where(is_failure(form.status), int(Verdict.NOT_IDENTIFIABLE), found)
    verdict = jnp.where(any_flagged | test.reject, found, int(Verdict.CLEAN))
    # A certificate for a region that the full data do not show is no certificate of the report.
    verdict = jnp.where(test.reject & ~any_flagged, int(Verdict.NOT_CERTIFIED), verdict)
    # Half of the rows could not even be fitted, so nothing was tried on them.
    untried = test.status == Status.TOO_FEW_ROWS
    verdict = jnp.where(untried, int(Verdict.INSUFFICIENT_DATA), verdict)
    return verdict_unless_failed(status, verdict)


def _not_asked(data: Dataset, lower: jax.Array) -> dict[str, Any]:
    """Answers to what only the default method asks: unknown; ``lower (K,)`` of the regions."""
    dtype = data.response.dtype
    unknown, no = jnp.full((), jnp.nan, dtype), jnp.zeros((), bool)
    return {
        "place": Place(
            p_value=unknown,
            log_p_value=unknown,
            certified=no,
            region_log_p_value=jnp.full_like(lower, jnp.nan),
        ),
        "exactness": Exactness(
            statistic=unknown, p_value=unknown, log_p_value=unknown, lower=unknown, upper=unknown
        ),
        "law_scatter": unknown,
        "rival": Rival(
            share=unknown,
            coefficients=jnp.full(data.design.shape[1], jnp.nan, dtype),
            gap=unknown,
        ),
        "everywhere": jnp.zeros(data.features.shape[1], bool),
        "dependence": Dependence(
            axis_correlation=unknown,
            record_correlation=unknown,
            rows=unknown,
            repeated=unknown,
            significant=no,
        ),
        "outliers": jnp.zeros(data.response.shape, bool),
    }


def run(key: jax.Array, data: Dataset, before: jax.Array, config: PublishedConfig) -> Diagnosis:
    """Diagnose a data set.

    Args:
      key: typed key of starts and splits.
      data: the data set.
      before: its status.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Diagnosis``.
    """
    # One call for all stages: every call of the generator costs time to compile.
    keys = jax.random.split(key, 5)
    halves = random_halves(keys[4], data.mask, data.block)
    half = data.take(halves.rows[0], halves.used[0])
    # Both run each stage together: what does not depend on the number of rows is one batch.
    physics, half_physics = fit_each(keys[0:4:2], [data, half], before, config)
    terms, half_terms = choose_each(keys[1:4:2], [data, half], [physics, half_physics], config)
    regime = physics.regime
    form = make_form(physics, terms, jnp.any(data.in_cells(regime.flagged)))
    test = certify(data, halves, half_physics, half_terms, config)
    regions = make_regions(data, regime, form)
    return Diagnosis(
        coefficients=regime.coefficients,
        covariance=regime.covariance,
        scale=regime.scale,
        cells=make_cells(data, regime),
        regions=regions,
        form=dataclasses.replace(form, certified=test.reject),
        test=test,
        **_not_asked(data, regions.lower),
        num_rows=data.num_rows,
        num_iterations=regime.num_iterations,
        verdict=decide(regime.status, form, test, regime.flagged),
        status=regime.status,
    )
