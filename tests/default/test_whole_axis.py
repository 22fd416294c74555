"""Physics and terms that act on all rows, against least squares of these rows."""

import jax
import numpy as np
import pytest
import rows_data as data
from brute_force_default import fit, residual_sum
from cell_data import assert_traced_alike, products
from region_data import LAYOUT, region_rows, term
from scipy import stats
from test_assembly import findings

from lisdd_jax.default import whole_axis
from lisdd_jax.numerics.tails import f_logsf
from lisdd_jax.prediction import predict
from lisdd_jax.results import Verdict
from lisdd_jax.statistics.supports import supports

CELLS = 5
EVERY = supports(3, 2)
INFLATION, NONE = np.float64(1.5), np.float64(0)


def sums(columns):
    """Products of the rows of five cells, and their numbers."""
    cell = np.arange(len(columns)) * CELLS // len(columns)
    return *products(columns, cell, CELLS), cell


@pytest.mark.parametrize("support", [1, 4])
def test_joint_fit_is_least_squares_with_the_noise_of_every_cell(support):
    rows = region_rows(0, (60, 70, 150), [], everywhere=term(1), scale=(1.0, 2.0, 0.5))
    gram, count, cell = sums(rows.columns)
    found = whole_axis.fit_jointly(gram, count, np.int64(support), INFLATION, NONE, LAYOUT, 2)
    chosen = [2, 3, *(4 + np.flatnonzero(EVERY[support]))]
    design, response = rows.columns[:, chosen], rows.columns[:, -1]
    theta, left = fit(design, response)
    degrees = len(left) - len(chosen)
    inverse = np.linalg.inv(design.T @ design)
    leverage = np.einsum("ni,ij,nj->n", design, inverse, design)
    squares, lost = (np.bincount(cell, part) for part in (left**2, leverage))
    noise = INFLATION * (squares / (np.bincount(cell) - lost))[cell]
    covariance = inverse @ (design.T * noise @ design) @ inverse
    np.testing.assert_allclose(found.theta, theta[:2], rtol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance[:2, :2], rtol=1e-8)
    num = len(chosen) - 2
    assert (found.place[: found.used.sum()] + 4).tolist() == chosen[2:]
    np.testing.assert_allclose(found.coefficients[:num], theta[2:], rtol=1e-9)
    np.testing.assert_allclose(found.stderr[:num], np.sqrt(np.diag(covariance)[2:]), rtol=1e-8)
    assert found.variance == pytest.approx(residual_sum(design, response) / degrees, rel=1e-9)
    wald = theta[2:] @ np.linalg.solve(covariance[2:, 2:], theta[2:]) / num
    assert found.test.statistic == pytest.approx(wald, rel=1e-8)
    assert (found.test.df_num, found.test.df_den) == (num, degrees)


def test_a_term_that_the_physics_contain_has_no_coefficient():
    rows = region_rows(0, (60, 70, 150), [])
    rows.columns[:, 4] = rows.columns[:, 2] - rows.columns[:, 3]
    gram, count, _ = sums(rows.columns)
    found = whole_axis.fit_jointly(gram, count, np.int64(0), np.float64(1), NONE, LAYOUT, 2)
    assert found.coefficients[0] == 0
    assert np.isnan(found.stderr[0])
    assert found.test.df_num == 0
    np.testing.assert_allclose(found.theta, fit(rows.columns[:, 2:4], rows.columns[:, -1])[0])


def test_the_terms_test_has_its_level():
    """Of 400 sound tables whose cells have unequal noise."""
    num, rejected = 400, 0
    for seed in range(num):
        rows = region_rows(5000 + seed, (40, 40, 80), [], noise=0.0)
        drawn = np.random.default_rng(seed).normal(size=160)
        rows.columns[:, -1] += np.array([1.0, 2.0, 0.5])[rows.region] * drawn
        gram, count, _ = sums(rows.columns)
        found = whole_axis.fit_jointly(gram, count, np.int64(3), np.float64(1), NONE, LAYOUT, 2)
        rejected += stats.f.sf(*found.test) < 0.05
    assert abs(rejected / num - 0.05) <= 5 * np.sqrt(0.05 * 0.95 / num)


def joint(support=1):
    rows = region_rows(0, (60, 70, 150), [], everywhere=term(1))
    gram, count, _ = sums(rows.columns)
    found = whole_axis.fit_jointly(gram, count, np.int64(support), np.float64(1), NONE, LAYOUT, 2)
    return found, np.asarray(f_logsf(*map(jax.device_put, found.test)))


