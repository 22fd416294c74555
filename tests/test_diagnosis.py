import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import testbed
from testbed import NUM_ROWS, Table, assert_trees_close

from lisdd_jax import Config, Status, Verdict, diagnose, f_test, select_form

CONFIG = Config.paper()
KEY = jax.random.key(0)
EDGES = np.linspace(-3.3, 3.3, 15)


def run(table: Table, *, key=KEY, config=CONFIG, edges=EDGES):
    return diagnose(*table[:-1], key=key, config=config, mask=table.mask, edges=edges)


@pytest.fixture(scope="module")
def found():
    return run(testbed.oscillator(0))


def without_draws(found):
    """The part of a diagnosis that no random half enters."""
    return found.coefficients, found.covariance, found.scale, found.cells, found.status


def test_finds_the_missing_term(found):
    assert found.status == Status.OK
    assert found.verdict == Verdict.DISCREPANCY
    np.testing.assert_allclose(found.coefficients, [1.0, 0.3], atol=0.02)
    assert found.form.support.tolist() == [False, True, False, False, False]
    assert found.test.reject
    assert found.test.log_p_value < -100
    # The published rule flags whole cells: those that the bands from 1.7 to 2.7 touch.
    present = np.asarray(found.regions.present)
    np.testing.assert_allclose(found.regions.lower[present], [EDGES[1], EDGES[10]], rtol=1e-14)
    np.testing.assert_allclose(found.regions.upper[present], [EDGES[4], EDGES[13]], rtol=1e-14)


def test_parts_agree_with_each_other(found):
    table = testbed.oscillator(0)
    cells, regions = found.cells, found.regions
    np.testing.assert_array_equal(cells.lower, EDGES[:-1])
    np.testing.assert_array_equal(cells.upper, EDGES[1:])
    assert int(cells.count.sum()) == int(found.num_rows) == NUM_ROWS
    np.testing.assert_allclose(cells.p_value, np.exp(cells.log_p_value), rtol=1e-12)
    np.testing.assert_array_equal(cells.flagged, cells.log_p_value < np.log(CONFIG.alpha_cell))
    present = np.asarray(regions.present)
    covered = [
        (cells.lower >= low) & (cells.upper <= high)
        for low, high in zip(regions.lower[present], regions.upper[present], strict=True)
    ]
    covered = np.any(covered, axis=0)
    np.testing.assert_array_equal(covered, cells.flagged)
    regions, cells = jax.device_get((regions, cells))
    assert regions.count[present].sum() == cells.count[cells.flagged].sum()
    for field in (regions.lower, regions.upper, regions.p_value, regions.stderr[:, 0]):
        assert np.isnan(field[~present]).all()
    # The reported form is fitted on all rows of the region.
    cell = np.clip(np.searchsorted(EDGES, table.axis, side="right") - 1, 0, 13)
    inside = np.asarray(cells.flagged)[cell]
    residuals = table.response - table.design @ np.asarray(found.coefficients)
    term, residual = table.features[inside, 1], residuals[inside]
    weight = term @ residual / (term @ term)
    assert found.form.coefficients[1] == pytest.approx(weight, rel=1e-10)
    variance = np.sum((residual - weight * term) ** 2) / (inside.sum() - 1)
    assert found.form.stderr[1] == pytest.approx(np.sqrt(variance / (term @ term)), rel=1e-10)
    assert np.isnan(np.delete(found.form.stderr, 1)).all()


def test_order_of_rows_changes_nothing_but_the_halves(found):
    for seed in range(3):
        other = run(testbed.permute(testbed.oscillator(0), seed))
        assert_trees_close(without_draws(other), without_draws(found), rtol=1e-8, atol=1e-12)
        assert other.form.support.tolist() == found.form.support.tolist()
        np.testing.assert_allclose(other.form.coefficients, found.form.coefficients, rtol=1e-8)
        assert other.verdict == found.verdict


def test_the_key_changes_the_halves_only(found):
    other = run(testbed.oscillator(0), key=jax.random.key(5))
    assert_trees_close(without_draws(other), without_draws(found), rtol=1e-8, atol=1e-12)
    assert other.test.statistic != found.test.statistic
    assert other.form.error != found.form.error


def test_rows_out_of_use_change_nothing():
    """Same keys, same halves: the draws go to the rows in use, in their order."""
    table = testbed.oscillator(1, 1800)
    behind = run(testbed.pad(table, fill=np.nan))
    before = Table(*(np.roll(array, 100, axis=0) for array in testbed.pad(table, fill=1e30)))
    assert_trees_close(run(before), behind, rtol=1e-8, atol=1e-12)


