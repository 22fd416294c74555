"""What a diagnosis says follows from its rows, its regions and its outliers by least squares."""

import itertools

import default_data as data
import jax
import numpy as np
import pytest
from brute_force_default import SPLITS, fit, partial_f, residual_sum
from scipy import stats

from lisdd_jax.default import conclusion
from lisdd_jax.diagnosis import diagnose
from lisdd_jax.results import Verdict
from lisdd_jax.statistics.splits import dealt_folds

EDGES = np.linspace(-3.3, 3.3, 15)
KEY = jax.random.key(7)
CUBIC = 1


def diagnosed(table):
    *arrays, mask = table
    found = diagnose(*arrays, mask=mask, key=KEY, edges=jax.device_put(EDGES))
    return jax.tree.map(np.asarray, found)


@pytest.fixture(scope="module")
def table():
    """Two bands in which a cubic term is missing; no row is far from all others, no run of rows
    up to an end is off by so much that the law does without it (``test_leaks``), and no kink that
    is merely possible widens an interval."""
    return data.oscillator(18, num=1500, beta=0.08)


@pytest.fixture(scope="module")
def found(table):
    result = diagnosed(table)
    assert not result.outliers.any()
    return result


@pytest.fixture(scope="module")
def sound():
    """A table of the law, and its diagnosis."""
    table = data.oscillator(5, num=1500, beta=0.0)
    return table, diagnosed(table)


def regions(found):
    return np.flatnonzero(found.regions.present)


def inside(table, found):
    """Rows of the regions."""
    ends = zip(found.regions.lower, found.regions.upper, found.regions.present, strict=True)
    return np.array([p & (table.axis >= a) & (table.axis < b) & table.mask for a, b, p in ends])


def law_rows(table, found):
    """Rows that lie in no region, nor between the bounds of an end."""
    rows = table.mask & ~inside(table, found).any(axis=0)
    for r in regions(found):
        low, high = found.regions.lower_interval[r, 0], found.regions.upper_interval[r, 1]
        rows &= ~((table.axis > low) & (table.axis < high))
    return rows


def test_what_was_found(found):
    assert found.verdict == Verdict.DISCREPANCY
    assert len(regions(found)) == 2
    assert found.regions.shared
    for r in regions(found):
        assert np.flatnonzero(found.regions.support[r]).tolist() == [CUBIC]
    # At the inner ends the term is little more than the noise.
    np.testing.assert_allclose(found.regions.lower[:2], [-2.7, 1.7], atol=0.2)
    np.testing.assert_allclose(found.regions.upper[:2], [-1.7, 2.7], atol=0.2)


def test_law_is_least_squares_outside_of_the_regions(table, found):
    rows = law_rows(table, found)
    theta, left = fit(table.design[rows], table.response[rows])
    np.testing.assert_allclose(found.coefficients, theta, rtol=1e-9)
    variance = left @ left / (rows.sum() - 2)
    assert found.scale == pytest.approx(np.sqrt(variance), rel=0.05)
    expected = variance * np.linalg.inv(table.design[rows].T @ table.design[rows])
    # The law has a scatter in the four directions of each of 24 cells, and cells of about sixty
    # rows a variance of their own, which is known to a quarter.
    scattered = found.law_scatter**2 * (table.mask.sum() / 24) / 4 / variance
    expected = expected * (1 + scattered)
    np.testing.assert_allclose(np.diag(found.covariance), np.diag(expected), rtol=0.25)


def test_terms_are_fitted_on_the_rows_of_all_regions_that_share_them(table, found):
    rows = inside(table, found).any(axis=0)
    residual = table.response - table.design @ found.coefficients
    term = table.features[rows][:, [CUBIC]]
    weight, left = fit(term, residual[rows])
    variance = (8 * found.scale**2 + left @ left) / (8 + rows.sum() - 1)
    inverse = 1 / np.sum(term**2)
    carried = inverse * term.T @ table.design[rows]
    # Of rows that depend on each other fewer count, and cells show less of their noise (3.6).
    units = found.dependence.rows
    shown = 1 - 2 * (units - 1) / (table.mask.sum() / 24 - 2)
    error = variance * units / shown * inverse + carried @ found.covariance @ carried.T
    for r in regions(found):
        assert found.regions.count[r] == inside(table, found)[r].sum()
        assert found.regions.coefficients[r, CUBIC] == pytest.approx(weight[0], rel=1e-9)
        assert found.regions.stderr[r, CUBIC] == pytest.approx(np.sqrt(error[0, 0]), rel=1e-9)
    np.testing.assert_array_equal(found.form.coefficients, found.regions.coefficients[0])


