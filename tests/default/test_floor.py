"""What a negligible discrepancy can add to a test, and no more, is taken off."""

import jax.numpy as jnp
import numpy as np
import pytest
from lisdd_jax.default.floor import Floor, beyond_size, wald_beyond_size


def floor(size):
    return Floor(jnp.asarray(0.0), jnp.asarray(size))


def test_nothing_is_taken_off_for_size_zero():
    gains = jnp.array([0.0, 1e-300, 2.5, 1e12])
    np.testing.assert_allclose(beyond_size(gains, jnp.asarray(50.0), floor(0.0)), gains, rtol=1e-15)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_is_at_most_the_gain_of_the_noise(seed):
    """For any discrepancy up to the size, in any direction, the test keeps its level."""
    rng = np.random.default_rng(seed)
    columns, _ = np.linalg.qr(rng.normal(size=(40, 3)))
    noise = rng.normal(size=40)
    drift = 0.3 * rng.uniform(-1, 1, 40)
    gain = np.sum((columns.T @ (noise + drift)) ** 2)
    left = beyond_size(jnp.asarray(gain), jnp.asarray(40.0), floor(0.3))
    assert 0 <= left <= np.sum((columns.T @ noise) ** 2)
    wald = wald_beyond_size(jnp.asarray(gain / 4), jnp.asarray(40.0), jnp.asarray(4.0), floor(0.3))
    np.testing.assert_allclose(wald, left / 4, rtol=1e-12)