def test_units_of_columns_change_their_coefficients_only(found):
    table = testbed.oscillator(0)
    units, term_units = np.array([1e-6, 1e9]), np.array([1e3, 1e-7, 1.0, 1e12, 1e-3])
    other = run(table._replace(design=table.design * units, features=table.features * term_units))
    np.testing.assert_allclose(other.coefficients * units, found.coefficients, rtol=1e-8)
    np.testing.assert_allclose(
        other.covariance * np.outer(units, units), found.covariance, rtol=1e-8
    )
    np.testing.assert_allclose(
        other.form.coefficients * term_units, found.form.coefficients, rtol=1e-8
    )
    assert_trees_close(other.cells, found.cells, rtol=1e-8, atol=1e-12)
    assert other.test.statistic == pytest.approx(float(found.test.statistic), rel=1e-8)


def test_units_of_the_response_scale_the_answer(found):
    table = testbed.oscillator(0)
    other = run(table._replace(response=1e-6 * table.response))
    np.testing.assert_allclose(other.coefficients, 1e-6 * found.coefficients, rtol=1e-8)
    assert other.scale == pytest.approx(1e-6 * float(found.scale), rel=1e-8)
    np.testing.assert_array_equal(other.cells.flagged, found.cells.flagged)
    np.testing.assert_allclose(other.cells.statistic, found.cells.statistic, rtol=1e-8)
    assert other.test.statistic == pytest.approx(float(found.test.statistic), rel=1e-8)


@pytest.mark.parametrize("shift", [1e3, 1e7])
def test_an_intercept_takes_up_an_offset(shift):
    """Physics 1 and x1: offsets of the response and of the regressor move the intercept only."""
    table = testbed.oscillator(2)
    x1 = table.axis
    plain = table._replace(design=np.column_stack([np.ones(NUM_ROWS), x1]))
    moved = plain._replace(
        design=np.column_stack([np.ones(NUM_ROWS), x1 + shift]), response=table.response + shift
    )
    first, other = run(plain), run(moved)
    tolerance = 1e-12 * shift
    assert other.coefficients[1] == pytest.approx(float(first.coefficients[1]), rel=tolerance)
    np.testing.assert_array_equal(other.cells.flagged, first.cells.flagged)
    np.testing.assert_allclose(other.cells.statistic, first.cells.statistic, rtol=10 * tolerance)
    np.testing.assert_allclose(other.form.coefficients, first.form.coefficients, rtol=tolerance)
    assert other.test.statistic == pytest.approx(float(first.test.statistic), rel=10 * tolerance)


def test_single_precision_agrees(found):
    other = run(testbed.as_type(testbed.oscillator(0), np.float32))
    kinds = {leaf.dtype for leaf in jax.tree.leaves(other)}
    assert kinds == {np.dtype(np.float32), np.dtype(np.int32), np.dtype(bool)}
    # A row within rounding of an edge may change its cell.
    np.testing.assert_allclose(other.cells.count, found.cells.count, atol=1)
    np.testing.assert_array_equal(other.cells.flagged, found.cells.flagged)
    np.testing.assert_allclose(other.coefficients, found.coefficients, rtol=1e-4)
    np.testing.assert_allclose(other.cells.statistic, found.cells.statistic, rtol=5e-3)
    np.testing.assert_allclose(other.form.coefficients, found.form.coefficients, rtol=1e-3)
    assert other.verdict == found.verdict
    assert other.test.log_p_value == pytest.approx(float(found.test.log_p_value), rel=2e-2)


def test_double_precision_has_one_type(found):
    kinds = {leaf.dtype for leaf in jax.tree.leaves(found)}
    assert kinds == {np.dtype(np.float64), np.dtype(np.int32), np.dtype(bool)}


def test_nothing_flagged_is_clean():
    clean = run(testbed.oscillator(3, beta=0.0))
    assert clean.verdict == Verdict.CLEAN
    assert clean.status == Status.OK
    assert clean.form.status == clean.test.status == Status.NOTHING_FLAGGED
    assert not clean.form.support.any()
    assert not clean.form.coefficients.any()
    assert not clean.regions.present.any()
    assert not clean.test.reject
    for value in (clean.test.statistic, clean.test.p_value, clean.test.df_num, clean.form.error):
        assert np.isnan(value)
    global_fit = np.linalg.lstsq(*testbed.oscillator(3, beta=0.0)[:2])[0]
    np.testing.assert_allclose(clean.coefficients, global_fit, rtol=1e-9)


