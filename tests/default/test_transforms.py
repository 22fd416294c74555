"""The default method under transforms and changes of the input that change no answer."""

import default_data as data
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.config import Config
from lisdd_jax.diagnosis import diagnose

EDGES = jnp.linspace(-3.3, 3.3, 15)
KEY = jax.random.key(7)


def whole(table, config=None, edges=EDGES):
    *arrays, mask = table
    return diagnose(*arrays, mask=mask, key=KEY, edges=edges, config=config)


def assert_same(actual, expected, rtol=1e-8):
    for name in ("verdict", "status", "num_rows"):
        assert getattr(actual, name) == getattr(expected, name), name
    for part in ("support", "present"):
        np.testing.assert_array_equal(
            getattr(actual.regions, part), getattr(expected.regions, part)
        )
    np.testing.assert_array_equal(actual.cells.flagged, expected.cells.flagged)
    for name in ("coefficients", "scale"):
        np.testing.assert_allclose(getattr(actual, name), getattr(expected, name), rtol=rtol)
    for name in ("lower", "upper", "coefficients", "stderr", "lower_interval"):
        left, right = getattr(actual.regions, name), getattr(expected.regions, name)
        np.testing.assert_allclose(left, right, rtol=rtol, err_msg=name)
    np.testing.assert_allclose(actual.test.statistic, expected.test.statistic, rtol=1e-6)


@pytest.fixture(scope="module")
def table():
    return data.oscillator(3, num=1500)


@pytest.fixture(scope="module")
def expected(table):
    return whole(table)


def test_rows_may_come_in_any_order(table, expected):
    order = np.random.default_rng(0).permutation(data.NUM_ROWS)
    assert_same(whole(data.Rows(*(array[order] for array in table))), expected)


def test_no_key_decides(table, expected):
    *arrays, mask = table
    other = diagnose(*arrays, mask=mask, key=jax.random.key(8), edges=EDGES)
    for found, before in zip(jax.tree.leaves(other), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(found, before)


def test_rows_out_of_use_do_not_matter(table, expected):
    used = table.mask
    junk = [np.where(used.reshape(-1, *[1] * (a.ndim - 1)), a, 1e6) for a in table[:-1]]
    assert_same(whole(data.Rows(*junk, used)), expected)


def test_scale_of_columns_does_not_matter(table, expected):
    scale = np.array([1e3, 1e-3])
    terms = 10.0 ** np.arange(-3, 3)
    scaled = table._replace(design=table.design * scale, features=table.features * terms)
    found = whole(scaled)
    np.testing.assert_allclose(found.coefficients * scale, expected.coefficients, rtol=1e-8)
    coefficients = np.asarray(found.regions.coefficients) * terms
    np.testing.assert_allclose(coefficients, expected.regions.coefficients, rtol=1e-8)
    np.testing.assert_allclose(found.regions.lower, expected.regions.lower, rtol=1e-12)


def test_numbers_do_not_trace_again(table):
    """What is traced once is compiled once; compiling it here would show no more."""
    traces = []

    @jax.jit
    def traced(key, config):
        traces.append(None)
        *arrays, mask = (jnp.asarray(array[:256]) for array in table)
        return diagnose(*arrays, key=key, edges=EDGES, mask=mask, config=config)

    programs = [
        traced.trace(KEY, Config(alpha=alpha, alpha_cell=alpha / 10, max_terms=1, max_regions=2))
        for alpha in (0.01, 0.05)
    ]
    assert len(traces) == 1
    assert programs[0].jaxpr is programs[1].jaxpr
