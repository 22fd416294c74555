import itertools

import data_cyg_ob1
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lisdd_jax import Status, fit_trimmed

NUM = 47
KEY = jax.random.key(0)


def contaminated(seed: int, num_bad: int = 10, num: int = NUM) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(num), rng.normal(size=num)])
    response = design @ [2.0, 3.0] + 0.1 * rng.normal(size=num)
    response[:num_bad] += 5 + rng.normal(size=num_bad)
    order = rng.permutation(num)
    return design[order], response[order]


def fit(design, response, *, trim=0.36, key=KEY, mask=None):
    return fit_trimmed(design, response, key=key, trim=trim, num_starts=200, mask=mask)


traced = jax.jit(fit)


def test_stars_of_cyg_ob1():
    design = np.column_stack([np.ones(47), data_cyg_ob1.LOG_TEMPERATURE])
    trim = 1 - (data_cyg_ob1.NUM_KEPT - 0.5) / 47
    for key in jax.random.split(KEY, 20):
        found = fit(design, data_cyg_ob1.LOG_LIGHT, trim=trim, key=key)
        assert found.status == Status.OK
        assert found.kept.sum() == data_cyg_ob1.NUM_KEPT
        # The published figures have four decimals.
        np.testing.assert_allclose(found.coefficients, data_cyg_ob1.RAW_COEFFICIENTS, atol=5.1e-5)


def test_the_best_of_all_subsets():
    """With ten rows every subset can be fitted: the minimum over all is the definition."""
    for seed in range(10):
        design, response = contaminated(seed, num_bad=4, num=10)
        best = min(
            float(np.linalg.lstsq(design[list(rows)], response[list(rows)])[1][0])
            for rows in itertools.combinations(range(10), 6)
        )
        padded = np.pad(design, [(0, NUM - 10), (0, 0)]), np.pad(response, (0, NUM - 10))
        found = fit(*padded, trim=0.4, mask=np.arange(NUM) < 10)
        assert found.objective == pytest.approx(best, rel=1e-10)
        assert found.kept.sum() == 6


def test_fields_agree_with_each_other():
    design, response = contaminated(0)
    found = fit(design, response)
    kept = np.asarray(found.kept)
    assert kept.sum() == np.ceil(0.64 * NUM)
    expected, squares, *_ = np.linalg.lstsq(design[kept], response[kept])
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-12)
    assert found.objective == pytest.approx(squares[0], rel=1e-12)
    residuals = (response - design @ found.coefficients) ** 2
    residuals, kept = np.asarray(residuals), np.asarray(kept)
    assert residuals[kept].max() <= residuals[~kept].min()


def test_nothing_trimmed_is_least_squares():
    design, response = contaminated(1)
    found = fit(design, response, trim=0.0)
    expected, squares, *_ = np.linalg.lstsq(design, response)
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-12)
    assert found.kept.all()
    assert found.scale == pytest.approx(np.sqrt(squares[0] / NUM), rel=1e-12)


@pytest.mark.parametrize("num_kept", [24, 31, 40, 46])
def test_scale_is_corrected_for_the_trimming_of_a_normal(num_kept):
    design, response = contaminated(2)
    found = fit(design, response, trim=1 - num_kept / NUM)
    # Variance of a standard normal cut at the quantiles that leave the share kept.
    cut = stats.norm.ppf(0.5 + num_kept / NUM / 2)
    factor = 1 / np.sqrt(stats.truncnorm.var(-cut, cut))
    expected = factor * np.sqrt(found.objective / num_kept)
    assert found.kept.sum() == num_kept
    assert found.scale == pytest.approx(float(expected), rel=1e-12)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.integers(0, 1000),
    st.floats(-8, 8),
    st.floats(-8, 8),
    st.floats(-100, 100),
    st.floats(-1e4, 1e4),
)
def test_equivariance(seed, power, response_power, slope, shift):
    """Rows in any order, other units, another trend: the coefficients follow."""
    design, response = contaminated(3)
    first = fit(design, response)
    unit, response_unit = 10.0**power, 10.0**response_power
    order = np.random.default_rng(seed).permutation(NUM)
    moved = response + design @ [shift, slope]
    found = fit((design * [1, unit])[order], (response_unit * moved)[order])
    expected = (first.coefficients + np.array([shift, slope])) * response_unit / np.array([1, unit])
    assert found.status == Status.OK
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-8, atol=1e-8 * response_unit)
    np.testing.assert_array_equal(found.kept, np.asarray(first.kept)[order])
    assert found.scale == pytest.approx(float(first.scale) * response_unit, rel=1e-7)


def test_rows_out_of_use_change_nothing():
    design, response = contaminated(4, num=37)
    results = []
    for before in (0, 4, 10):
        place = slice(before, before + 37)
        padded = np.full((NUM, 2), np.nan), np.full(NUM, 1e30), np.zeros(NUM, bool)
        padded[0][place], padded[1][place], padded[2][place] = design, response, True
        found = fit(*padded[:2], mask=padded[2])
        assert not np.asarray(found.kept)[~padded[2]].any()
        results.append((found.coefficients, found.kept[place], found.scale, found.objective))
    for other in results[1:]:
        for left, right in zip(other, results[0], strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-12)


