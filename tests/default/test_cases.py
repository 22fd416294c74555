"""The default method on data with a known answer."""

from types import SimpleNamespace

import default_data as data
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.config import Config
from lisdd_jax.default import outcome
from lisdd_jax.diagnosis import diagnose
from lisdd_jax.prediction import predict
from lisdd_jax.results import Verdict
from lisdd_jax.status import Status

EDGES = np.linspace(-3.3, 3.3, 15)


def run(table, seed=0, edges=None, **settings):
    *arrays, mask = table
    return diagnose(
        *arrays, mask=mask, key=jax.random.key(seed), edges=edges, config=Config(**settings)
    )


@pytest.fixture(scope="module")
def found():
    return run(data.oscillator(1), edges=EDGES)


def test_physics_is_that_of_the_clean_part(found):
    assert found.verdict == Verdict.DISCREPANCY
    assert found.status == Status.OK
    # Five standard errors of a fit on the clean part of 2048 rows.
    stderr = np.sqrt(np.diag(found.covariance))
    np.testing.assert_array_less(np.abs(found.coefficients - np.array([1, 0.3])), 5 * stderr)
    assert abs(found.scale - 0.3) < 5 * 0.3 / np.sqrt(2 * 2048)


def test_edges_are_those_of_the_band_and_inside_their_intervals(found):
    regions = found.regions
    assert regions.present.tolist() == [True, True, False, False]
    np.testing.assert_allclose(regions.lower[:2], [-2.7, 1.7], atol=0.02)
    np.testing.assert_allclose(regions.upper[:2], [-1.7, 2.7], atol=0.02)
    for end, interval in (
        (regions.lower, regions.lower_interval),
        (regions.upper, regions.upper_interval),
    ):
        inside = (interval[:2, 0] <= end[:2]) & (end[:2] <= interval[:2, 1])
        assert np.all(inside)
    assert np.all(np.isnan(regions.lower[2:]))


def test_form_is_the_cubic_shared_by_both_sides(found):
    cubic = np.arange(data.NUM_TERMS) == 1
    assert found.regions.shared
    np.testing.assert_array_equal(found.regions.support[:2], [cubic, cubic])
    np.testing.assert_array_equal(found.form.support, cubic)
    error = np.abs(found.form.coefficients[1] - 0.2)
    assert error < 5 * found.form.stderr[1]
    assert np.all(np.isnan(found.form.stderr[~cubic]))
    assert found.form.equivalent[1]


def test_evidence_is_held_out_and_significant(found):
    assert found.test.reject
    assert found.test.df_num == 1
    assert found.test.log_p_value < -100
    assert found.test.p_value_robust < 1e-6
    np.testing.assert_array_less(found.regions.adjusted_p_value[:2], 1e-6)


def test_forecast_is_as_good_as_the_truth(found):
    new = data.oscillator(99)
    forecast = predict(found, *(jnp.asarray(x) for x in (new.design, new.axis, new.features)))
    error = np.sqrt(np.mean((new.response - forecast) ** 2))
    # Four edges, each two row spacings off, where the term jumps by 1.0 and 3.9.
    assert error**2 < 0.3**2 + 2 / data.NUM_ROWS * 2 * (1.0**2 + 3.9**2)


def test_null_is_clean_and_says_so_everywhere():
    clean = run(data.oscillator(2, beta=0.0), edges=EDGES)
    assert clean.verdict == Verdict.CLEAN
    assert not np.any(clean.cells.flagged)
    assert not np.any(clean.regions.present)
    assert clean.form.status == Status.NOTHING_FLAGGED
    assert not clean.test.reject
    assert np.isnan(clean.test.p_value)


@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_are_no_discrepancy(seed):
    noise = lambda rng, x: 0.3 * rng.standard_t(3, len(x))  # noqa: E731
    assert run(data.oscillator(seed, 1400, 0.0, noise), edges=EDGES).verdict == Verdict.CLEAN


@pytest.mark.parametrize("seed", range(3))
def test_larger_noise_is_told_from_a_wrong_mean(seed):
    def noise(rng, x):
        inside = (np.abs(x) > 1.7) & (np.abs(x) < 2.7)
        return rng.normal(size=len(x)) * np.where(inside, 0.6, 0.3)

    found = run(data.oscillator(seed, 1400, 0.0, noise), edges=EDGES)
    assert found.verdict == Verdict.CLEAN
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    inside = (np.abs(middle) > 1.9) & (np.abs(middle) < 2.5)
    assert np.all(found.cells.noisier[inside])
    assert not np.any(found.cells.noisier[np.abs(middle) < 1.2])


@pytest.mark.parametrize(
    "table, verdict",
    [
        (data.half_and_half, Verdict.AMBIGUOUS_REGIME),
        (data.wrong_everywhere, Verdict.NO_CLEAN_REGIME),
        (data.one_bad_month, Verdict.INSUFFICIENT_DATA),
    ],
)
def test_it_abstains_where_the_data_do_not_tell(table, verdict):
    assert run(table()).verdict == verdict