def held_out_test(table, found, choosing):
    """The test, on the other rows, of the terms that the rows ``choosing`` choose."""
    rows = inside(table, found).any(axis=0)
    residual = table.response - table.design @ found.coefficients
    supports = [s for k in (1, 2) for s in itertools.combinations(range(6), k)]
    mine = rows & choosing
    price = found.scale**2 * np.log(max((inside(table, found)[0] & choosing).sum(), 2))
    costs = [
        residual_sum(table.features[mine][:, support], residual[mine]) + price * len(support)
        for support in supports
    ]
    support = list(supports[int(np.argmin(costs))])
    other = table.mask & ~choosing
    extra = np.where(rows[other][:, None], table.features[other][:, support], 0.0)
    return partial_f(table.design[other], extra, table.response[other])


def test_certificate_is_the_median_of_the_weaker_held_out_tests(table, found):
    order = np.argsort(np.where(table.mask, table.axis, np.inf), kind="stable")
    fold = np.empty(len(order), int)
    fold[order] = dealt_folds(jax.device_put(np.arange(len(order), dtype=np.int32)), 4)
    weaker = []
    for split in SPLITS:
        halves = [table.mask & np.isin(fold, half) for half in split]
        tests = [held_out_test(table, found, half) for half in halves]
        weaker.append(max((stats.f.logsf(*test), test) for test in tests))
    log_p, test = sorted(weaker)[1]
    shown = [found.test.statistic, found.test.df_num, found.test.df_den]
    np.testing.assert_allclose(shown, test, rtol=1e-7)
    assert found.test.log_p_value == pytest.approx(log_p + np.log(2), rel=1e-7)
    assert found.test.reject
    assert found.form.certified


def test_map_shows_the_residuals_of_the_law(table, found):
    residual = table.response - table.design @ found.coefficients
    within = inside(table, found).any(axis=0)
    for k in range(14):
        own = table.mask & (table.axis >= EDGES[k]) & (table.axis < EDGES[k + 1])
        assert found.cells.count[k] == own.sum()
        assert found.cells.mean[k] == pytest.approx(np.mean(residual[own]), rel=1e-7)
        assert found.cells.rms[k] == pytest.approx(np.sqrt(np.mean(residual[own] ** 2)), rel=1e-8)
        assert found.cells.flagged[k] == (2 * (own & within).sum() >= own.sum())


def test_errors_of_a_law_called_clean_carry_what_was_not_noticed(monkeypatch):
    """Least squares of all rows, and what ``exactness`` tells of a cubic too small to notice."""
    table = data.oscillator(7, num=1500, beta=0.005)
    found = diagnosed(table)
    assert found.verdict == Verdict.CLEAN
    assert not found.regions.present.any()
    rows = table.mask
    design, response = table.design[rows], table.response[rows]
    theta, left = fit(design, response)
    np.testing.assert_allclose(found.coefficients, theta, rtol=1e-9)
    told = {}

    def without(*arguments):
        told["exact"] = judge_law(*arguments)
        return told["exact"]._replace(unnoticed=0 * told["exact"].unnoticed)

    def noted(*arguments):
        told["units"] = units_of(*arguments)
        return told["units"]

    judge_law, units_of = conclusion.judge_law, conclusion._units
    monkeypatch.setattr(conclusion, "judge_law", without)
    monkeypatch.setattr(conclusion, "_units", noted)
    alone = diagnosed(table).covariance
    plain = left @ left / (len(left) - 2) * np.linalg.inv(design.T @ design)
    # The library weighs cells by their noise, which all is the same here but for chance.
    np.testing.assert_allclose(np.diag(alone), np.diag(plain), rtol=0.35)
    more = told["units"].law_covariance(told["exact"].unnoticed)
    np.testing.assert_allclose(found.covariance, alone + more, rtol=1e-9, atol=1e-15)
    assert np.diag(more).max() > 0.1 * np.diag(alone).max()


def test_nothing_is_tested_where_nothing_stands_out(sound):
    _, found = sound
    assert np.isnan(found.test.p_value)
    assert not found.test.reject
    assert not found.form.certified
    assert not found.form.support.any()
    assert not found.cells.flagged.any()
    assert found.rival.share == 0
    assert np.isnan(found.rival.coefficients).all()


def test_evidence_of_place_and_regions(found):
    assert found.place.certified
    assert found.place.p_value == pytest.approx(np.exp(found.place.log_p_value))
    own = found.place.region_log_p_value[regions(found)]
    assert (own < np.log(0.05)).all()
    # A region beside the others cannot gain more than all of them.
    assert (own >= found.place.log_p_value).all()
    np.testing.assert_allclose(found.regions.log_p_value[regions(found)], own)
    np.testing.assert_allclose(found.regions.statistic[regions(found)], -2 * own)
