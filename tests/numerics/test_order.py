import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lisdd_jax.numerics import bracket, order

DTYPES = [np.float32, np.float64]
kth_of_each_rank = jax.jit(jax.vmap(order.kth_smallest, (None, 0)))
median = jax.jit(order.median)
deviation = jax.jit(order.median_absolute_deviation)
num_kept = jax.jit(order.num_kept, static_argnums=2)
typical = jax.jit(bracket.typical)


def samples(num: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "normal": rng.normal(size=num),
        "energy": rng.chisquare(1, size=num),
        "cauchy": rng.standard_cauchy(size=num),
        "tied": rng.integers(0, 5, num).astype(float),
        "constant": np.full(num, -2.5),
        "decades": np.exp(rng.uniform(-60, 60, num)) * rng.choice([-1, 1], num),
        "cluster": np.where(rng.random(num) < 0.9, 1 + 1e-12 * rng.normal(size=num), 1e9),
        "padded": np.where(rng.random(num) < 0.5, rng.normal(size=num), np.inf),
        "half_infinite": rng.choice([-1.0, 0.0, 2.0, np.inf], num),
        "sorted": np.arange(num, dtype=float),
        "reversed": -np.arange(num, dtype=float),
        "signed_zeros": rng.choice([-0.0, 0.0, 1.0], num),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num", [1, 37, 300, 40000])
def test_kth_smallest_equals_a_sort(num, dtype):
    ranks = np.clip([1, 2, num // 4, num // 2, int(0.64 * num), num - 1, num], 1, num)
    for name, values in samples(num).items():
        values = values.astype(dtype)
        found = kth_of_each_rank(np.asarray(values), np.asarray(ranks))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.sort(values)[ranks - 1], err_msg=name)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    hnp.arrays(
        np.float64,
        23,
        elements=st.floats(min_value=-1.7e308, allow_nan=False, allow_subnormal=False),
    ),
)
@example(np.full(23, np.inf))
@example(np.full(23, np.finfo(float).max))
@example(np.full(23, np.finfo(float).min))
@example(1.7e308 * np.linspace(-1, 1, 23))
@example(np.repeat([1.0, np.nextafter(1.0, 2.0)], [12, 11]))
def test_kth_smallest_of_any_floats(values):
    ranks = np.arange(1, 24)
    np.testing.assert_array_equal(kth_of_each_rank(np.asarray(values), ranks), np.sort(values))


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormal_values_count_as_zero(dtype):
    tiny = np.finfo(dtype).tiny
    values = np.array([tiny, tiny / 4, -tiny / 4, 0.0, -tiny, tiny / 8, 1.0], dtype)
    found = np.asarray(kth_of_each_rank(np.asarray(values), np.arange(1, 8)))
    np.testing.assert_allclose(found, np.sort(values), rtol=0, atol=tiny / 2)
    assert (found[0], found[-2], found[-1]) == (-tiny, tiny, 1.0)


def test_nan_is_not_passed_over():
    values, mask = np.arange(37.0), np.ones(37, bool)
    values[5] = np.nan
    assert np.isnan(kth_of_each_rank(values, np.arange(1, 8))).all()
    assert np.isnan(median(values, mask))
    assert np.isnan(deviation(values, mask))


@pytest.mark.parametrize("name", ["normal", "tied", "constant", "decades"])
def test_median_and_deviation_with_a_mask(name):
    values = samples(37)[name]
    for num_used in (1, 2, 3, 20, 21, 36, 37):
        mask = np.random.default_rng(num_used).permutation(37) < num_used
        used = values[mask]
        padded, mask = np.asarray(np.where(mask, values, np.nan)), np.asarray(mask)
        assert median(padded, mask) == pytest.approx(np.median(used), rel=1e-14, abs=1e-300)
        expected = 1.4826 * np.median(np.abs(used - np.median(used)))
        assert deviation(padded, mask) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_median_of_nothing_is_undefined():
    values, nobody = np.arange(37.0), np.zeros(37, bool)
    assert np.isnan(median(values, nobody))
    assert np.isnan(deviation(values, nobody))


def test_median_of_the_largest_floats_is_finite():
    largest = float(np.finfo(np.float64).max)
    two = np.arange(37) < 2
    assert median(np.append(-largest, np.full(36, largest)), two) == 0.0
    assert median(np.full(37, largest), two) == largest


def test_median_is_infinite_where_infinite_values_hold_it():
    values = np.append(1.0, np.full(36, np.inf))
    for num_used in (2, 3, 4):
        assert median(values, np.arange(37) < num_used) == np.inf


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "count, trim, expected",
    [
        (6000, 0.36, 3840),
        (1500, 0.36, 960),
        (120, 0.36, 77),
        (47, 0.47, 25),
        (20, 0.3, 14),
        (25, 0.5, 13),
        (10, 0.0, 10),
        (1, 0.5, 1),
        (0, 0.36, 0),
        (4_000_000, 0.0, 4_000_000),
        (4_000_000, 0.25, 3_000_000),
    ],
)
def test_num_kept_is_the_ceiling_of_the_exact_product(count, trim, expected, dtype):
    assert num_kept(count, trim, dtype) == expected