def test_the_level_decides_the_certificate(found):
    assert -700 < found.test.log_p_value < -100
    for level, expected in ((0.0, False), (1.0, True)):
        other = run(testbed.oscillator(0), config=Config.paper(alpha=level))
        assert bool(other.test.reject) is expected
        assert other.verdict == (Verdict.DISCREPANCY if expected else Verdict.NOT_CERTIFIED)


def test_default_edges_are_of_equal_width_over_the_rows_in_use():
    table = testbed.pad(testbed.oscillator(4, 1800), fill=1e6)
    found = run(table, edges=None)
    axis = table.axis[:1800]
    np.testing.assert_allclose(found.cells.lower[0], axis.min(), rtol=1e-15)
    np.testing.assert_allclose(found.cells.upper[-1], axis.max(), rtol=1e-15)
    np.testing.assert_allclose(np.diff(found.cells.lower), np.ptp(axis) / 14, rtol=1e-12)
    assert found.cells.count.sum() == 1800


def failures() -> dict[str, tuple[Table, Status, Verdict]]:
    table = testbed.oscillator(5)
    nobody = np.zeros(NUM_ROWS, bool)
    twin = np.column_stack([table.axis, 2 * table.axis])
    line = table.design @ [1.0, 0.3]
    few = np.arange(NUM_ROWS) < 3
    data = Verdict.INSUFFICIENT_DATA
    return {
        "no rows": (table._replace(mask=nobody), Status.TOO_FEW_ROWS, data),
        "three rows": (table._replace(mask=few), Status.TOO_FEW_ROWS, data),
        "zero response": (table._replace(response=0 * line), Status.ZERO_SCALE, data),
        "exact physics": (table._replace(response=line), Status.ZERO_SCALE, data),
        "twin columns": (
            table._replace(design=twin),
            Status.RANK_DEFICIENT_DESIGN,
            Verdict.NOT_IDENTIFIABLE,
        ),
    }


@pytest.mark.parametrize("name", list(failures()))
def test_failures_certify_nothing(name):
    table, status, verdict = failures()[name]
    found = run(table)
    assert found.status == status
    assert found.verdict == verdict
    assert not found.test.reject
    assert np.isnan(found.test.p_value)
    assert not found.cells.flagged.any()
    assert not found.regions.present.any()
    assert not found.form.support.any()
    assert np.isnan(found.covariance).all()
    assert not np.isinf(found.cells.statistic).any()
    if status != Status.ZERO_SCALE:
        assert np.isnan(found.coefficients).all()
        assert np.isnan(found.scale)


def test_a_constant_axis_is_safe():
    table = testbed.oscillator(6)
    found = run(table._replace(axis=np.full(NUM_ROWS, 2.0)), edges=None)
    assert found.num_rows == NUM_ROWS
    assert sorted(found.cells.count.tolist())[:13] == [0] * 13
    # The one cell is either clean or not: nothing is left beside it.
    assert found.status in (Status.OK, Status.NO_CLEAN_CELLS)
    assert found.verdict in (Verdict.CLEAN, Verdict.NO_CLEAN_REGIME)


def test_useless_terms_are_not_identifiable():
    table = testbed.oscillator(0)
    found = run(table._replace(features=0 * table.features))
    assert found.form.status == Status.NO_USABLE_TERMS
    assert found.verdict == Verdict.NOT_IDENTIFIABLE
    assert not found.test.reject
    assert not found.form.support.any()


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"response": np.ones(3)}, ValueError, r"response must have shape \(n,\) with n = 2048"),
        ({"axis": np.ones((NUM_ROWS, 1))}, ValueError, r"axis must have 1 axes \(n,\)"),
        ({"features": np.ones((NUM_ROWS, 0))}, ValueError, "features must have at least one"),
        ({"axis": np.full(NUM_ROWS, np.nan)}, ValueError, "axis must be finite .* 2048 of 2048"),
        ({"key": 3}, TypeError, "key must be a typed key"),
        ({"mask": np.ones(NUM_ROWS)}, TypeError, "mask must be boolean"),
        ({"edges": [0.0, 1.0]}, ValueError, "edges must bound at least 2 cells"),
        ({"edges": [0.0, 2.0, 1.0]}, ValueError, "edges must not decrease"),
        ({"edges": [0.0, np.nan, 1.0]}, ValueError, "edges must"),
        ({"edges": [0.0, 1.0, 2.0]}, ValueError, "edges must cover the axis, but .* rows"),
        ({"config": Config.paper(trim=0.6)}, ValueError, "config.trim must lie between 0 and 0.5"),
        ({"config": Config(alpha=np.nan)}, ValueError, "config.alpha must lie between"),
        ({"axis": np.ones(NUM_ROWS, np.float32)}, TypeError, "share one floating-point type"),
        ({"response": ["x"] * NUM_ROWS}, TypeError, "response must hold real numbers"),
    ],
)
def test_bad_arguments(changes, error, words):
    names = ("design", "response", "axis", "features", "mask")
    arguments = dict(zip(names, testbed.oscillator(0), strict=True)) | {"key": KEY} | changes
    with pytest.raises(error, match=words):
        diagnose(**arguments)


