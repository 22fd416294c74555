"""Rows scored about the common level of their neighbourhood."""

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.default import row_scores

SCORE = jax.jit(row_scores.score_rows)


def test_levels_are_what_neighbours_have_in_common():
    level = np.array([0.2, 0.5, 3.0, -1.0, -2.0, -0.5, 9.0, 9.0])
    found = jax.jit(row_scores.levels_nearby)(level, np.int32(6))
    np.testing.assert_allclose(np.asarray(found)[:6], [0.2, 0.2, 0.0, 0.0, -0.5, -0.5])


def test_scores_are_residuals_about_the_common_level_in_noise_scales():
    """Weights of the rows are in residuals and the constant; far ones are cut off."""
    cell = np.repeat(np.arange(4), 30).astype(np.int32)
    weight = np.linspace(0.5, 2.0, 120)
    rng = np.random.default_rng(2)
    residual = weight * (0.7 + 0.01 * rng.normal(size=120))
    residual[7], keep = 50.0, np.ones(120, bool)
    keep[7] = False
    scale = np.array([0.1, 0.1, 0.2, 0.2])
    given = (residual, weight, scale, np.float64(0.1), keep, cell)
    score = jax.device_get(SCORE(*given, np.int32(4), np.zeros(())))
    for found, size in ((score.row, scale[cell]), (score.bold, 0.1)):
        expected = (residual - weight * 0.7) / size
        np.testing.assert_allclose(found[keep], expected[keep], atol=0.4)
        assert found[7] == 4.0


def test_a_run_in_the_last_cell_does_not_set_its_own_scale():
    """Nor in the first; between them a wider scale is one of noise."""
    cell, one = np.repeat(np.arange(4), 30).astype(np.int32), np.ones(120)
    residual, scale = np.random.default_rng(4).normal(size=120), np.array([3.0, 1.0, 2.0, 5.0])
    given = [*map(jnp.asarray, (residual, one, scale, 1.0, one > 0, cell)), jnp.int32(4)]
    expected = residual / np.array([1.0, 1.0, 2.0, 2.0])[cell]
    np.testing.assert_allclose(SCORE(*given, jnp.zeros(())).row, expected, atol=0.4)


def test_what_does_not_matter_is_left_out_of_a_score():
    cell, one = np.repeat(np.arange(4), 30).astype(np.int32), np.full(120, 0.5)
    residual = np.random.default_rng(4).normal(size=120)
    given = [*map(jnp.asarray, (residual, one, np.ones(4), 1.0, one > 0, cell)), jnp.int32(4)]
    plain, less = (np.asarray(SCORE(*given, jnp.asarray(size)).row) for size in (0.0, 0.8))
    np.testing.assert_allclose(less, np.sign(plain) * np.maximum(np.abs(plain) - 0.4, 0))