def test_nothing_changes_where_nothing_acts():
    before = findings()
    found = whole_axis.spread_over_axis(before, *joint(), np.int32(80))
    jax.tree.map(np.testing.assert_array_equal, found, before)


def test_the_law_is_that_of_all_rows_where_terms_act():
    fitted, _ = joint()
    law = findings().law
    for acts, expected in ((True, fitted), (False, law)):
        found = whole_axis.law_of_all_rows(fitted, law, np.bool_(acts))
        for name, part in found._asdict().items():
            np.testing.assert_array_equal(part, getattr(expected, name))


def test_the_whole_axis_is_the_region():
    everywhere = findings().everywhere._replace(support=np.int64(1), errors=np.arange(6.0))
    fitted, log_p = joint()
    before = findings(acts=np.bool_(True), everywhere=everywhere)
    found = whole_axis.spread_over_axis(before, fitted, log_p, np.int32(80))
    assert found.members.any(1).tolist() == [True, False, False]
    assert found.gains[0] == pytest.approx(-min(log_p + np.log(6), 0))
    assert found.settled.lower[0] == -np.inf
    assert found.settled.upper[0] == np.inf
    assert np.isnan(found.settled.lower_interval).all()
    assert found.settled.num_rows.tolist() == [80, 0, 0]
    assert found.form.support[0] == 1
    np.testing.assert_array_equal(found.form.errors[0], np.arange(6.0))
    assert np.flatnonzero(found.form.equivalent[0]).tolist() == [1]
    np.testing.assert_array_equal(found.terms.coefficients[0], fitted.coefficients)
    np.testing.assert_array_equal(found.final.map_rows[:, 3], found.final.map_rows[:, 0])


def test_exact_data_have_the_noise_of_rounding():
    rows = region_rows(0, (60, 70, 150), [], everywhere=term(1), noise=0.0)
    gram, count, _ = sums(rows.columns)
    floor = np.float64(1e-20)
    found = whole_axis.fit_jointly(gram, count, np.int64(1), np.float64(1), floor, LAYOUT, 2)
    assert found.determined
    assert 1e-20 <= found.variance < 1e-12
    assert found.stderr[0] > 0
    assert np.isfinite(found.test.statistic)
    assert found.test.df_num == 1


@pytest.fixture(scope="module")
def bent():
    """A square of the axis on all rows, and its diagnosis."""
    table = data.straight(3, lambda axis, first: 0.1 * axis**2)
    return table, jax.device_get(data.run(table))


def test_physics_and_term_are_those_of_all_rows(bent):
    table, found = bent
    assert found.verdict == Verdict.NO_CLEAN_REGIME
    assert found.everywhere.tolist() == [False, False, True, False, False, False, False]
    assert not found.outliers.any()
    design = np.column_stack([table.design, table.features[:, 2]])
    theta, left = fit(design, table.response)
    np.testing.assert_allclose(found.coefficients, theta[:3], rtol=1e-8)
    assert found.regions.coefficients[0, 2] == pytest.approx(theta[3], rel=1e-8)
    assert found.scale == pytest.approx(np.sqrt(left @ left / (len(left) - 4)), rel=1e-8)
    # One noise everywhere, known to a quarter in each of some twenty cells.
    plain = found.scale**2 * np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(np.diag(found.covariance), np.diag(plain)[:3], rtol=0.25)
    assert (np.abs(found.coefficients - [1, 2, -1]) < 4 * np.sqrt(np.diag(found.covariance))).all()


def test_the_region_is_the_whole_axis_without_a_certificate(bent):
    table, found = bent
    assert found.regions.present.tolist() == [True, False, False, False]
    assert found.regions.open_below[0]
    assert found.regions.open_above[0]
    assert found.regions.count[0] == data.NUM
    assert found.regions.log_p_value[0] < -50
    assert found.cells.flagged.all()
    assert not found.test.reject
    assert not found.form.certified
    predicted = predict(found, table.design, table.axis, table.features)
    corrected = table.design @ found.coefficients + table.features @ found.regions.coefficients[0]
    np.testing.assert_allclose(predicted, corrected, rtol=1e-9)


def test_traced_alike():
    rows = region_rows(0, (60, 70, 150), [], everywhere=term(1))
    gram, count, _ = sums(rows.columns)

    def run(gram, count, support, inflation):
        return whole_axis.fit_jointly(gram, count, support, inflation, 0 * inflation, LAYOUT, 2)

    assert_traced_alike(run, gram, count, np.int64(4), INFLATION)
