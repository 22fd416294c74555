"""The correctors that others use, against NumPy and against PySINDy."""

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.study.experiments import baselines, scenarios

# As studies run them: traced, and one program each.
simulate = jax.jit(scenarios.oscillator(800))
black_box = jax.jit(baselines.black_box)
joint = jax.jit(baselines.joint)
global_physics = jax.jit(baselines.global_physics)
global_sparse = jax.jit(baselines.global_sparse)
ensemble_sparse = jax.jit(baselines.ensemble_sparse, static_argnames="num_bootstraps")
thresholded_least_squares = jax.jit(baselines.thresholded_least_squares)
forecast = jax.jit(baselines.forecast)
oracle = jax.jit(baselines.oracle)


@functools.cache
def sample_of(seed: int) -> scenarios.Sample:
    return simulate(jax.random.key(seed))


def arrays(sample: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return tuple(np.asarray(a) for a in (sample.design, sample.features, sample.response))  # type: ignore[return-value]


def solve(columns: np.ndarray, response: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(columns, response, rcond=None)[0]


def test_black_box_and_joint_fit_are_least_squares() -> None:
    design, features, response = arrays(sample_of(1))
    physics = solve(design, response)
    box = black_box(sample_of(1))
    np.testing.assert_allclose(box.coefficients, physics, rtol=1e-10)
    np.testing.assert_allclose(box.weights, solve(features, response - design @ physics), rtol=1e-8)
    both = solve(np.hstack([design, features]), response)
    found = joint(sample_of(1))
    np.testing.assert_allclose(np.concatenate([found.coefficients, found.weights]), both, rtol=1e-7)


def test_prediction_adds_the_terms_everywhere() -> None:
    model = joint(sample_of(1))
    design, features, _ = arrays(sample_of(2))
    expected = design @ np.asarray(model.coefficients) + features @ np.asarray(model.weights)
    np.testing.assert_allclose(forecast(model, sample_of(2)), expected, rtol=1e-12, atol=1e-12)


def threshold(features: np.ndarray, target: np.ndarray, level: float) -> np.ndarray:
    gram, moment = features.T @ features, features.T @ target
    return np.asarray(thresholded_least_squares(gram, moment, threshold=level))


@pytest.mark.parametrize("level", [0.0, 0.05, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_thresholded_fit_is_that_of_pysindy(level: float, seed: int) -> None:
    pysindy = pytest.importorskip("pysindy")
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(300, 7)) @ (np.eye(7) + 0.3 * rng.normal(size=(7, 7)))
    truth = np.array([2.0, 0.0, -0.7, 0.1, 0.0, 1.1, 0.4])
    target = features @ truth + 0.5 * rng.normal(size=300)
    with warnings.catch_warnings():
        # It warns where no term is left, and for its own use of libraries.
        warnings.simplefilter("ignore")
        optimizer = pysindy.STLSQ(threshold=level, alpha=0.05)
        optimizer.fit(features, target[:, None])
    np.testing.assert_allclose(
        threshold(features, target, level), optimizer.coef_[0], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("level", [0.1, 1.0])
def test_global_sparse_fit_of_the_testbed_is_that_of_pysindy(level: float) -> None:
    pysindy = pytest.importorskip("pysindy")
    design, features, response = arrays(sample_of(1))
    residual = response - design @ solve(design, response)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = pysindy.STLSQ(threshold=level, alpha=0.05)
        optimizer.fit(features, residual[:, None])
    ours = global_sparse(sample_of(1), level).weights
    np.testing.assert_allclose(ours, optimizer.coef_[0], rtol=1e-7, atol=1e-12)


def test_a_threshold_that_keeps_all_is_least_squares() -> None:
    _, features, response = arrays(sample_of(1))
    np.testing.assert_allclose(
        threshold(features, response, 0.0), solve(features, response), rtol=1e-8
    )


def test_a_threshold_that_keeps_nothing_leaves_the_physics() -> None:
    model = global_sparse(sample_of(1), 1e3)
    assert not np.any(model.weights)
    np.testing.assert_allclose(
        model.coefficients, global_physics(sample_of(1)).coefficients, rtol=0
    )


def test_ensemble_is_the_mean_over_bootstraps() -> None:
    key, num = jax.random.key(3), 5
    model = ensemble_sparse(key, sample_of(1), 0.02, num_bootstraps=num)
    design, features, response = arrays(sample_of(1))
    physics, weights = [], []
    for one in jax.random.split(key, num):
        drawn = np.asarray(jax.random.randint(one, (800,), 0, 800))
        fit = solve(design[drawn], response[drawn])
        physics.append(fit)
        residual = response[drawn] - design[drawn] @ fit
        weights.append(threshold(features[drawn], residual, 0.02))
    kept = np.mean(np.array(weights) != 0, axis=0) > 0.5
    np.testing.assert_allclose(model.coefficients, np.mean(physics, axis=0), rtol=1e-9)
    expected = np.where(kept, np.mean(weights, axis=0), 0)
    np.testing.assert_allclose(model.weights, expected, rtol=1e-7, atol=1e-12)


def test_oracle_reaches_the_noise() -> None:
    error = np.asarray(oracle(sample_of(1), sample_of(2))) - np.asarray(sample_of(2).response)
    # Five standard errors of a root mean square, and the cost of four coefficients.
    assert np.sqrt(np.mean(error**2)) == pytest.approx(0.3, abs=5 * 0.3 / np.sqrt(1600) + 1e-3)


def test_oracle_of_the_null_is_the_physics() -> None:
    sample = jax.jit(scenarios.oscillator(800))(jax.random.key(4), beta=0.0)
    expected = np.asarray(sample.design) @ np.asarray(global_physics(sample).coefficients)
    np.testing.assert_allclose(oracle(sample, sample), expected, rtol=1e-9)


def test_thresholds_can_be_batched() -> None:
    _, features, target = arrays(sample_of(1))
    gram, moment = features.T @ features, features.T @ target
    levels = jnp.array([0.05, 0.5, 100.0])

    def fit(level: jax.Array) -> jax.Array:
        return thresholded_least_squares(gram, moment, threshold=level)

    batched = jax.jit(jax.vmap(fit))(levels)
    for weights, level in zip(batched, levels, strict=True):
        np.testing.assert_allclose(weights, fit(level), rtol=1e-9, atol=1e-12)
