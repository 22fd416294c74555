"""Medians by halving a bracket, against sorting."""

import jax
import numpy as np

from lisdd_jax.numerics import medians

NUM, CELLS = 600, 12
CELL = np.repeat(np.arange(CELLS), NUM // CELLS)


def test_medians():
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(size=NUM))
    used = rng.random(NUM) < 0.8
    ordered = np.sort(values[used])
    lower = ordered[(used.sum() + 1) // 2 - 1]
    median = jax.jit(medians.median_of_positive)(values, used)
    np.testing.assert_allclose(median, lower, rtol=1e-8)
    signed = np.log(values)
    found = jax.jit(medians.signed_median)(signed, used)
    np.testing.assert_allclose(found, np.log(lower), rtol=1e-8)
    count = np.bincount(CELL, minlength=CELLS).astype(float)
    each = jax.jit(medians.median_per_cell)(values, CELL, count)
    expected = [np.sort(values[k == CELL])[int(count[k] + 1) // 2 - 1] for k in range(CELLS)]
    np.testing.assert_allclose(each, expected, rtol=1e-6)


def test_middle_of_three_on_the_host_and_traced():
    values, num = np.array([5.0, 1.0, 4.0, 2.0, 9.0, 9.0]), 4
    # Beyond the ends a cell is its own neighbour; cells out of use come last.
    expected = [5.0, 4.0, 2.0, 2.0]
    found = medians.middle_of_three(values, np.int32(num))
    assert isinstance(found, np.ndarray)
    assert found[:num].tolist() == expected
    traced = jax.jit(medians.middle_of_three)(values, np.int32(num))
    assert np.asarray(traced)[:num].tolist() == expected
