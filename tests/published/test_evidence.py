import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from lisdd_jax.published import evidence

energy_test = jax.jit(evidence.energy_test)


def test_energy_test_is_chi_square():
    energy, count = np.array([3.0, 40.0, 1.0, 150.0]), np.array([4, 4, 1, 30])
    found = energy_test(jax.device_put(energy), jax.device_put(count), jnp.float64(0.5))
    np.testing.assert_allclose(found.statistic, energy / 0.25, rtol=1e-15)
    np.testing.assert_allclose(
        found.log_p_value, stats.chi2.logsf(energy / 0.25, count), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_that_cannot_be_tested_are_undefined_and_not_flagged(dtype):
    energy, count = np.array([0.0, 2.0, 2.0], dtype), np.array([0, 3, 3])
    scale = np.array([1.0, 0.0, np.nan], dtype)
    found = energy_test(energy, count, scale)
    assert found.statistic.dtype == found.log_p_value.dtype == dtype
    assert np.isnan(found.statistic).all()
    assert np.isnan(found.log_p_value).all()
    assert not (np.asarray(found.log_p_value) < np.log(0.5)).any()


def test_a_cell_without_residual_is_clean():
    found = energy_test(jnp.float64(0.0), jnp.int32(3), jnp.float64(1.0))
    assert (found.statistic, found.log_p_value) == (0, 0)


def test_derivative_is_defined_in_cells_that_cannot_be_tested():
    @jax.jit
    def total(scale):
        found = energy_test(jnp.array([0.0, 2.0]), jnp.array([0, 3]), scale)
        return jnp.where(jnp.isnan(found.log_p_value), 0.0, found.log_p_value).sum()

    step = 1e-6
    numeric = (total(0.5 + step) - total(0.5 - step)) / (2 * step)
    assert jax.jit(jax.grad(total))(0.5) == pytest.approx(float(numeric), rel=1e-8)
