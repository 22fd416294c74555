import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from lisdd_jax import localization


def test_energy_test_is_chi_square():
    energy, count = np.array([3.0, 40.0, 1.0, 150.0]), np.array([4, 4, 1, 30])
    found = localization.energy_test(jnp.asarray(energy), jnp.asarray(count), jnp.float64(0.5))
    np.testing.assert_allclose(found.statistic, energy / 0.25, rtol=1e-15)
    np.testing.assert_allclose(
        found.log_p_value, stats.chi2.logsf(energy / 0.25, count), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cells_that_cannot_be_tested_are_undefined_and_not_flagged(dtype):
    energy, count = jnp.array([0.0, 2.0, 2.0], dtype), jnp.array([0, 3, 3])
    scale = jnp.array([1.0, 0.0, np.nan], dtype)
    found = localization.energy_test(energy, count, scale)
    assert found.statistic.dtype == found.log_p_value.dtype == dtype
    assert jnp.isnan(found.statistic).all()
    assert jnp.isnan(found.log_p_value).all()
    assert not (found.log_p_value < jnp.log(0.5)).any()


def test_a_cell_without_residual_is_clean():
    found = localization.energy_test(jnp.float64(0.0), jnp.int32(3), jnp.float64(1.0))
    assert (found.statistic, found.log_p_value) == (0, 0)


def test_derivative_is_defined_in_cells_that_cannot_be_tested():
    def total(scale):
        found = localization.energy_test(jnp.array([0.0, 2.0]), jnp.array([0, 3]), scale)
        return jnp.where(jnp.isnan(found.log_p_value), 0.0, found.log_p_value).sum()

    step = 1e-6
    numeric = (total(0.5 + step) - total(0.5 - step)) / (2 * step)
    assert jax.grad(total)(0.5) == pytest.approx(float(numeric), rel=1e-8)


@pytest.mark.parametrize("num_cells", [1, 2, 7, 8])
def test_runs_of_every_pattern(num_cells):
    patterns = (np.arange(2**num_cells)[:, None] >> np.arange(num_cells)) % 2 == 1
    found = jax.jit(jax.vmap(localization.flagged_runs))(jnp.asarray(patterns))
    assert found.present.shape == (2**num_cells, localization.num_slots(num_cells))
    for pattern, first, last, present in zip(patterns, *map(np.asarray, found), strict=True):
        edges = np.diff(np.concatenate([[0], pattern.astype(int), [0]]))
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
        assert present.tolist() == [True] * len(starts) + [False] * (len(present) - len(starts))
        assert first[present].tolist() == starts.tolist()
        assert last[present].tolist() == ends.tolist()
        assert not first[~present].any()
        assert not last[~present].any()


def test_run_sum_adds_the_cells_of_each_run():
    runs = localization.flagged_runs(jnp.array([True, True, False, True, False, False, True]))
    values = jnp.arange(1.0, 8.0).at[2].set(jnp.nan)
    assert localization.run_sum(values, runs).tolist() == [3, 4, 7, 0]
    counts = localization.run_sum(jnp.arange(7, dtype=jnp.int32), runs)
    assert counts.dtype == jnp.int32
    assert counts.tolist() == [1, 3, 6, 0]