@pytest.mark.parametrize(
    "name, value", [("num_cells", 1), ("max_terms", 0), ("num_starts", 2.0), ("max_iterations", -1)]
)
def test_bad_settings(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least"):
        Config.paper(**{name: value})


def test_settings_are_kept_as_given():
    paper = dataclasses.asdict(Config.paper())
    published = {"trim": 0.36, "alpha_cell": 1e-3, "tolerance": 0.15, "alpha": 0.05}
    assert published.items() <= paper.items()
    assert (paper["num_cells"], paper["max_terms"], paper["max_iterations"]) == (14, 2, 4)


NULL_ROWS = 600


@partial(jax.jit, static_argnames="num")
def null_diagnoses(key, num):
    def one(key):
        key_x, key_noise, key_run = jax.random.split(key, 3)
        x = jax.random.uniform(key_x, (NULL_ROWS, 2), minval=-3.3, maxval=3.3)
        x1, x2 = x.T
        response = -x1 - 0.3 * x2 + 0.3 * jax.random.normal(key_noise, (NULL_ROWS,))
        features = jnp.column_stack([x1**2, x1**3, x2**2, x1 * x2, jnp.sin(x1)])
        found = diagnose(-x, response, x1, features, key=key_run, config=CONFIG, edges=EDGES)
        return found.test.reject, jnp.any(found.test.flagged), found.status

    return jax.lax.map(one, jax.random.split(key, num))


@pytest.mark.parametrize("num", [150, pytest.param(20_000, marks=pytest.mark.slow)])
def test_size_of_the_whole_pipeline_under_the_null(num):
    """The printed rule needs a flag first, so it rejects in about alpha of the runs with one."""
    reject, flagged, status = null_diagnoses(jax.random.key(1), num)
    reject = np.asarray(reject)
    assert (status < 100).all()
    assert np.mean(reject) <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / num)
    assert not (reject & ~flagged).any()
    # Given a flag on split A the held-out test has its nominal size.
    given = int(flagged.sum())
    assert reject.sum() <= 0.05 * given + 5 * np.sqrt(0.05 * 0.95 * max(given, 1)) + 1


def test_size_given_a_region():
    """Form chosen on one half of a forced region, tested on the other: 5 %; in sample: far more."""
    num, rows, terms = 1000, 100, 8
    features = np.random.default_rng(0).normal(size=(rows, terms))
    design = np.ones((rows, 1))
    half = np.arange(rows) % 2 == 0
    quarter = half & (np.arange(rows) % 4 == 0)

    @jax.jit
    def one(response):
        residuals = response - jnp.mean(response)
        honest = select_form(
            features, residuals, quarter, half & ~quarter, max_terms=1, tolerance=0.0
        )
        split = f_test(design, features * honest.support[None].astype(float), response, mask=~half)
        # The term that fits best in sample, tested in the same sample.
        shares = (features.T @ residuals) ** 2 / jnp.sum((features - features.mean(0)) ** 2, 0)
        best = jnp.arange(terms) == jnp.argmax(shares)
        naive = f_test(design, features * best[None].astype(float), response)
        return split.p_value, naive.p_value

    noise = np.random.default_rng(1).normal(size=(num, rows))
    split, naive = jax.lax.map(jax.jit(one), noise)
    error = np.sqrt(0.05 * 0.95 / num)
    assert np.mean(split < 0.05) == pytest.approx(0.05, abs=5 * error)
    assert np.mean(naive < 0.05) == pytest.approx(1 - 0.95**terms, abs=5 * np.sqrt(0.22 / num))
