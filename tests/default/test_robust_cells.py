"""Robust fits of single cells: what they are without gross errors, and how many they bear."""

import jax
import numpy as np
import pytest

from lisdd_jax.default import robust_cells

CELLS, EACH, COLUMNS = 20, 30, 8
NUM = CELLS * EACH
CELL = np.repeat(np.arange(CELLS), EACH).astype(np.int32)


@jax.jit
def fit(columns, response):
    problem = robust_cells.gather_cells(columns, response, jax.device_put(CELL), CELLS)
    return robust_cells.fit_robustly(problem)


def rows(seed):
    rng = np.random.default_rng(seed)
    columns = np.concatenate([np.ones((1, NUM)), rng.normal(size=(COLUMNS - 1, NUM))])
    return columns, rng.normal(size=NUM), rng


def test_without_far_rows_it_is_least_squares():
    columns, response, _ = rows(0)
    found = fit(columns, np.clip(response, -2, 2))
    assert not bool(found.suspicious)
    for k in range(CELLS):
        own = columns[:, k == CELL].T
        expected = np.linalg.lstsq(own, np.clip(response, -2, 2)[k == CELL])[0]
        np.testing.assert_allclose(found.coefficients[:, k], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_tenth_of_gross_errors_on_one_side_stands_out_in_cells_of_many_columns(seed):
    """Begun with all eight columns alone, two or three of 20 cells follow some of them."""
    columns, response, rng = rows(seed)
    bad = rng.random(NUM) < 0.1
    response[bad] += 10.0
    found = fit(columns, response)
    assert bool(found.suspicious)
    far = np.abs(np.asarray(found.residual)) > 5
    missed = [k for k in range(CELLS) if (bad & ~far & (k == CELL)).any()]
    assert len(missed) <= 1


def test_slopes_of_its_own_are_those_of_the_cell():
    """Where a level does not describe the rows as well, all columns do."""
    columns, response, _ = rows(2)
    slope = np.where(CELL == 3, 6.0, 0.0)
    response = response + slope * columns[1]
    response[::29] += 40.0
    found = np.asarray(fit(columns, response).coefficients)
    assert found[1, 3] == pytest.approx(6.0, abs=1.0)
    assert np.abs(np.delete(found[1], 3)).max() < 1.0
