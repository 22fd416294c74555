"""Simulated data hold what their truth says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.study.experiments import scenarios

KEY = jax.random.key(0)
OSCILLATOR = jax.jit(scenarios.oscillator(4000))


def residual(sample: scenarios.Sample) -> np.ndarray:
    explained = sample.design @ sample.coefficients + sample.discrepancy
    return np.asarray(sample.response - explained)


@pytest.mark.parametrize("beta", [0.0, 0.2])
@pytest.mark.parametrize("width", [0.6, 1.0])
def test_oscillator_is_physics_plus_term_plus_noise(beta: float, width: float) -> None:
    sample = OSCILLATOR(KEY, beta=beta, width=width, scale=0.3)
    noise = residual(sample)
    # Five standard errors of a mean and of a standard deviation.
    assert abs(noise.mean()) < 5 * 0.3 / np.sqrt(4000)
    assert noise.std() == pytest.approx(0.3, abs=5 * 0.3 / np.sqrt(8000))
    x = np.asarray(sample.axis)
    inside = (np.abs(x) > 1.7) & (np.abs(x) < 1.7 + width)
    np.testing.assert_allclose(sample.discrepancy, np.where(inside, beta * x**3, 0), atol=1e-12)


def test_truth_of_the_null_is_empty() -> None:
    sample = jax.jit(scenarios.oscillator(50))(KEY, beta=0.0)
    assert not sample.present.any()
    assert not sample.support.any()


def test_true_support_is_the_cubic_in_every_library() -> None:
    for name, library in scenarios.LIBRARIES.items():
        sample = jax.jit(scenarios.oscillator(20, name))(KEY)
        chosen = [library.names[i] for i in np.flatnonzero(sample.support[0])]
        assert chosen == ["x1^3"]
        assert sample.features.shape == (20, len(library))


def test_noise_can_be_replaced() -> None:
    def signs(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jnp.sign(jax.random.normal(key, shape))

    sample = jax.jit(scenarios.oscillator(100, noise=signs))(KEY, scale=0.5)
    np.testing.assert_allclose(np.abs(residual(sample)), 0.5, rtol=1e-12)


def test_several_regions_miss_a_term_each() -> None:
    sample = jax.jit(scenarios.several_regions(4000))(KEY, cubic=0.2, bilinear=0.4)
    x, features = np.asarray(sample.axis), np.asarray(sample.features)
    assert x.min() >= 0
    assert x.max() <= scenarios.SEVERAL_END
    for k, weight in enumerate((0.2, 0.4)):
        inside = (x >= sample.lower[k]) & (x < sample.upper[k])
        term = features[:, np.flatnonzero(sample.support[k])[0]]
        np.testing.assert_allclose(
            np.asarray(sample.discrepancy)[inside], weight * np.asarray(term)[inside], rtol=1e-12
        )
    assert residual(sample).std() == pytest.approx(0.3, abs=5 * 0.3 / np.sqrt(8000))


def test_same_settings_give_the_same_function() -> None:
    assert scenarios.oscillator(10) is scenarios.oscillator(10)


def test_parameters_are_traced() -> None:
    simulate = jax.jit(scenarios.oscillator(10))
    for beta in (0.1, 0.2):
        simulate(KEY, beta=beta, width=1.0)
    assert simulate._cache_size() == 1


def test_an_unknown_library_is_named() -> None:
    with pytest.raises(ValueError, match=r"library must be one of .*six.*, got 'seven'"):
        scenarios.oscillator(10, "seven")