@pytest.mark.parametrize("name", ["energy", "tied", "constant", "padded"])
def test_smallest_weights(name):
    values = np.abs(np.asarray(samples(300)[name]))
    num_finite = int(np.sum(np.isfinite(values)))
    pick = jax.jit(order.smallest_weights)
    for num in map(np.int32, (1, 7, num_finite // 2, num_finite)):
        weights, threshold = jax.device_get(pick(values, num))
        assert np.sum(weights) == pytest.approx(int(num), rel=1e-13)
        assert np.all((weights >= 0) & (weights <= 1))
        exact = np.sort(values)[num - 1]
        beyond = np.min(values, initial=np.inf, where=values > exact)
        assert exact <= threshold < max(beyond, np.nextafter(exact, np.inf))
        total = np.sum(weights * np.where(weights > 0, values, 0))
        assert total == pytest.approx(np.sort(values)[:num].sum(), rel=1e-13)
        for near in (threshold, 1.1 * threshold, 0.01 * threshold, -threshold, 0.0):
            reordered, _ = jax.device_get(pick(values[::-1], num, near))
            np.testing.assert_array_equal(reordered[::-1], weights)


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormal_values_are_picked(dtype):
    """Compilers differ in whether they tell subnormals from zero; the search ends either way."""
    smallest = np.finfo(dtype).smallest_subnormal
    values = np.array([0, 1, 2, 3, 4, 0, 0, 5], dtype) * smallest
    values[-2:] = 1.0, 2.0
    pick = jax.jit(order.smallest_weights)
    for num in range(1, 9):
        weights, _ = jax.device_get(pick(values, np.int32(num)))
        assert np.sum(weights) == pytest.approx(num, rel=1e-6)
        assert np.sum(weights[-2:]) == max(num - 6, 0)
        assert order.kth_smallest(values, num) <= np.sort(values)[num - 1] + values.dtype.type(0)


@pytest.mark.parametrize("name", list(samples(300)))
def test_roughly_smallest(name):
    values = np.abs(np.asarray(samples(300)[name]))
    num_finite = int(np.sum(np.isfinite(values)))
    pick = jax.jit(order.roughly_smallest)
    for num in map(np.int32, (2, 7, num_finite // 2, num_finite)):
        exact = np.sort(values)[num - 1]
        for near in (exact, 0.5 * exact, 30 * exact, 0.0, typical(values)[0]):
            mask, threshold, missing = jax.device_get(pick(values, num, near))
            np.testing.assert_array_equal(mask, values <= threshold)
            assert int(mask.sum()) + int(missing) == int(num)
            assert mask.any()
            if name in ("normal", "energy", "sorted"):
                assert abs(missing) <= 6


@pytest.mark.parametrize("name", ["energy", "tied", "constant", "padded"])
def test_smallest_mask_keeps_exactly_so_many(name):
    values = np.asarray(samples(300)[name])
    pick = jax.jit(order.smallest_mask)
    for num in (0, 1, 7, 150, 299, 300):
        mask = np.asarray(pick(values, num))
        assert mask.sum() == num
        expected = np.argsort(values, kind="stable")[:num]
        np.testing.assert_array_equal(np.flatnonzero(mask), np.sort(expected))


def test_derivative_of_a_rank_is_that_of_the_selected_value():
    slope = jax.jit(jax.grad(order.kth_smallest))
    np.testing.assert_array_equal(slope(np.array([3.0, 1.0, 2.0, 5.0]), 2), [0, 0, 1, 0])
    np.testing.assert_array_equal(slope(np.array([1.0, 2.0, 2.0, 5.0]), 2), [0, 0.5, 0.5, 0])


def test_derivative_of_the_deviation_is_that_of_differences():
    slope = jax.jit(jax.grad(order.median_absolute_deviation))
    forward = jax.jit(jax.jacfwd(order.median_absolute_deviation))
    step = 1e-6
    for num_used in (30, 31):
        values = np.asarray(np.random.default_rng(num_used).normal(size=37))
        mask = np.arange(37) < num_used
        numeric = [
            (deviation(values + step * unit, mask) - deviation(values - step * unit, mask))
            / (2 * step)
            for unit in np.eye(37)
        ]
        found = np.asarray(slope(values, mask))
        assert not found[num_used:].any()
        np.testing.assert_allclose(found, numeric, atol=1e-8)
        np.testing.assert_allclose(forward(values, mask), found, atol=1e-15)


def test_a_second_call_outside_jit_does_not_compile(compilations):
    values = np.arange(9.0)
    more = values + 1
    order.kth_smallest(values, 3)
    before = len(compilations)
    order.kth_smallest(more, 4)
    assert len(compilations) == before
