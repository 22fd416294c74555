"""Noise scales shared out among cells and their rows, and rows over them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rows_data as data

from lisdd_jax import dataset
from lisdd_jax.default import ordering, row_noise


def test_cells_and_their_rows_share_the_scale():
    rng = np.random.default_rng(0)
    log_scale, cell = rng.normal(size=60), np.repeat([0, 1, 2, 3], 15).astype(np.int32)
    noise = row_noise.within_cells(jax.device_put(log_scale), jax.device_put(cell), 3)
    square, used = np.exp(2 * log_scale), cell < 3
    for k in range(3):
        mean = square[cell == k].mean()
        expected = np.exp(log_scale[cell == k]) / np.sqrt(mean)
        np.testing.assert_allclose(np.asarray(noise.relative)[cell == k], expected, rtol=1e-12)
        assert noise.expected[k] == pytest.approx(mean / square[used].mean(), rel=1e-12)
    assert np.all(np.asarray(noise.relative)[~used] == 1)


def test_equal_scales_are_one_exactly():
    cell = jnp.asarray(np.repeat([0, 1, 2], 7), jnp.int32)
    noise = row_noise.within_cells(jnp.zeros(21), cell, 2)
    assert np.all(np.asarray(noise.relative) == 1)
    assert np.all(np.asarray(noise.expected) == 1)


def test_rows_are_divided_by_their_scales():
    table = data.straight(0, data.sound)
    made, _ = jax.jit(dataset.prepare)(**dataset.check_arguments(*table, num_cells=8))
    rows = ordering.order_rows(made)
    size = jnp.linspace(0.5, 2.0, rows.axis.shape[0])
    found = row_noise.weigh(rows, size)
    np.testing.assert_array_equal(found.columns, rows.columns / size[None])
    np.testing.assert_array_equal(found.axis, rows.axis)
