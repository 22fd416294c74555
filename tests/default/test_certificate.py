import numpy as np
import pytest
from brute_force_default import SPLITS, all_supports, partial_f
from cell_data import assert_traced_alike
from region_data import LAYOUT, region_rows
from scipy import stats

from lisdd_jax.default import certificate
from lisdd_jax.statistics.f_tests import log_p_values
from lisdd_jax.statistics.supports import term_places

SUPPORTS = all_supports(3, 2)
PLACE, USED = term_places(3, 2)
BOTH = np.ones(2, bool)


def terms(columns):
    return columns[:, 4] - 0.5 * columns[:, 6]


@pytest.fixture(scope="module")
def rows():
    return region_rows(0, (50, 60, 120), [terms, terms])


@pytest.fixture(scope="module")
def weighted():
    """The same rows divided by noise of their own."""
    return region_rows(0, (50, 60, 120), [terms, terms], scale=(2.0, 0.5, 1.0))


def extra_columns(rows, chosen, shared, folds, present=(True, True)):
    """Terms inside the regions, one set for all or a set for each."""
    own = np.isin(rows.fold, folds)
    held, region = rows.columns[own], rows.region[own]
    found = []
    for r in range(rows.num_regions):
        columns = held[:, [4 + i for i in SUPPORTS[chosen[r]]]]
        found.append(np.where((region == r)[:, None] & present[r], columns, 0.0))
    return held, (sum(found) if shared else np.column_stack(found))


def expected(rows, chosen, shared, folds, present=(True, True)):
    held, extra = extra_columns(rows, chosen, shared, folds, present)
    return partial_f(held[:, LAYOUT.physics], extra, held[:, -1])


CHOSEN = np.array([[[0, 4], [3, 1]], [[2, 2], [0, 0]], [[1, 3], [5, 4]]])
"""Supports of two regions that either half of every split chose."""
CHOICES = [((0, 0), True), ((3, 3), True), ((0, 2), False), ((3, 5), False)]


@pytest.mark.parametrize("chosen, shared", CHOICES)
def test_partial_f_is_that_of_residual_sums(rows, chosen, shared):
    for fold in range(4):
        found = certificate.partial_f_of_regions(
            rows.sums.gram[:, fold],
            rows.sums.num_rows[:, fold].sum(),
            PLACE[list(chosen)] + 4,
            USED[list(chosen)],
            np.bool_(shared),
            LAYOUT,
        )
        np.testing.assert_allclose(found, expected(rows, chosen, shared, fold), rtol=1e-8)


@pytest.mark.parametrize("present", [(True, True), (True, False)])
def test_either_half_tests_what_the_other_chose(rows, weighted, present):
    arguments = (CHOSEN, np.array(present), np.bool_(False), LAYOUT, 2)
    plain, robust = certificate.held_out(rows.sums, weighted.sums, *arguments)
    for part, found in ((rows, plain), (weighted, robust)):
        for k, split in enumerate(SPLITS):
            for half in range(2):
                ratio = expected(part, CHOSEN[k, half], False, split[1 - half], present)
                one = [part[k, half] for part in found]
                np.testing.assert_allclose(one, ratio, rtol=1e-8, atol=1e-10)


def test_p_values_are_those_of_the_f_distribution(rows):
    arguments = (CHOSEN, BOTH, np.bool_(False), LAYOUT, 2)
    plain, _ = certificate.held_out(rows.sums, rows.sums, *arguments)
    (log_p,) = log_p_values(plain)
    for k, split in enumerate(SPLITS):
        for half in range(2):
            ratio = expected(rows, CHOSEN[k, half], False, split[1 - half])
            np.testing.assert_allclose(log_p[k, half], stats.f.logsf(*ratio), rtol=1e-7)


def test_terms_that_the_physics_contain_do_not_count(rows):
    columns = rows.columns.copy()
    columns[:, 5] = np.where(rows.region == 0, columns[:, 2], columns[:, 5])
    columns[rows.region != 0, 2] = 0.0
    columns[:, -1] += 0.3 * columns[:, 2]
    gram = np.array([columns[rows.region == r].T @ columns[rows.region == r] for r in range(3)])
    chosen = [SUPPORTS.index([1]), SUPPORTS.index([0])]
    found = certificate.partial_f_of_regions(
        gram, np.float64(len(columns)), PLACE[chosen] + 4, USED[chosen], np.bool_(False), LAYOUT
    )
    inside = (rows.region == 1)[:, None]
    extra = np.where(inside, columns[:, [4]], 0.0)
    np.testing.assert_allclose(found, partial_f(columns[:, 2:4], extra, columns[:, -1]), rtol=1e-7)
    assert found.df_num == 1


def test_terms_without_effect_are_confirmed_at_the_level():
    """The F test's size on 300 tables whose regions obey the law."""
    num, rejected = 300, 0
    for seed in range(num):
        sound = region_rows(3000 + seed, (40, 40, 80), [])
        found = certificate.partial_f_of_regions(
            sound.sums.gram[:, :2].sum(1),
            sound.sums.num_rows[:, :2].sum(),
            PLACE[[0, 3]] + 4,
            USED[[0, 3]],
            np.bool_(False),
            LAYOUT,
        )
        rejected += stats.f.sf(*found) < 0.05
    assert abs(rejected / num - 0.05) <= 5 * np.sqrt(0.05 * 0.95 / num)


def test_traced_alike(rows, weighted):
    def every(sums, weighted, chosen, present, shared):
        return certificate.held_out(sums, weighted, chosen, present, shared, LAYOUT, 2)

    assert_traced_alike(every, rows.sums, weighted.sums, CHOSEN, BOTH, np.bool_(False))
