"""Non-linear physics: against SciPy on the clean rows, derivatives, statuses, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

from lisdd_jax import Config, Status, Verdict, describe, diagnose
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


@pytest.mark.slow
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


def pulse(theta, axis):
    return theta[0] * jnp.exp(-theta[1] * axis)


def wave(theta, axis):
    return theta[0] * jnp.sin(theta[1] * axis)


def either(theta, inputs):
    """Both models in one program: each sees a rate of 0 where it is not the one."""
    axis, is_wave = inputs
    rate, frequency = (jnp.where(which, theta["rate"], 0.0) for which in (~is_wave, is_wave))
    size = theta["size"]
    return jnp.where(is_wave, wave((size, frequency), axis), pulse((size, rate), axis))


def one_axis(model, true, seed, effect):
    rng = np.random.default_rng(seed)
    axis = np.sort(rng.uniform(0, 3, NUM))
    noise = 0.01 * rng.normal(size=NUM)
    missing = np.where((axis > 1) & (axis < 1.6), effect * axis, 0.0)
    return axis, np.asarray(model(jnp.array(true), axis)) + noise + missing


@jax.jit
def run_either(start, axis, is_wave, response, key, mask):
    """One program for all models, data and starts, and for the derivatives of the rate."""

    def rate(response, axis):
        found = diagnose_nonlinear(
            either,
            start,
            (axis, is_wave),
            response,
            axis,
            jnp.stack([axis, jnp.ones(NUM), axis**2], axis=1),
            key=key,
            config=CONFIG,
            edges=jnp.linspace(0.0, 3.0, 13),
            mask=mask,
        )
        return found.theta["rate"], found

    slope, found = jax.grad(rate, argnums=(0, 1), has_aux=True)(response, axis)
    return found, slope


def run(model, start, axis, response, key, mask=None):
    return run_with_slope(model, start, axis, response, key, mask)[0]


def run_with_slope(model, start, axis, response, key, mask=None):
    """A diagnosis, and derivatives of its rate in response and axis."""
    mask = jnp.ones(NUM, bool) if mask is None else mask
    is_wave = jnp.full(NUM, model is wave)
    theta = {name: jnp.asarray(value) for name, value in zip(("size", "rate"), start, strict=True)}
    return run_either(theta, jnp.asarray(axis), is_wave, jnp.asarray(response), key, mask)


def parameters(found):
    return np.array([found.theta["size"], found.theta["rate"]])


def test_it_is_nonlinear_least_squares_on_the_clean_cells():
    axis, response = one_axis(pulse, (2.0, 0.7), 0, 1.0)
    found = run(pulse, (1.0, 0.1), axis, response, KEY)
    assert found.status == Status.OK
    assert found.diagnosis.verdict == Verdict.DISCREPANCY
    cell = np.minimum((axis * 4).astype(int), 11)
    clean = ~np.asarray(found.diagnosis.cells.flagged)[cell]

    def residual(theta):
        return np.asarray(pulse(theta, axis) - response)

    start, exact = [1.0, 0.1], {"x_scale": "jac", "xtol": 1e-14, "ftol": 1e-14}
    expected = least_squares(lambda theta: residual(theta)[clean], start, **exact)
    np.testing.assert_allclose(parameters(found), expected.x, rtol=1e-6)
    # Parameters of a dictionary are in the order of their names.
    np.testing.assert_allclose(found.diagnosis.coefficients[::-1], parameters(found), rtol=1e-12)
    everywhere = least_squares(residual, start).x
    assert abs(everywhere[1] / 0.7 - 1) > 0.1 > 10 * abs(parameters(found)[1] / 0.7 - 1)


@pytest.mark.parametrize("seed, effect", [(0, 0.0), (0, 1.0), (1, 0.3), (4, 1.0), (7, 1.0)])
def test_a_start_of_the_wrong_sign_and_trend_leads_to_the_law(seed, effect):
    axis, response = one_axis(pulse, (2.0, 0.7), seed, effect)
    found = run(pulse, (-3.0, -2.0), axis, response, jax.random.key(seed))
    assert found.status == Status.OK
    np.testing.assert_allclose(parameters(found), [2.0, 0.7], atol=0.02)
    assert found.num_agreeing > 8
    kept = np.sort(np.square(response - pulse(parameters(found), axis)))
    kept = kept[: int((1 - float(CONFIG.trim)) * NUM)]
    assert found.objective == pytest.approx(kept.sum(), rel=0.1)
    assert found.diagnosis.verdict == (Verdict.DISCREPANCY if effect else Verdict.CLEAN)


@pytest.mark.parametrize("seed", [0, 1, 3, 7])
def test_starts_that_find_nothing_are_said_to_be_at_fault(seed):
    """A frequency has many local minima: from far away an answer is the right one or none."""
    axis, response = one_axis(wave, (2.0, 6.0), seed, 0.3)
    near = run(wave, (1.0, 6.2), axis, response, jax.random.key(seed))
    assert near.status == Status.OK
    np.testing.assert_allclose(parameters(near), [2.0, 6.0], atol=0.02)
    far = run(wave, (1.0, 20.0), axis, response, jax.random.key(seed))
    if seed == 1:
        np.testing.assert_allclose(np.abs(parameters(far)), [2.0, 6.0], atol=0.02)
        return
    assert far.status == far.diagnosis.status == Status.NOT_CONVERGED
    assert np.isnan(parameters(far)).all()
    assert not far.diagnosis.test.reject
    assert "start nearer to the solution" in describe(far.status)


def test_bad_data_are_not_the_fault_of_the_start():
    axis, response = one_axis(pulse, (2.0, 0.7), 0, 0.0)
    response[3] = np.nan
    found = run(pulse, (1.0, 1.0), axis, response, KEY)
    assert found.status == Status.NONFINITE_INPUT
    few = run(pulse, (1.0, 1.0), axis, response, KEY, mask=np.arange(NUM) < 2)
    assert few.status == Status.TOO_FEW_ROWS


def test_padded_rows_change_nothing_and_reverse_derivatives_are_those_of_the_fixed_point():
    axis, response = one_axis(pulse, (2.0, 0.7), 0, 0.3)
    mask = np.arange(NUM) < NUM - 20
    lost = jnp.where(mask, response, jnp.nan), jnp.where(mask, axis, jnp.nan)

    def solved(response, axis):
        found, slope = run_with_slope(pulse, (1.0, 1.0), axis, response, KEY, mask)
        return found.theta["rate"], slope

    rate, slope = solved(*lost)
    assert rate == solved(response, axis)[0]
    assert np.isfinite(slope).all()
    change = jnp.where(mask, jnp.asarray(np.random.default_rng(1).normal(size=NUM)), 0.0)
    step = 1e-5
    right, left = (solved(lost[0] + side * step * change, lost[1])[0] for side in (1.0, -1.0))
    np.testing.assert_allclose(slope[0] @ change, (right - left) / (2 * step), rtol=1e-5)


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
    with pytest.raises(ValueError, match="num_starts must be an integer of at least 1"):
        solve(response, inputs, features, num_starts=0)
    with pytest.raises(ValueError, match="theta must hold at least one parameter"):
        diagnose_nonlinear(
            lambda theta, inputs: inputs[0], (), inputs, response, inputs[0], features, key=KEY
        )
