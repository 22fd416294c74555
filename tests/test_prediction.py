"""The corrected model on new rows: physics everywhere, terms inside the regions only."""

import dataclasses

import brute_force
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import lisdd_jax
from lisdd_jax.study.experiments import metrics, scenarios

EDGES = jnp.linspace(-3.3, 3.3, 15)
SIMULATE = jax.jit(scenarios.oscillator(2000))


@pytest.fixture(scope="module")
def sample():
    return SIMULATE(jax.random.key(3))


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
    fresh = SIMULATE(jax.random.key(5))
    corrected = lisdd_jax.predict(found, fresh.design, fresh.axis, fresh.features)
    assert metrics.rmse(corrected, fresh) < 0.7 * metrics.rmse(
        fresh.design @ found.coefficients, fresh
    )


def test_a_region_at_the_end_of_the_axis_goes_on_beyond_it(sample, found):
    regions = dataclasses.replace(
        found.regions,
        open_below=found.regions.open_below.at[0].set(True),
        open_above=found.regions.open_above.at[1].set(True),
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


def test_agrees_with_a_loop(sample, found):
    """Every row by itself: physics, and the terms of the regions that hold it."""
    rng = np.random.default_rng(0)
    axis = np.concatenate([rng.uniform(-4, 4, 30), np.asarray(EDGES), [np.nan, np.inf]])
    design, features = rng.normal(size=(len(axis), 2)), rng.normal(size=(len(axis), 6))
    design[3, 1], features[5, 0] = np.nan, np.nan
    present = np.asarray(found.regions.present)
    ends = (np.asarray(part)[present] for part in (found.regions.lower, found.regions.upper))
    regions = list(zip(*ends, strict=True))
    expected = brute_force.predict(
        np.asarray(found.coefficients),
        regions,
        np.asarray(found.regions.coefficients)[present],
        EDGES[0],
        EDGES[-1],
        design,
        axis,
        features,
    )
    predicted = lisdd_jax.predict(found, design, axis, features)
    np.testing.assert_allclose(predicted, expected, rtol=1e-12)
    assert np.isnan(predicted).sum() == 3


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"design": np.ones((4, 3))}, r"design must have shape \(m, p\) with p = 2 as in the diag"),
        (
            {"features": np.ones((4, 5))},
            r"features must have shape \(m, L\) with L = 6 as in the d",
        ),
        ({"axis": np.ones(3)}, r"axis must have shape \(m,\) with m = 4 as in design"),
        ({"axis": np.ones((4, 1))}, r"axis must have 1 axes \(m,\)"),
        ({"features": np.ones(4)}, r"features must have 2 axes \(m, L\)"),
    ],
)
def test_shapes_must_fit(found, changes, words):
    rows = {"design": np.ones((4, 2)), "axis": np.ones(4), "features": np.ones((4, 6))}
    with pytest.raises(ValueError, match=words):
        lisdd_jax.predict(found, **(rows | changes))


def test_types_of_rows(found):
    rows = [np.ones((4, 2)), np.ones(4), np.ones((4, 6))]
    with pytest.raises(TypeError, match="arguments must share one floating-point type"):
        lisdd_jax.predict(found, rows[0].astype(np.float32), *rows[1:])
    double = lisdd_jax.predict(found, *rows)
    lists = lisdd_jax.predict(found, *(part.astype(int).tolist() for part in rows))
    np.testing.assert_array_equal(lists, double)
    frames = lisdd_jax.predict(found, pd.DataFrame(rows[0]), pd.Series(rows[1]), rows[2])
    np.testing.assert_array_equal(frames, double)
    single = jax.tree.map(
        lambda leaf: leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf,
        jax.device_get(found),
    )
    single = jax.device_put(single)
    # A diagnosis in single precision serves rows in double precision.
    mixed = lisdd_jax.predict(single, *rows)
    assert mixed.dtype == jnp.float64
    np.testing.assert_allclose(mixed, double, rtol=1e-5)
