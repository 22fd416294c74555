import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lisdd_jax import Status, select_form, supports

NUM, TERMS = 80, 5


def problem(seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(1.7, 2.7, NUM)
    features = np.column_stack([x**2, x**3, np.sin(x), rng.normal(size=NUM), np.ones(NUM)])
    residuals = 0.2 * x**3 + 0.3 * rng.normal(size=NUM)
    half = rng.permutation(NUM) < NUM // 2
    return features, residuals, half, ~half


def select(features, residuals, fit_mask, score_mask, tolerance=0.15, max_terms=2):
    return select_form(
        features, residuals, fit_mask, score_mask, max_terms=max_terms, tolerance=tolerance
    )


def by_hand(features, residuals, fit_mask, score_mask, max_terms=2):
    """Every support by numpy, in the documented order."""
    sets = [
        list(indices)
        for size in range(1, max_terms + 1)
        for indices in itertools.combinations(range(features.shape[1]), size)
    ]
    errors = []
    for indices in sets:
        columns = features[:, indices]
        fitted = np.linalg.lstsq(columns[fit_mask], residuals[fit_mask])[0]
        errors.append(np.mean((residuals - columns @ fitted)[score_mask] ** 2))
    return sets, np.array(errors)


def choose(sets, errors, tolerance):
    within = errors <= (1 + tolerance) * errors.min()
    smallest = min(len(s) for s, ok in zip(sets, within, strict=True) if ok)
    best = [i for i, s in enumerate(sets) if within[i] and len(s) == smallest]
    return sets[min(best, key=lambda i: errors[i])], within


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_fits_by_numpy(dtype):
    tolerance = 1e-5 if dtype == np.float32 else 1e-11
    for seed in range(8):
        arrays = problem(seed)
        sets, errors = by_hand(*arrays)
        chosen, within = choose(sets, errors, 0.15)
        features, residuals, *masks = arrays
        found = select(features.astype(dtype), residuals.astype(dtype), *masks)
        assert found.errors.dtype == found.coefficients.dtype == found.error.dtype == dtype
        np.testing.assert_allclose(found.errors, errors, rtol=tolerance)
        assert np.flatnonzero(found.support).tolist() == chosen
        np.testing.assert_array_equal(found.equivalent, within)
        fitted = np.linalg.lstsq(features[:, chosen][masks[0]], residuals[masks[0]])[0]
        expected = np.zeros(TERMS)
        expected[chosen] = fitted
        np.testing.assert_allclose(found.coefficients, expected, rtol=50 * tolerance)
        assert found.error == pytest.approx(errors[sets.index(chosen)], rel=tolerance)
        assert found.status == Status.OK


@pytest.mark.parametrize("tolerance", [0.0, 0.15, 1e3])
def test_tolerance_prefers_small_supports(tolerance):
    arrays = problem(3)
    sets, errors = by_hand(*arrays)
    chosen, within = choose(sets, errors, tolerance)
    found = select(*arrays, tolerance)
    assert np.flatnonzero(found.support).tolist() == chosen
    np.testing.assert_array_equal(found.equivalent, within)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**31),
    st.lists(st.floats(-30, 30), min_size=TERMS, max_size=TERMS),
    st.floats(-30, 30),
)
def test_units_and_row_order_do_not_matter(seed, powers, power):
    arrays = problem(4)
    first = select(*arrays)
    order = np.random.default_rng(seed).permutation(NUM)
    features, residuals, *masks = (array[order] for array in arrays)
    units = 10.0 ** np.array(powers)
    found = select(features * units, residuals * 10.0**power, *masks)
    np.testing.assert_array_equal(found.support, first.support)
    np.testing.assert_allclose(found.errors, first.errors * 100.0**power, rtol=1e-10)
    np.testing.assert_allclose(
        found.coefficients * units, first.coefficients * 10.0**power, rtol=1e-9
    )


def test_nearly_collinear_terms_keep_their_accuracy():
    """Two terms that differ by 1e-6: the error of the fit is that of the data, not its square."""
    features, residuals, *masks = problem(5)
    features[:, 3] = features[:, 1] + 1e-6 * features[:, 3]
    _, errors = by_hand(features, residuals, *masks)
    found = select(features, residuals, *masks)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-8)
    pair = select(features[:, [1, 3]], residuals, *masks, tolerance=0.0)
    expected = np.linalg.lstsq(features[:, [1, 3]][masks[0]], residuals[masks[0]])[0]
    if pair.support.all():
        np.testing.assert_allclose(pair.coefficients, expected, rtol=1e-7)


