import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import sums

SUM = jax.jit(sums.sum_products, static_argnums=2)


def by_loops(columns, cell, num_cells, weights):
    total = np.zeros((num_cells, len(columns), len(columns)))
    for k in range(num_cells):
        own = columns[:, cell == k]
        total[k] = (own * weights[cell == k]) @ own.T
    return total


@pytest.mark.parametrize("num", [0, 1, 100])
@pytest.mark.parametrize("num_cells", [2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_products_per_cell(num, num_cells, weighted):
    rng = np.random.default_rng(0)
    columns, cell = rng.normal(size=(4, num)), rng.integers(-1, 7, size=num)
    weights = rng.uniform(size=num) if weighted else np.ones(num)
    given = jax.device_put(weights) if weighted else None
    found = SUM(jax.device_put(columns), jax.device_put(cell), num_cells, given)
    assert found.shape == (num_cells, 4, 4)
    np.testing.assert_allclose(
        found, by_loops(columns, cell, num_cells, weights), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("more", [0, 1, 1000])
def test_long_tables_are_summed_piece_by_piece(monkeypatch, more):
    """A piece is made short here; the same lines serve tables of any length."""
    monkeypatch.setattr(sums, "_PIECE", 64)
    num = 128 + more
    rng = np.random.default_rng(1)
    columns, cell = rng.normal(size=(3, num)), rng.integers(0, 6, size=num)
    weights = rng.uniform(size=num)
    found = jax.jit(lambda *args: sums.sum_products(args[0], args[1], 5, args[2]))(
        *map(jax.device_put, (columns, cell, weights))
    )
    np.testing.assert_allclose(found, by_loops(columns, cell, 5, weights), rtol=1e-10, atol=1e-12)


def test_type_is_that_of_the_columns():
    found = SUM(jnp.ones((2, 5), jnp.float32), jnp.zeros(5, jnp.int32), 5, None)
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found, found.mT)
