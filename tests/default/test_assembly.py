"""From working units to those of the data, with findings made by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.config import Config
from lisdd_jax.default import assembly
from lisdd_jax.default.cells import SortedCells
from lisdd_jax.default.dependence import RowDependence
from lisdd_jax.default.everywhere import Everywhere
from lisdd_jax.default.exactness import ExactnessTest
from lisdd_jax.default.final_sums import Final
from lisdd_jax.default.findings import Findings, Units
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.form import ChosenForm
from lisdd_jax.default.outcome import Map, Terms
from lisdd_jax.default.physics import Physics
from lisdd_jax.default.regions import FoundPlace
from lisdd_jax.default.row_noise import CellNoise
from lisdd_jax.default.settling import Settled
from lisdd_jax.numerics.frame import Frame
from lisdd_jax.results import Verdict
from lisdd_jax.statistics.f_tests import FRatio
from lisdd_jax.status import Status

CONFIG = Config()
CENTER, TRANSFORM = np.array([0.0, 3.0]), np.array([[2.0, 0.3], [0.0, 0.5]])
UNITS = Units(
    response=np.float64(4.0),
    initial=np.array([1.5, -0.5]),
    terms=np.array([10.0, 0.1, 2.0]),
    frame=Frame(
        center=CENTER,
        transform=TRANSFORM,
        constant=np.array([1.0, 0.0]),
        response_center=np.float64(7.0),
        independent=np.ones(2, bool),
    ),
    edges=np.array([0.0, 1.0, 2.0, 3.0, 4.0]),
)
SUPPORTS = [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}]
NAN, INF = np.nan, np.inf
DEGREES = np.array([[50.0, 51], [52, 53], [54, 55]])
WEAK = np.array([[-4.0, -1.0], [-20.0, -1.0], [-40.0, -30.0]])
"""Log p-values of which the weaker halves have a median of -1."""


def findings(**changes):
    """Two regions in three slots: one inside the axis, one up to its end."""
    depend = RowDependence(*map(np.float64, (0.1, 0.2, 1.5, 2, 1, 0, 0.05)), True, False, False)
    ratio = FRatio(np.arange(1.0, 5), np.full(4, 3.0), np.array([9.0, 9, 0, 9]))
    shape = np.zeros((3, 6))
    found = Findings(
        look=FirstLook(
            keep=np.ones(4, bool),
            scale=np.float64(1),
            dependence=depend,
            cells=SortedCells(np.zeros(4, np.int32), np.arange(5, dtype=np.int32), np.int32(4)),
            full=np.bool_(True),
            trusted=np.zeros(4, bool),
            places=np.array([0.0, 0.9, 2.1, 3.1, 4.0]),
            noise=CellNoise(np.ones(4), np.ones(4)),
            exponents=np.zeros((4, 2)),
            row_noise=np.array([0.5, 1.0, 1.0, 2.0]),
        ),
        place=FoundPlace(
            gain=np.float64(9.0),
            cost=np.float64(100.0),
            clean=np.array([1, 0, 1, 0], bool),
            theta=np.array([0.1, 0.2]),
            scatter=np.int64(0),
            rival_gap=np.float64(2.5),
            rival=np.array([0, 1, 0, 1], bool),
            rival_theta=np.array([-0.3, 0.4]),
            other_rows=np.float64(0),
            theta_all=np.zeros(2),
            scatter_all=np.int64(0),
        ),
        exactness=ExactnessTest(
            np.float64(16.0),
            np.float64(-5.0),
            np.int32(1),
            np.int32(4),
            np.zeros(2),
            np.float64(-5.0),
        ),
        scatter=np.float64(0.05),
        variance=np.float64(0.25),
        certified=np.bool_(True),
        gain=np.float64(9.5),
        members=np.array([[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool),
        gains=np.array([5.0, 8.0, 0.0]),
        form=ChosenForm(
            support=np.array([1, 4, 0]),
            shared=np.bool_(False),
            errors=np.array([[6.0, 2, 6, 2.1, 6, INF], [8, 8, 8, 8, 4, 8], [INF] * 6]),
            equivalent=np.array([[0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0], [0] * 6], bool),
            usable=np.array([True, True, False]),
            change=shape[:, :4] > 0,
            lacking=np.array([True, False, True]),
            error=np.array([2.0, 4.0, 0.0]),
            use=np.zeros((3, 7), bool),
        ),
        terms=Terms(
            place=np.array([[1, 1], [0, 2], [0, 0]]),
            used=np.array([[1, 0], [1, 1], [0, 0]], bool),
            coefficients=np.array([[0.5, 0.0], [2.0, -3.0], [0.0, 0.0]]),
            stderr=np.array([[0.1, NAN], [0.2, 0.3], [NAN, NAN]]),
        ),
        settled=Settled(
            lower=np.array([0.9, 3.1, NAN]),
            upper=np.array([2.1, INF, NAN]),
            lower_interval=np.array([[0.8, 1.0], [3.0, 3.2], [NAN, NAN]]),
            upper_interval=np.array([[2.0, 2.2], [NAN, NAN], [NAN, NAN]]),
            is_kink=np.array([[True, False, False], [False, False, False]]),
            softness=np.array([[0.3, 0.0, 0.0], [0.0, 0.0, 0.0]]),
            slot=np.zeros(4, np.int32),
            kept=np.ones(4, bool),
            law=np.ones(4, bool),
            tail=np.zeros(4, bool),
            num_rows=np.array([20, 40, 0], np.int32),
            outlier=np.array([False, True, False, False]),
        ),
        final=Final(
            law=None,
            regions=None,
            weighted=None,
            curved=None,
            map_all=None,
            map_law=None,
            map_rows=np.array([[20.0, 20, 20, 0], [20, 19, 5, 10], [20, 20, 12, 9], [0] * 4]),
        ),
        law=Physics(np.array([0.1, 0.2]), np.array([[0.04, 0.01], [0.01, 0.09]]), np.bool_(True)),
        everywhere=Everywhere(
            np.bool_(False), np.bool_(False), np.int64(3), np.zeros(6), np.float64(0)
        ),
        share=np.float64(0.4),
        map=Map(np.array([0.5, 1, 2, NAN]), np.array([1.0, 2, 3, NAN]), ratio, ratio, ratio),
        tests=(
            FRatio(np.array([[9.0, 3], [30, 20], [80, 70]]), np.ones((3, 2)), DEGREES),
            FRatio(np.array([[9.0, 3], [29, 19], [80, 70]]), np.ones((3, 2)), DEGREES),
        ),
        log_p=(
            np.array([[-4.0, -1.0], [-20.0, -9.0], [-40.0, -30.0]]),
            np.array([[-4.0, -1.0], [-19.0, -8.0], [-40.0, -30.0]]),
            np.array([-8.0, -7.0, NAN, -6.0]),
            np.array([-3.0, -9.0, NAN, -2.0]),
            np.array([-9.0, -4.7, NAN, -1.0]),
        ),
        supports=np.array([[[1, 4, 5], [3, 2, 5]], [[1, 4, 5], [3, 0, 5]], [[1, 4, 5], [3, 2, 5]]]),
        acts=np.bool_(False),
        verdict=np.int32(Verdict.DISCREPANCY),
        status=np.int32(Status.OK),
    )
    return found._replace(**changes)


def assembled(**changes):
    found = assembly.assemble(findings(**changes), UNITS, np.int32(80), CONFIG)
    return jax.tree.map(np.asarray, found)


def physical(theta):
    """Coefficients of the physics: a solution in the frame, offsets moved to the constant."""
    working = TRANSFORM @ (UNITS.initial + 4.0 * theta)
    return working + np.array([7.0 - CENTER @ working, 0.0])


def test_law_in_units_of_the_data():
    found = assembled()
    np.testing.assert_allclose(found.coefficients, physical(np.array([0.1, 0.2])), rtol=1e-12)
    # The intercept moves with the other coefficient by the offset of its column.
    mapping = np.array([[1.0, -3.0], [0.0, 1.0]]) @ TRANSFORM
    expected = mapping @ findings().law.covariance @ mapping.T * 16
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-12)
    assert found.scale == pytest.approx(0.5 * 4)
    assert found.law_scatter == pytest.approx(0.05 * 4)
    assert found.num_rows == 80
    assert found.verdict == Verdict.DISCREPANCY
    assert found.outliers.tolist() == [False, True, False, False]
    assert found.row_noise.tolist() == [0.5, 1.0, 1.0, 2.0]


def test_regions_in_units_of_the_data():
    found = assembled().regions
    assert found.present.tolist() == [True, True, False]
    np.testing.assert_array_equal(found.lower, [0.9, 3.1, NAN])
    np.testing.assert_array_equal(found.upper, [2.1, 4.0, NAN])
    assert found.open_above.tolist() == [False, True, False]
    assert not found.open_below.any()
    assert found.count.tolist() == [20, 40, 0]
    expected = [[0, 0.5 * 4 / 0.1, 0], [2.0 * 4 / 10, 0, -3.0 * 4 / 2], [0, 0, 0]]
    np.testing.assert_allclose(found.coefficients, expected)
    errors = [[NAN, 0.1 * 4 / 0.1, NAN], [0.2 * 4 / 10, NAN, 0.3 * 4 / 2], [NAN] * 3]
    np.testing.assert_allclose(found.stderr, errors)
    np.testing.assert_array_equal(found.support, np.array(expected) != 0)
    np.testing.assert_allclose(found.log_p_value, [-5, -8, NAN])
    np.testing.assert_allclose(found.statistic, [10, 16, NAN])
    np.testing.assert_allclose(found.adjusted_p_value, [2 * np.exp(-5), 2 * np.exp(-8), NAN])
    np.testing.assert_array_equal(found.softness, [[0.3, NAN], [NAN, NAN], [NAN, NAN]])
    assert found.lacking.tolist() == [True, False, False]
    assert found.contains(np.array([1.0, 3.0, 9.0])).tolist() == [
        [True, False, False],
        [False, False, True],
        [False, False, False],
    ]


def test_map_in_units_of_the_data():
    found = assembled().cells
    assert found.count.tolist() == [20, 20, 20, 0]
    np.testing.assert_allclose(found.mean, [2, 4, 8, NAN])
    np.testing.assert_allclose(found.rms, [4, 8, 12, NAN])
    # Loud cells are judged by their own noise too: exp(-4.7) is below one per cent.
    np.testing.assert_allclose(found.log_p_value, [-3, -7, NAN, -6])
    np.testing.assert_array_equal(found.statistic, [1, 2, NAN, 4])
    assert found.flagged.tolist() == [False, True, False, False]
    assert found.noisier.tolist() == [True, False, False, False]


def test_the_weaker_half_of_the_split_with_the_median_is_the_certificate():
    found = assembled()
    test = found.test
    shown = (test.statistic, test.df_num, test.df_den, test.log_p_value)
    # Twice the median of three p-values.
    assert tuple(map(float, shown)) == (20.0, 1.0, 53.0, -9.0 + np.log(2))
    assert test.p_value_robust == pytest.approx(2 * np.exp(-8.0))
    assert test.reject
    # Supports {0, 1} and {0} of the regions that are there, by the half of that test.
    assert test.support.tolist() == [True, True, False]
    assert test.status == Status.OK


@pytest.mark.parametrize(
    "changes",
    [
        {"certified": np.bool_(False)},
        {"log_p": (WEAK, *findings().log_p[1:])},
        {"log_p": (findings().log_p[0], WEAK, *findings().log_p[2:])},
    ],
)
def test_place_and_all_tests_must_agree(changes):
    assert not assembled(**changes).test.reject
    assert not assembled(**changes).form.certified


def test_halves_that_cannot_test():
    """A split of which one half cannot counts as a p-value of 1; where most do, nothing is told."""
    plain = findings().log_p[0].copy()
    plain[0, 1] = NAN
    assert assembled(log_p=(plain, *findings().log_p[1:])).test.reject
    plain[1, 0] = NAN
    test = assembled(log_p=(plain, *findings().log_p[1:])).test
    assert test.status == Status.TOO_FEW_TEST_ROWS
    assert not test.reject


def test_form_is_that_of_the_region_that_gains_most():
    form = assembled().form
    assert form.support.tolist() == [True, False, True]
    # In squared units of the response.
    np.testing.assert_allclose(form.errors, 4.0**2 * np.array([8, 8, 8, 8, 4, 8]) / 40)
    assert form.error == pytest.approx(4.0**2 * 4 / 40)
    assert form.certified
    assert form.status == Status.OK
    first = assembled(gains=np.array([8.0, 5.0, 0.0])).form
    assert first.support.tolist() == [False, True, False]
    assert first.status == Status.RANK_DEFICIENT_TERMS
    # A change that the library lacks has no certified form.
    assert not first.certified


def test_evidence():
    found = assembled()
    assert found.place.log_p_value == -9.5
    assert found.place.p_value == pytest.approx(np.exp(-9.5))
    np.testing.assert_array_equal(found.place.region_log_p_value, [-5, -8, NAN])
    assert (found.exactness.lower, found.exactness.upper) == (0.9, INF)
    assert found.exactness.p_value == pytest.approx(np.exp(-5))
    np.testing.assert_allclose(found.rival.coefficients, physical(np.array([-0.3, 0.4])))
    assert found.rival.gap == 2.5
    assert found.dependence.rows == 1.5
    none = assembled(share=np.float64(0)).rival
    assert np.isnan(none.coefficients).all()
    assert none.gap == INF


def test_terms_that_act_everywhere():
    assert not assembled().everywhere.any()
    wins = Everywhere(np.bool_(True), np.bool_(True), np.int64(3), np.zeros(6), np.float64(9))
    said = np.int32(Verdict.NO_CLEAN_REGIME)
    acts = {"everywhere": wins, "acts": np.bool_(True)}
    found = assembled(verdict=said, **acts)
    assert found.everywhere.tolist() == [True, True, False]
    # What held-out rows have tested are other regions.
    assert found.test.status == Status.NOTHING_FLAGGED
    assert not found.test.reject
    assert not found.form.certified
    # Where the verdict is another, no term is said to act everywhere.
    assert not assembled(everywhere=wins, verdict=said).everywhere.any()


def test_nothing_found():
    none = np.zeros((3, 4), bool)
    found = assembled(members=none, verdict=np.int32(Verdict.CLEAN), certified=np.bool_(False))
    assert not found.regions.present.any()
    assert not found.regions.support.any()
    assert not found.regions.coefficients.any()
    assert np.isnan(found.regions.lower).all()
    assert found.test.status == Status.NOTHING_FLAGGED
    assert found.form.status == Status.NOTHING_FLAGGED
    assert np.isnan(found.test.statistic)
    assert np.isnan(found.form.errors).all()
    assert np.isfinite(found.coefficients).all()


@pytest.mark.parametrize("note", [Status.EXACT_FIT, Status.ROWS_OUTSIDE_EDGES])
def test_no_note_on_the_rows_hides_that_there_is_nothing_to_test(note):
    none = np.zeros((3, 4), bool)
    found = assembled(members=none, certified=np.bool_(False), status=np.int32(note))
    assert found.status == note
    assert found.test.status == found.form.status == Status.NOTHING_FLAGGED


@pytest.mark.parametrize(
    "status, verdict",
    [
        (Status.NO_CLEAN_CELLS, Verdict.NO_CLEAN_REGIME),
        (Status.RANK_DEFICIENT_DESIGN, Verdict.NOT_IDENTIFIABLE),
    ],
)
def test_failures_leave_no_numbers(status, verdict):
    found = assembled(status=np.int32(status))
    assert np.isnan(found.coefficients).all()
    assert np.isnan(found.covariance).all()
    assert np.isnan(found.scale)
    assert np.isnan(found.test.p_value)
    assert not found.test.reject
    assert found.verdict == verdict
    assert found.status == found.test.status == found.form.status == status


def test_traced_alike():
    expected = assembled()
    found, units = jax.device_put((findings(), UNITS))

    @jax.jit
    def traced(found, units):
        return assembly.assemble(found, units, jnp.int32(80), CONFIG)

    jax.tree.map(
        lambda left, right: np.testing.assert_allclose(left, right, rtol=1e-12),
        traced(found, units),
        expected,
    )
