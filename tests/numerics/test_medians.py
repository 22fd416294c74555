"""Medians by halving a bracket, against sorting."""

import jax.numpy as jnp
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
    np.testing.assert_allclose(
        medians.median_of_positive(jnp.asarray(values), jnp.asarray(used)), lower, rtol=1e-8
    )
    signed = np.log(values)
    found = medians.signed_median(jnp.asarray(signed), jnp.asarray(used))
    np.testing.assert_allclose(found, np.log(lower), rtol=1e-8)
    count = np.bincount(CELL, minlength=CELLS).astype(float)
    each = medians.median_per_cell(jnp.asarray(values), jnp.asarray(CELL), jnp.asarray(count))
    expected = [np.sort(values[k == CELL])[int(count[k] + 1) // 2 - 1] for k in range(CELLS)]
    np.testing.assert_allclose(each, expected, rtol=1e-6)
