"""Rows far from their own neighbourhood."""

import jax
import numpy as np
import pytest

from lisdd_jax.default import outliers
from lisdd_jax.numerics import medians

NUM, CELLS = 480, 12
CELL = np.repeat(np.arange(CELLS), NUM // CELLS).astype(np.int32)
fit = jax.jit(outliers.set_aside, static_argnums=3)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    place = np.linspace(-1.7, 1.7, NUM)
    columns = np.stack([np.ones(NUM), place, rng.normal(size=NUM)])
    return columns, columns.T @ [1.0, 2.0, -1.0] + 0.3 * rng.normal(size=NUM)


def set_aside(columns, response, cell=CELL):
    return fit(jax.device_put(columns), jax.device_put(response), jax.device_put(cell), CELLS)


@pytest.mark.parametrize("size", [3.0, 1e3, 1e12])
@pytest.mark.parametrize("sided", [True, False])
def test_gross_errors_are_set_aside_and_nothing_else(size, sided):
    columns, response = rows()
    rng = np.random.default_rng(5)
    bad = rng.choice(NUM, NUM // 20, replace=False)
    sign = 1 if sided else rng.choice([-1, 1], len(bad))
    response[bad] += sign * size
    keep = np.asarray(set_aside(columns, response).keep)
    expected = np.ones(NUM, bool)
    expected[bad] = False
    np.testing.assert_array_equal(keep, expected)


def test_a_clean_table_keeps_all_rows_and_its_least_squares():
    columns, response = rows()
    found = set_aside(columns, response)
    assert bool(found.keep.all())
    for k in range(CELLS):
        own = columns.T[k == CELL]
        expected = response[k == CELL] - own @ np.linalg.lstsq(own, response[k == CELL])[0]
        np.testing.assert_allclose(np.asarray(found.residual)[k == CELL], expected, atol=1e-9)


def test_a_cluster_is_no_outlier():
    columns, response = rows()
    cluster = (CELL == 4) & (np.arange(NUM) % 2 == 0)
    response[cluster] += 30.0
    assert bool(set_aside(columns, response).keep[CELL == 4].all())


def test_a_larger_noise_sets_nothing_aside():
    columns, response = rows()
    rng = np.random.default_rng(2)
    loud = (CELL == 3) | (CELL == 4) | (CELL == 5)
    response[loud] += 2.0 * rng.normal(size=loud.sum())
    assert np.asarray(set_aside(columns, response).keep)[loud].all()


@pytest.mark.parametrize("gross", [False, True])
def test_of_many_rows_some_tell_the_scales(monkeypatch, gross):
    """Many begin early here; the same lines serve tables of any length."""
    columns, response = rows()
    if gross:
        response[::37] += 50.0
    whole = set_aside(columns, response)
    monkeypatch.setattr(medians, "_MANY_ROWS", NUM // 3)
    arrays = (jax.device_put(columns), jax.device_put(response), jax.device_put(CELL))
    some = jax.jit(lambda *given: outliers.set_aside(*given, CELLS))(*arrays)
    np.testing.assert_array_equal(some.keep, whole.keep)
    assert bool(whole.keep.all()) != gross
    # The fits are those of all rows that are kept; the scales those of a third of them.
    np.testing.assert_allclose(some.residual, whole.residual, atol=1e-9)
    np.testing.assert_allclose(some.pooled, whole.pooled, rtol=0.25)
    assert float(some.pooled) != float(whole.pooled)
