"""Non-linear physics: against SciPy on the clean rows, derivatives, statuses, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

from lisdd_jax import Config, Status, Verdict, diagnose
from lisdd_jax.hybrid import diagnose_nonlinear

NUM = 400
CONFIG = Config.paper(num_starts=30)
KEY = jax.random.key(0)
START = {"amplitude": 1.0, "rate": 0.1, "gain": 0.0}


def decay(theta, inputs):
    time, load = inputs
    return theta["amplitude"] * jnp.exp(-theta["rate"] * time) + theta["gain"] * load


def problem(seed, effect=0.6):
    rng = np.random.default_rng(seed)
    time, load = rng.uniform(0, 4, NUM), rng.uniform(-1, 1, NUM)
    missing = np.where((time > 1) & (time < 2), effect * time, 0.0)
    clean = 3 * np.exp(-0.7 * time) + 0.5 * load
    response = clean + missing + 0.03 * rng.normal(size=NUM)
    features = np.stack([time, np.ones(NUM), time**2], axis=1)
    return (time, load), response, features


def solve(response, inputs, features, start=START, config=CONFIG, **options):
    return diagnose_nonlinear(
        decay,
        start,
        inputs,
        response,
        inputs[0],
        features,
        key=KEY,
        config=config,
        edges=jnp.linspace(0.0, 4.0, 13),
        **options,
    )


def test_it_is_nonlinear_least_squares_on_the_clean_cells():
    inputs, response, features = problem(0)
    found = solve(response, inputs, features)
    assert found.status == Status.OK
    assert found.diagnosis.verdict == Verdict.DISCREPANCY
    cell = np.minimum((inputs[0] * 3).astype(int), 11)
    clean = ~np.asarray(found.diagnosis.cells.flagged)[cell]

    def residual(flat):
        theta = dict(zip(sorted(START), flat, strict=True))
        return np.asarray(decay(theta, inputs) - response)[clean]

    expected = least_squares(residual, [1.0, 0.1, 0.0], x_scale="jac", xtol=1e-14, ftol=1e-14)
    flat = np.array([found.theta[name] for name in sorted(START)])
    np.testing.assert_allclose(flat, expected.x, rtol=1e-6)
    np.testing.assert_allclose(found.diagnosis.coefficients, flat, rtol=1e-12)
    everywhere = least_squares(
        lambda flat: np.asarray(
            decay(dict(zip(sorted(START), flat, strict=True)), inputs) - response
        ),
        [1.0, 0.1, 0.0],
    ).x
    assert abs(everywhere[2] / 0.7 - 1) > 0.1 > 10 * abs(flat[2] / 0.7 - 1)


@pytest.mark.slow
def test_a_linear_model_takes_one_step_and_is_the_linear_diagnosis():
    inputs, response, features = problem(1)

    def line(theta, inputs):
        return inputs @ theta

    design = np.stack([np.exp(-0.7 * inputs[0]), inputs[1]], axis=1)
    found = diagnose_nonlinear(
        line, np.zeros(2), design, response, inputs[0], features, key=KEY, config=CONFIG
    )
    assert found.status == Status.OK
    np.testing.assert_allclose(found.theta, [3.0, 0.5], atol=0.02)
    assert found.num_iterations <= 3
    linear = diagnose(design, response, inputs[0], features, key=KEY, config=CONFIG)
    np.testing.assert_allclose(found.theta, linear.coefficients, rtol=1e-9)
    np.testing.assert_array_equal(found.diagnosis.cells.flagged, linear.cells.flagged)


def test_derivatives_are_those_of_the_fixed_point():
    inputs, response, features = problem(2)
    change = np.random.default_rng(0).normal(size=NUM)

    def theta(shift):
        found = solve(response + shift * change, inputs, features)
        return jnp.append(found.diagnosis.coefficients, found.diagnosis.test.log_p_value)

    theta = jax.jit(theta)
    slope = jax.jit(jax.jacfwd(theta))(0.0)
    step = 1e-5
    expected = (8 * (theta(step) - theta(-step)) - (theta(2 * step) - theta(-2 * step))) / (
        12 * step
    )
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_no_convergence_is_said():
    inputs, response, features = problem(0)
    found = solve(response, inputs, features, max_iterations=1)
    assert found.status == Status.NOT_CONVERGED
    assert np.isnan(found.theta["rate"])
    unsettled = found.diagnosis
    assert unsettled.verdict == Verdict.INSUFFICIENT_DATA
    assert unsettled.status == Status.NOT_CONVERGED
    assert not unsettled.test.reject
    assert not unsettled.regions.present.any()
    assert not unsettled.cells.flagged.any()


def test_bad_input_is_named():
    inputs, response, features = problem(0)
    with pytest.raises(ValueError, match="model must give one prediction per row"):
        diagnose_nonlinear(
            lambda theta, inputs: theta, 1.0, inputs, response, inputs[0], features, key=KEY
        )
    with pytest.raises(ValueError, match="model at the initial theta must be finite"):
        solve(response, inputs, features, start=START | {"gain": np.nan})
    with pytest.raises(ValueError, match="theta must hold at least one parameter"):
        diagnose_nonlinear(
            lambda theta, inputs: inputs[0], (), inputs, response, inputs[0], features, key=KEY
        )