def test_single_precision():
    for seed in range(3):
        design, response = contaminated(seed)
        double = fit(design, response)
        single = fit(design.astype(np.float32), response.astype(np.float32))
        assert single.coefficients.dtype == single.scale.dtype == np.float32
        np.testing.assert_allclose(single.coefficients, double.coefficients, rtol=2e-5)
        assert single.objective == pytest.approx(float(double.objective), rel=1e-4)
        np.testing.assert_array_equal(single.kept, double.kept)


def test_noise_above_rounding_is_no_exact_fit_in_single_precision():
    """Kelvins: rounding is 3e-5, the noise a thousand times that."""
    rng = np.random.default_rng(0)
    response = (300 + 0.03 * rng.normal(size=NUM)).astype(np.float32)
    design = np.column_stack([np.ones(NUM), rng.normal(size=NUM)]).astype(np.float32)
    found = fit(design, response)
    assert found.status == Status.OK
    assert found.scale == pytest.approx(0.03, rel=0.6)


def test_tied_residuals_share_the_last_places():
    """Values on a grid: many ties at the threshold, and still exactly h rows."""
    rng = np.random.default_rng(5)
    design = np.column_stack([np.ones(NUM), np.resize([-1.0, 1.0], NUM)])
    response = design @ [1.0, 2.0] + rng.integers(-2, 3, NUM)
    found = fit(design, response)
    assert found.status == Status.OK
    assert int(found.kept.sum()) == np.ceil(0.64 * NUM)
    residuals = np.sort((response - design @ found.coefficients) ** 2)
    assert found.objective == pytest.approx(residuals[: int(found.kept.sum())].sum(), rel=1e-12)


def test_a_rare_dummy_column_is_fitted():
    """Most random pairs of rows miss the three rows of the dummy; they are drawn again."""
    rng = np.random.default_rng(6)
    dummy = np.zeros(NUM)
    dummy[[3, 17, 30]] = 1
    design = np.column_stack([np.ones(NUM), dummy])
    response = design @ [1.0, 50.0] + 0.1 * rng.normal(size=NUM)
    response[5:12] += 20
    found = fit(design, response)
    assert found.status == Status.OK
    np.testing.assert_allclose(found.coefficients, [1.0, 50.0], atol=0.3)


def statuses() -> dict[str, tuple]:
    design, response = contaminated(7)
    twin = np.column_stack([design[:, 1], -2 * design[:, 1]])
    line = design @ [2.0, 3.0]
    mostly = line + np.where(np.arange(NUM) < 12, 20.0, 0.0)
    hidden = design + [0.0, 1e16]
    return {
        "twin columns": (twin, response, None, Status.RANK_DEFICIENT_DESIGN),
        "zero column": (design * [1, 0], response, None, Status.RANK_DEFICIENT_DESIGN),
        "hidden by an offset": (hidden, response, None, Status.RANK_DEFICIENT_DESIGN),
        "no row": (design, response, np.zeros(NUM, bool), Status.TOO_FEW_ROWS),
        "as many kept rows as columns": (
            design,
            response,
            np.arange(NUM) < 3,
            Status.TOO_FEW_ROWS,
        ),
        "exact for most rows": (design, mostly, None, Status.EXACT_FIT),
        "constant response": (design, np.ones(NUM), None, Status.EXACT_FIT),
        "zero response": (design, np.zeros(NUM), None, Status.EXACT_FIT),
    }


@pytest.mark.parametrize("name", list(statuses()))
def test_status(name):
    design, response, mask, expected = statuses()[name]
    found = fit(design, response, mask=mask)
    assert found.status == expected
    if expected == Status.EXACT_FIT:
        assert found.scale == 0
        assert np.isfinite(found.coefficients).all()
        return
    assert jnp.isnan(found.coefficients).all()
    assert jnp.isnan(found.objective)
    assert jnp.isnan(found.scale)
    assert not found.kept.any()


@pytest.mark.parametrize("place", ["design", "response"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_end_in_a_status_under_jit(place, value):
    design, response = contaminated(8)
    (design if place == "design" else response)[3] = value
    found = traced(design, response)
    assert found.status == Status.NONFINITE_INPUT
    assert jnp.isnan(found.coefficients).all()
    with pytest.raises(ValueError, match=f"{place} must be finite .* row 3"):
        fit(design, response)


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"response": np.ones(3)}, ValueError, r"response must have shape \(n,\) with n = 47"),
        ({"design": np.ones(NUM)}, ValueError, r"design must have 2 axes"),
        ({"trim": 0.51}, ValueError, "trim must lie between 0 and 0.5, got 0.51"),
        ({"trim": np.nan}, ValueError, "trim must lie between 0 and 0.5"),
        ({"trim": np.array([0.1, 0.2])}, ValueError, "trim must be"),
        ({"key": 0}, TypeError, "key must be a typed key"),
        ({"mask": np.ones(NUM)}, TypeError, "mask must be boolean"),
        ({"response": ["a"] * NUM}, TypeError, "response must hold real numbers"),
        ({"response": np.ones(NUM, np.float32)}, TypeError, "share one floating-point type"),
        ({"num_starts": 0}, ValueError, "num_starts must be"),
        ({"num_starts": 2.5}, ValueError, "num_starts must be"),
        ({"design": np.ones((NUM, 0))}, ValueError, "design must"),
        ({"design": np.ones((0, 2)), "response": np.ones(0)}, ValueError, "design must"),
    ],
)
def test_bad_arguments(changes, error, words):
    design, response = contaminated(9)
    arguments = {"design": design, "response": response, "key": KEY, "trim": 0.3} | changes
    with pytest.raises(error, match=words):
        fit_trimmed(**arguments)
