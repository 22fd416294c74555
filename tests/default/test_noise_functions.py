"""Functions of the axis, the physics columns and the prediction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import noise_functions

NUM = 40


def drivers(seed=0):
    rng = np.random.default_rng(seed)
    # The axis, a constant, a column, and a prediction that is far from zero.
    return np.stack([rng.random(NUM), np.ones(NUM), rng.normal(size=NUM), 5 + rng.random(NUM)])


def expected_logs(exponents, known, new):
    """Equation 20b row by row."""
    total = []
    for values, at, (rising, sided), last in zip(
        known, np.hstack([known, new]), exponents, (False, False, False, True), strict=True
    ):
        logs = np.zeros(len(at))
        for power, center, absolute in (
            (rising, values.mean(), False),
            (sided, 0.0 if last else values.mean(), True),
        ):
            spread = np.mean(np.abs(values - center))
            if power and spread > 0:
                ratio = (at - center) / spread
                found = np.sign(ratio) * np.log1p(np.abs(ratio))
                logs += power * (np.abs(found) if absolute else found)
        total.append(logs)
    total = np.sum(total, 0)
    return np.clip(total - total[:NUM].mean(), -4, 4)


@pytest.mark.parametrize(
    "exponents",
    [
        [[0, 0], [0, 0], [1.25, 0], [0, 0]],
        [[0.5, 0], [1, 1], [0, -0.75], [0, 0]],
        [[0, 0], [0, 0], [0, 0], [0, 2]],
    ],
)
def test_functions_carry_over_to_further_rows(exponents):
    known, new = drivers(), drivers(1)[:, :9]
    found = noise_functions.carry_over(
        *map(jax.device_put, (np.array(exponents, float), known, new))
    )
    np.testing.assert_allclose(found, expected_logs(exponents, known, new), atol=1e-12)


def test_what_the_noise_does_not_go_with_need_not_be_known():
    exponents = jnp.zeros((4, 2)).at[2, 0].set(1.0)
    known, new = jnp.asarray(drivers()), jnp.asarray(drivers(1))
    found = noise_functions.carry_over(exponents, known, new)
    again = noise_functions.carry_over(exponents, known, new.at[0].set(jnp.nan))
    np.testing.assert_array_equal(found, again)
    unknown = noise_functions.carry_over(exponents, known, new.at[2, 3].set(jnp.nan))
    assert np.flatnonzero(np.isnan(unknown)).tolist() == [NUM + 3]
