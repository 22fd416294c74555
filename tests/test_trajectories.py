import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import savgol_filter

from lisdd_jax import Status
from lisdd_jax.hybrid import local_polynomial, project, rollout

TIMES = jnp.linspace(0.0, 3.0, 301)


def uneven(num=240, seed=0):
    gaps = np.random.default_rng(seed).uniform(0.5, 1.5, num)
    return jnp.asarray(3 * (np.cumsum(gaps) - gaps[0]) / (np.sum(gaps) - gaps[0]))


@pytest.mark.parametrize("derivative", [0, 1])
def test_smoothing_is_the_savitzky_golay_filter(derivative):
    values = np.random.default_rng(0).normal(size=(301, 2))
    found = local_polynomial(TIMES, values, half_window=4, derivative=derivative)
    expected = savgol_filter(values, 9, 3, deriv=derivative, delta=0.01, axis=0)
    size = np.abs(expected).max()
    np.testing.assert_allclose(found.values, expected, atol=1e-9 * size)


def test_smoothing_keeps_cubics_at_uneven_times():
    times = uneven()
    cubic = times**3 - 2 * times + 1
    found = local_polynomial(times, cubic, half_window=5)
    np.testing.assert_allclose(found.values, cubic, atol=1e-9)
    slope = local_polynomial(times, cubic, half_window=5, derivative=1)
    np.testing.assert_allclose(slope.values, 3 * times**2 - 2, atol=1e-7)


def test_the_noise_gain_is_that_of_simulated_noise():
    noise = jax.random.normal(jax.random.key(0), (301, 4000))
    found = local_polynomial(TIMES, noise, half_window=3, derivative=1)
    spread = jnp.std(found.values, axis=1)
    # Five standard errors of a standard deviation from 4000 values.
    np.testing.assert_allclose(spread / found.noise_gain, 1.0, atol=5 / np.sqrt(2 * 4000))


@pytest.mark.parametrize("times", [TIMES, uneven()], ids=["even", "uneven"])
def test_projection_is_exact_for_an_exact_law(times):
    """u' = a cos(t) + b t for u = a sin(t) + b t^2 / 2."""
    state = 1.5 * jnp.sin(times) + 0.7 * times**2 / 2
    rates = jnp.stack([jnp.cos(times), times], axis=1)
    rows = project(times, state, rates, window=10, num_tests=3)
    assert rows.response.shape == (3 * (len(times) // 10),)
    left = rows.response - rows.columns @ jnp.array([1.5, 0.7])
    assert jnp.max(jnp.abs(left)) < 2e-8


def test_the_noise_of_the_rows_is_white_with_the_variance_of_the_measurements():
    noise = 0.3 * jax.random.normal(jax.random.key(1), (3000, 60))
    rows = jax.vmap(
        lambda state: project(TIMES[:60], state, TIMES[:60, None], window=12, num_tests=3)
    )(noise)
    covariance = rows.response.T @ rows.response / 3000 / 0.09
    np.testing.assert_allclose(covariance, np.eye(15), atol=5 * np.sqrt(2 / 3000))


def test_a_rollout_is_the_exact_solution_and_differentiable():
    def final(decay):
        found = rollout(lambda _, state: -decay * state, jnp.asarray(2.0), TIMES)
        assert found.states.shape == TIMES.shape
        return found.states

    np.testing.assert_allclose(final(0.8), 2 * np.exp(-0.8 * TIMES), rtol=1e-10)
    slope = jax.jacfwd(final)(0.8)
    np.testing.assert_allclose(slope, -2 * TIMES * np.exp(-0.8 * TIMES), atol=1e-9)


def test_substeps_are_of_fourth_order():
    def error(num_substeps):
        times = jnp.linspace(0.0, 2.0, 6)
        found = rollout(
            lambda t, s: {"x": s["v"], "v": -s["x"] + 0 * t},
            {"x": jnp.asarray(1.0), "v": jnp.asarray(0.0)},
            times,
            num_substeps=num_substeps,
        )
        return float(jnp.max(jnp.abs(found.states["x"] - jnp.cos(times))))

    assert 12 < error(2) / error(4) < 20


def test_a_rollout_that_explodes_says_so():
    found = rollout(lambda _, state: state**3, jnp.asarray(2.0), TIMES)
    assert found.status == Status.DIVERGED
    assert rollout(lambda _, state: -state, jnp.asarray(2.0), TIMES).status == Status.OK


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: project(TIMES[::-1], TIMES, TIMES[:, None], window=5), "times must increase"),
        (lambda: project(TIMES, TIMES[1:], TIMES[:, None], window=5), "state must have one row"),
        (lambda: project(TIMES, TIMES, TIMES[:, None], window=400), "window must be at most"),
        (lambda: project(TIMES, TIMES, TIMES[:, None], window=3, num_tests=3), "window must be"),
        (lambda: local_polynomial(TIMES, TIMES, half_window=1), "degree < 2 half_window"),
        (lambda: rollout(lambda t, s: s, 1.0, TIMES[:0]), "times must have at least one entry"),
        (lambda: rollout(lambda t, s: s, 1.0, TIMES, num_substeps=0), "num_substeps must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