def test_a_discrepancy_too_small_to_matter_is_none():
    """The cubic term adds 0.002 x1^3 in the band, 0.04 at most, on noise of 0.001."""
    noise = lambda rng, x: 0.001 * rng.normal(size=len(x))  # noqa: E731
    table = data.oscillator(3, beta=0.002, noise=noise)
    assert run(table, edges=EDGES).verdict == Verdict.DISCREPANCY
    small = run(table, edges=EDGES, negligible=0.05)
    assert small.verdict == Verdict.CLEAN
    assert not np.any(small.cells.flagged)
    # Ten times the term is as far from negligible as before.
    large = run(data.oscillator(3, beta=0.02, noise=noise), edges=EDGES, negligible=0.05)
    assert large.verdict == Verdict.DISCREPANCY
    assert large.form.support.tolist() == [False, True] + [False] * 4


def test_it_abstains_where_the_term_may_act_on_the_few_clean_rows_too():
    """The cubic term acts for all but a tenth of the axis: the physics would take up the rest."""
    rng = np.random.default_rng(5)
    x1, x2 = rng.uniform(-3.3, 3.3, (2, data.NUM_ROWS))
    response = -x1 - 0.3 * x2 + np.where(np.abs(x1) > 0.3, 0.2 * x1**3, 0.0)
    response += 0.3 * rng.normal(size=data.NUM_ROWS)
    features = np.stack([x1**2, x1**3, x2**2, x2**3, x1 * x2, np.sin(x1)], axis=1)
    design = np.stack([-x1, -x2], axis=1)
    found = run(data.rows(design, response, x1, features), edges=EDGES)
    assert found.test.reject
    assert found.p_value_elsewhere > 0.05
    assert found.verdict == Verdict.AMBIGUOUS_REGIME


def test_the_law_is_that_of_a_clean_majority(found):
    assert np.isnan(found.p_value_elsewhere)
    assert found.verdict == Verdict.DISCREPANCY


def test_level_shift_without_noise():
    found = run(data.level_shift())
    assert found.verdict == Verdict.DISCREPANCY
    assert found.status == Status.EXACT_FIT
    np.testing.assert_allclose(found.coefficients, [500.0], rtol=1e-12)
    assert found.scale < 1e-10
    assert (float(found.regions.lower[0]), float(found.regions.upper[0])) == (22.5, 35.0)
    assert found.regions.support[0].tolist() == [True] + [False] * 5
    np.testing.assert_allclose(found.regions.coefficients[0, 0], 600.0, rtol=1e-12)


def test_several_splits_combine_and_count():
    table = data.oscillator(1)
    found = run(table, edges=EDGES, num_splits=3)
    assert found.verdict == Verdict.DISCREPANCY
    assert found.form.frequency[1] == 1.0
    assert found.form.frequency.sum() == 1.0
    assert found.test.log_p_value < -100


def test_blocks_and_noise_scales_enter_the_default_method():
    table = data.oscillator(1)
    *arrays, mask = table
    options = {"mask": mask, "key": jax.random.key(0), "edges": EDGES, "config": Config()}
    plain = diagnose(*arrays, **options)
    single = diagnose(*arrays, **options, block=np.arange(data.NUM_ROWS)[::-1])
    together = diagnose(*arrays, **options, block=np.arange(data.NUM_ROWS) // 8)
    halved = diagnose(*arrays, **options, noise_scale=np.full(data.NUM_ROWS, 0.5))
    assert together.test.statistic != plain.test.statistic
    for found in (single, together, halved):
        assert found.verdict == Verdict.DISCREPANCY
        np.testing.assert_allclose(found.coefficients, plain.coefficients, rtol=1e-8)
    np.testing.assert_allclose(halved.scale, 2 * plain.scale, rtol=1e-8)


def test_region_tests_that_are_one_are_told():
    """Two regions of all rows that overlap one region of split A take its test both."""
    present = jnp.array([True, True, False])
    full = SimpleNamespace(
        lower=jnp.array([0.0, 2.0, 5.0]),
        upper=jnp.array([1.0, 3.0, 6.0]),
        spans=SimpleNamespace(present=present),
    )
    split = SimpleNamespace(
        lower=jnp.array([0.5, 7.0, 8.0]),
        upper=jnp.array([2.5, 8.0, 9.0]),
        spans=SimpleNamespace(present=present),
    )
    evidence = jnp.array([-50.0, -1.0, jnp.nan])
    test = SimpleNamespace(each=-evidence, log_p_each=evidence, log_p_both=evidence)
    with jax.numpy_rank_promotion("allow"):
        found = outcome.match_regions(full, split, test)
    assert found.shared.tolist() == [True, True, False]
    assert found.log_p_value[:2].tolist() == [-50.0, -50.0]


def test_adjusted_p_values_bear_any_dependence(found):
    """Of two regions the larger combined p-value is adjusted by 1 + 1/2."""
    regions = found.regions
    assert not regions.same_rows
    assert not regions.shared_test.any()
    both = np.asarray(regions.adjusted_p_value[:2])
    assert np.isnan(regions.adjusted_p_value[2:]).all()
    assert (both >= 1.5 * np.asarray(regions.p_value[:2]) * (1 - 1e-9)).all()
