import brute_force
import jax
import numpy as np
import pytest
from scipy import stats

from lisdd_jax.dataset import prepare
from lisdd_jax.published.physics import CleanRegime
from lisdd_jax.published.regions import make_cells, make_regions
from lisdd_jax.results import Form

CELLS, TERMS = 6, 3
EDGES = np.array([0.0, 1.0, 2.5, 3.0, 4.0, 4.5, 6.0])
MAKE = jax.jit(make_regions)


def regime(flagged):
    rng = np.random.default_rng(0)
    count = rng.integers(5, 20, CELLS)
    statistic = rng.gamma(count / 2, 2.0)
    unknown = np.full(CELLS, np.nan)
    return CleanRegime(
        coefficients=np.ones(1),
        covariance=np.ones((1, 1)),
        scale=np.float64(0.3),
        count=count.astype(np.int32),
        mean=unknown,
        rms=unknown,
        statistic=statistic,
        log_p_value=stats.chi2.logsf(statistic, count),
        flagged=np.asarray(flagged),
        num_iterations=np.int32(2),
        status=np.int32(0),
    )


def form():
    return Form(
        support=np.array([True, False, True]),
        coefficients=np.array([2.0, 0.0, -1.0]),
        stderr=np.array([0.1, np.nan, 0.2]),
        error=np.float64(1.0),
        errors=np.ones(6),
        equivalent=np.arange(6) < 2,
        certified=np.zeros((), bool),
        status=np.int32(0),
    )


@pytest.fixture(scope="module")
def data():
    x = np.linspace(0, 6, 50)
    arrays = (np.ones((50, 1)), x, x, np.ones((50, TERMS)), EDGES, np.ones(50, bool))
    return jax.jit(prepare)(*arrays)[0]


def test_regions_are_runs_of_flagged_cells(data):
    for pattern in range(2**CELLS):
        flagged = [bool(pattern >> k & 1) for k in range(CELLS)]
        own = regime(flagged)
        found = jax.device_get(MAKE(data, own, form()))
        runs = brute_force.runs_of(flagged)
        assert found.present.tolist() == [k < len(runs) for k in range(3)]
        for k, (first, last) in enumerate(runs):
            count = sum(int(c) for c in np.asarray(own.count)[first : last + 1])
            statistic = sum(float(c) for c in np.asarray(own.statistic)[first : last + 1])
            assert (found.lower[k], found.upper[k]) == (EDGES[first], EDGES[last + 1])
            assert (bool(found.open_below[k]), bool(found.open_above[k])) == (
                first == 0,
                last == CELLS - 1,
            )
            assert found.count[k] == count
            assert found.statistic[k] == pytest.approx(statistic, rel=1e-12)
            assert found.log_p_value[k] == pytest.approx(
                stats.chi2.logsf(statistic, count), rel=1e-10
            )
            assert found.coefficients[k].tolist() == [2.0, 0.0, -1.0]
        for k in range(len(runs), 3):
            assert np.isnan(found.lower[k])
            assert np.isnan(found.p_value[k])
            assert not found.support[k].any()
            assert not found.equivalent[k].any()


def test_the_evidence_says_that_the_same_rows_chose_the_region(data):
    found = MAKE(data, regime([True] + 5 * [False]), form())
    assert bool(found.same_rows)
    assert np.isnan(found.adjusted_p_value).all()


def test_cells_hand_on_the_table_of_the_physics(data):
    own = regime([False] * CELLS)
    cells = jax.device_get(jax.jit(make_cells)(data, own))
    assert (cells.lower.tolist(), cells.upper.tolist()) == (EDGES[:-1].tolist(), EDGES[1:].tolist())
    np.testing.assert_array_equal(cells.statistic, own.statistic)
    np.testing.assert_allclose(cells.p_value, np.exp(own.log_p_value), rtol=1e-15)
    assert not cells.noisier.any()
