import brute_force
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.config import PublishedConfig
from lisdd_jax.dataset import prepare
from lisdd_jax.published import iteration

NUM, CELLS = 200, 6
CONFIG = PublishedConfig().checked(jnp.float64)
EDGES = np.linspace(-1, 1, CELLS + 1)


def table(seed, weight=3.0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, NUM)
    design = np.column_stack([np.ones(NUM), x])
    response = design @ [100.0, 2.0] + np.where(x > 0.4, weight * x**2, 0.0)
    return design, response + 0.2 * rng.normal(size=NUM), x


@jax.jit
def _search(design, response, x, mask, initial, edges):
    data, _ = prepare(design, response, x, jnp.zeros((NUM, 0)), edges, mask)
    start = iteration.begin(data, data.frame.solution(initial))
    return data, start, iteration.search(data, start, CONFIG)


def search(*arrays):
    """Edges known inside of a trace would be taken apart by programs of their own."""
    return jax.device_get(_search(*arrays, EDGES))


@pytest.mark.parametrize("seed", range(4))
def test_the_search_is_the_loop_of_the_definition(seed):
    design, response, x = table(seed, weight=[3.0, 0.0, 1.0, 8.0][seed])
    mask = np.arange(NUM) >= 17 * seed
    cell = [brute_force.cell_of(value, EDGES) for value in x[mask]]
    first = np.array([100.5, 1.0])
    expected = brute_force.clean_regime(design[mask], response[mask], cell, CELLS, first, 1e-3)
    _, _, found = search(design, response, x, mask, first)
    assert found.flagged.tolist() == expected["flagged"]
    assert found.num_iterations == expected["num_iterations"]
    assert found.scale == pytest.approx(expected["scale"], rel=1e-10)
    np.testing.assert_allclose(found.test.statistic, expected["statistic"], rtol=1e-9)
    assert bool(found.stable) == (found.num_iterations < 4)


def test_the_last_test_has_the_values_of_the_search():
    design, response, x = table(0)
    data, start, found = search(design, response, x, np.ones(NUM, bool), np.array([100.0, 2.0]))
    test, scale = jax.jit(iteration.last_test)(data, start, found)
    np.testing.assert_array_equal(test.statistic, found.test.statistic)
    assert scale == found.scale


def test_residuals_that_are_rounding_have_no_scale():
    design, _, x = table(0)
    exact = design @ [100.0, 2.0]
    _, start, found = search(design, exact, x, np.ones(NUM, bool), np.array([100.0, 2.0]))
    assert found.scale == 0
    assert not found.flagged.any()
    assert 0 < start.smallest_scale < 1e-11
