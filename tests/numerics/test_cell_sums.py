import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.numerics import cell_sums

NUM, CELLS = 50, 5
TOTALS, PRODUCTS, COUNTS = (
    jax.jit(function, static_argnums=2)
    for function in (cell_sums.cell_totals, cell_sums.cell_products, cell_sums.cell_counts)
)


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    # Cell 3 is empty; -1 and 5 and beyond are no cells.
    return rng.normal(size=(NUM, 3)), rng.choice([-7, -1, 0, 1, 2, 4, 5, 9], NUM)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_totals_leave_out_rows_of_no_cell(dtype):
    values, cell = rows(0)
    found = TOTALS(jnp.asarray(values, dtype), jax.device_put(cell), CELLS)
    expected = np.stack([values[cell == c].sum(axis=0) for c in range(CELLS)])
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=1e-5 if dtype == np.float32 else 1e-14)
    assert not np.asarray(found)[3].any()


def test_products_per_cell():
    values, cell = rows(1)
    found = PRODUCTS(jax.device_put(values), jax.device_put(cell), CELLS)
    expected = np.stack([values[cell == c].T @ values[cell == c] for c in range(CELLS)])
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_array_equal(found, jnp.swapaxes(found, 1, 2))


def test_counts_are_of_rows_in_use():
    _, cell = rows(2)
    mask = np.random.default_rng(2).random(NUM) < 0.5
    found = COUNTS(jax.device_put(cell), jax.device_put(mask), CELLS)
    assert found.dtype == jnp.int32
    assert found.tolist() == [int((mask & (cell == c)).sum()) for c in range(CELLS)]


def test_batches_equal_single_calls():
    batch = [rows(seed) for seed in range(3)]
    values, cells = (jnp.asarray(np.stack(part)) for part in zip(*batch, strict=True))
    found = jax.vmap(lambda v, c: TOTALS(v, c, CELLS))(values, cells)
    for one, value, cell in zip(*map(np.asarray, (found, values, cells)), strict=True):
        np.testing.assert_array_equal(one, TOTALS(value, cell, CELLS))


def test_derivative_reaches_rows_of_a_cell_only():
    values, cell = rows(3)
    slope = jax.jit(jax.grad(lambda v: TOTALS(v, cell, CELLS).sum()))(values)
    inside = (cell >= 0) & (cell < CELLS)
    np.testing.assert_array_equal(slope, np.repeat(inside[:, None], 3, axis=1))
