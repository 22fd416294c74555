"""Cross-fitting from sums of products, against loops over the rows of the folds."""

import numpy as np
import pytest
from brute_force_default import all_supports, held_out_error
from cell_data import assert_traced_alike
from region_data import LAYOUT, region_rows

from lisdd_jax.default import cross_fits
from lisdd_jax.statistics.supports import term_places

SUPPORTS = all_supports(3, 2)
PLACE, USED = term_places(3, 2)
COLUMNS = PLACE + LAYOUT.num_directions


@pytest.fixture(scope="module")
def rows():
    term = 4
    return region_rows(0, (60, 70, 150), [lambda columns: columns[:, term]] * 2)


def expected(rows, region, columns):
    """Held-out error of some columns in one region."""
    parts = [rows.part(region, fold) for fold in range(2)]
    return held_out_error([part[:, columns] for part in parts], [part[:, -1] for part in parts])


def test_cross_fit_is_a_loop_over_folds(rows):
    found = cross_fits.cross_fit(rows.sums.gram, COLUMNS, USED)
    for r in range(3):
        loops = [expected(rows, r, [4 + i for i in support]) for support in SUPPORTS]
        np.testing.assert_allclose(found[r], loops, rtol=1e-9)


def test_cross_fit_of_a_dependent_support_is_undefined(rows):
    columns = rows.columns.copy()
    columns[:, 5] = 2 * columns[:, 4]
    gram = np.array([[columns[rows.fold == f].T @ columns[rows.fold == f] for f in (0, 1)]])
    found = cross_fits.cross_fit(gram, COLUMNS, USED)[0]
    undefined = [support == [0, 1] for support in SUPPORTS]
    np.testing.assert_array_equal(np.isinf(found), undefined)


def test_held_out_error_of_one_set_of_columns_per_region(rows):
    columns = np.array([[0, 1, 4], [0, 1, 5], [0, 1, 6]])
    use = np.array([[True, False, True], [True, True, True], [False, False, True]])
    found = cross_fits.held_out_errors(rows.sums.gram, columns, use)
    loops = [expected(rows, r, columns[r][use[r]]) for r in range(3)]
    np.testing.assert_allclose(found, loops, rtol=1e-9)


def test_traced_alike(rows):
    def every(gram):
        fitted, determined = cross_fits.fit_supports(gram, COLUMNS, USED)
        left = cross_fits.residual_sums(gram, COLUMNS, fitted)
        return determined, left, cross_fits.cross_fit(gram, COLUMNS, USED)

    assert_traced_alike(every, rows.sums.gram)