def rank_deficient() -> dict[str, tuple[np.ndarray, list[list[int]]]]:
    """Libraries with terms that cannot be told apart, and the supports that cannot be fitted."""
    features, *_ = problem(6)
    x = features[:, 0]
    dummy = (np.arange(NUM) % 3 == 0).astype(float)
    return {
        "u and u^2 of a dummy": (
            np.column_stack([dummy, dummy**2, x]),
            [[0, 1]],
        ),
        "twice the same": (np.column_stack([x, features[:, 1], -3 * x]), [[0, 2]]),
        "zero in the region": (np.column_stack([x, 0 * x, dummy]), [[1], [0, 1], [1, 2]]),
        "two constants": (np.column_stack([x, 0 * x + 1, 0 * x + 7]), [[1, 2]]),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", list(rank_deficient()))
def test_rank_deficient_supports_are_named(name, dtype):
    features, impossible = rank_deficient()[name]
    _, residuals, *masks = problem(6)
    found = select(features.astype(dtype), residuals.astype(dtype), *masks)
    sets, errors = by_hand(features, residuals, *masks)
    assert found.status == Status.RANK_DEFICIENT_TERMS
    possible = [indices not in impossible for indices in sets]
    np.testing.assert_array_equal(np.isfinite(found.errors), possible)
    np.testing.assert_allclose(
        np.asarray(found.errors)[possible],
        errors[possible],
        rtol=1e-4 if dtype == np.float32 else 1e-10,
    )
    assert not np.asarray(found.equivalent)[~np.array(possible)].any()


def test_twins_are_both_listed_as_equivalent():
    features, impossible = rank_deficient()["twice the same"]
    _, residuals, *masks = problem(7)
    residuals = 2 * features[:, 0] + 0.01 * (residuals - residuals.mean())
    found = select(features, residuals, *masks)
    table = supports(3, 2)
    listed = {tuple(np.flatnonzero(row)) for row in table[np.asarray(found.equivalent)]}
    assert {(0,), (2,)} <= listed
    assert tuple(impossible[0]) not in listed


def test_noise_free_data_choose_the_true_term():
    features, _, *masks = problem(8)
    for dtype in (np.float32, np.float64):
        exact = (0.2 * features[:, 1]).astype(dtype)
        found = select(features.astype(dtype), exact, *masks)
        assert np.flatnonzero(found.support).tolist() == [1]


def failures() -> dict[str, tuple]:
    features, residuals, fit_mask, score_mask = problem(9)
    nobody = np.zeros(NUM, bool)
    return {
        "no rows": (features, residuals, nobody, nobody),
        "nothing to score": (features, residuals, fit_mask, nobody),
        "nothing to fit": (features, residuals, nobody, score_mask),
        "zero terms": (0 * features, residuals, fit_mask, score_mask),
    }


@pytest.mark.parametrize("name", list(failures()))
def test_failures_choose_nothing(name):
    found = select(*failures()[name])
    assert found.status == Status.NO_USABLE_TERMS
    assert not found.support.any()
    assert not found.coefficients.any()
    assert not found.equivalent.any()
    assert np.isnan(found.error)


@pytest.mark.parametrize("place", [0, 1])
def test_values_that_are_not_finite_end_in_a_status_under_jit(place):
    arrays = list(problem(10))
    arrays[place][5] = np.nan
    found = jax.jit(select)(*arrays)
    assert found.status == Status.NONFINITE_INPUT
    assert not found.support.any()
    assert np.isnan(found.error)


def test_one_row_fits_one_term():
    features, residuals, *_ = problem(11)
    found = select(features, residuals, np.arange(NUM) == 0, np.arange(NUM) == 1)
    assert found.support.sum() == 1
    assert np.isinf(found.errors[TERMS:]).all()


def test_derivatives_of_the_chosen_support():
    arrays = problem(0)
    masks = arrays[2:]
    rng = np.random.default_rng(2)
    tangents = rng.normal(size=(NUM, TERMS)), rng.normal(size=NUM)

    def value(features, residuals):
        found = select(features, residuals, *masks)
        return found.error + found.coefficients.sum()

    @jax.jit
    def derived(*arrays):
        """The value, its change along the tangents, and its gradient."""
        found, linear = jax.linearize(value, *arrays)
        return found, linear(*tangents), jax.linear_transpose(linear, *arrays)(np.ones(()))

    _, slope, back = jax.device_get(derived(*arrays[:2]))
    step = 1e-6
    up, down = (
        derived(arrays[0] + s * tangents[0], arrays[1] + s * tangents[1])[0] for s in (step, -step)
    )
    assert slope == pytest.approx(float(up - down) / (2 * step), rel=1e-6)
    total = sum(np.sum(g * t) for g, t in zip(back, tangents, strict=True))
    assert total == pytest.approx(float(slope), rel=1e-9)


def test_derivatives_are_finite_beside_terms_that_cannot_be_fitted():
    features, impossible = rank_deficient()["zero in the region"]
    _, residuals, *masks = problem(6)
    slope_of = jax.jit(jax.grad(lambda *a: select(*a, *masks).error, argnums=(0, 1)))
    slope = slope_of(features, residuals)
    assert all(np.isfinite(part).all() for part in slope)
    assert impossible


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"max_terms": 0}, ValueError, "max_terms must be an integer of at least 1, got 0"),
        ({"max_terms": 1.5}, ValueError, "max_terms must be an integer"),
        ({"tolerance": -0.1}, ValueError, "tolerance must lie between 0 and inf"),
        ({"fit_mask": np.ones(NUM)}, TypeError, "mask must be boolean"),
        ({"residuals": np.ones(3)}, ValueError, r"residuals must have shape \(n,\) with n = 80"),
        ({"features": np.ones((NUM, 0))}, ValueError, "features must"),
        ({"fit_mask": np.ones(NUM, bool)}, ValueError, "fit_mask and score_mask must"),
    ],
)
def test_bad_arguments(changes, error, words):
    names = ("features", "residuals", "fit_mask", "score_mask")
    arguments = dict(zip(names, problem(12), strict=True))
    arguments |= {"max_terms": 2, "tolerance": 0.15} | changes
    with pytest.raises(error, match=words):
        select_form(**arguments)
