"""The corrected model on new rows: physics everywhere, terms inside the regions only."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lisdd_jax
from lisdd_jax.study.experiments import metrics, scenarios

EDGES = jnp.linspace(-3.3, 3.3, 15)


@pytest.fixture(scope="module")
def sample():
    return scenarios.oscillator(2000)(jax.random.key(3))


@pytest.fixture(scope="module")
def found(sample):
    config = lisdd_jax.Config.paper()
    return lisdd_jax.diagnose(
        sample.design,
        sample.response,
        sample.axis,
        sample.features,
        key=jax.random.key(4),
        config=config,
        edges=EDGES,
    )


def test_correction_acts_inside_the_regions_only(sample, found):
    predicted = lisdd_jax.predict(found, sample.design, sample.axis, sample.features)
    physics = sample.design @ found.coefficients
    cell = np.clip(np.searchsorted(EDGES, sample.axis, side="right") - 1, 0, 13)
    inside = np.asarray(found.cells.flagged)[cell]
    expected = np.where(inside, np.asarray(sample.features @ found.form.coefficients), 0.0)
    assert inside.any()
    np.testing.assert_allclose(predicted - physics, expected, atol=1e-12)


def test_correction_improves_the_forecast(sample, found):
    fresh = scenarios.oscillator(2000)(jax.random.key(5))
    corrected = lisdd_jax.predict(found, fresh.design, fresh.axis, fresh.features)
    assert metrics.rmse(corrected, fresh) < 0.7 * metrics.rmse(
        fresh.design @ found.coefficients, fresh
    )


def test_a_region_at_the_end_of_the_axis_goes_on_beyond_it(sample, found):
    regions = dataclasses.replace(
        found.regions,
        lower=found.regions.lower.at[0].set(EDGES[0]),
        upper=found.regions.upper.at[1].set(EDGES[-1]),
    )
    widened = dataclasses.replace(found, regions=regions)
    axis = jnp.array([-10.0, 0.0, 10.0])
    design, features = jnp.zeros((3, 2)), jnp.ones((3, 6))
    correction = lisdd_jax.predict(widened, design, axis, features)
    total = float(jnp.sum(found.form.coefficients))
    np.testing.assert_allclose(correction, [total, 0.0, total], rtol=1e-12)


def test_a_failed_diagnosis_predicts_nan(found):
    failed = dataclasses.replace(found, coefficients=jnp.full(2, jnp.nan))
    predicted = lisdd_jax.predict(failed, jnp.ones((4, 2)), jnp.zeros(4), jnp.ones((4, 6)))
    assert jnp.all(jnp.isnan(predicted))
