"""Cross-fitting from sums of products, against loops over the rows of the folds."""

import numpy as np
import pytest
from brute_force_default import SPLITS, all_supports, held_out_error
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
    errors = []
    for split in SPLITS:
        parts = [rows.part(region, half) for half in split]
        targets = [part[:, -1] for part in parts]
        errors.append(held_out_error([part[:, columns] for part in parts], targets))
    return np.mean(errors)


def test_halves_are_sums_of_folds(rows):
    gram, count = rows.sums
    found, number = cross_fits.halves(gram, -3), cross_fits.halves(count, -1)
    for k, split in enumerate(SPLITS):
        for half, folds in enumerate(split):
            np.testing.assert_array_equal(found[:, k, half], gram[:, folds].sum(1))
            np.testing.assert_array_equal(number[:, k, half], count[:, folds].sum(1))


def test_cross_fit_is_a_loop_over_splits(rows):
    found = cross_fits.cross_fit(rows.sums.gram, COLUMNS, USED)
    for r in range(3):
        loops = [expected(rows, r, [4 + i for i in support]) for support in SUPPORTS]
        np.testing.assert_allclose(found[r], loops, rtol=1e-9)


def test_cross_fit_of_a_dependent_support_is_undefined(rows):
    columns = rows.columns.copy()
    columns[:, 5] = 2 * columns[:, 4]
    gram = np.array([[columns[rows.fold == f].T @ columns[rows.fold == f] for f in range(4)]])
    found = cross_fits.cross_fit(gram, COLUMNS, USED)[0]
    undefined = [support == [0, 1] for support in SUPPORTS]
    np.testing.assert_array_equal(np.isinf(found), undefined)


def test_a_split_that_leaves_a_half_too_few_rows_does_not_count(rows):
    """Two large blocks and a row: they must not be in one half."""
    first, second, last = rows.part(0, 0), rows.part(0, 1), rows.part(0, 3)[:1]
    gram = np.array([[part.T @ part for part in (first, second, last[:0], last)]])
    errors = []
    for large in ((first, second), (second, first)):
        halves = [large[0], np.concatenate([large[1], last])]
        targets = [half[:, -1] for half in halves]
        errors.append(held_out_error([half[:, [4]] for half in halves], targets))
    found = cross_fits.cross_fit(gram, COLUMNS, USED)[0]
    assert found[0] == pytest.approx(np.mean(errors), rel=1e-9)
    alone = cross_fits.held_out_errors(gram, COLUMNS[:1], USED[:1])[0]
    assert alone == pytest.approx(np.mean(errors), rel=1e-9)


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
