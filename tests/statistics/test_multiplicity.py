import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from lisdd_jax import adjust_p_values
from lisdd_jax.statistics.multiplicity import combine_splits

# R 4.2.2: p.adjust(c(.01, .02, .03, .04, .05, .9), method)
FAMILY = [0.01, 0.02, 0.03, 0.04, 0.05, 0.9]
ADJUSTED = {
    "bh": [0.06, 0.06, 0.06, 0.06, 0.06, 0.9],
    "by": [0.147, 0.147, 0.147, 0.147, 0.147, 1.0],
}


@pytest.mark.parametrize("method", ["bh", "by"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_r(method, dtype):
    found = adjust_p_values(jnp.asarray(FAMILY, dtype), method=method)
    assert found.dtype == dtype
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(found, ADJUSTED[method], rtol=tolerance)


@pytest.mark.parametrize(
    "method, expected",
    # R: p.adjust(c(.01, .02, .9), method)
    [("bh", [0.03, 0.03, np.nan, 0.9]), ("by", [0.055, 0.055, np.nan, 1.0])],
)
def test_a_nan_leaves_the_family_and_is_never_declared(method, expected):
    found = adjust_p_values([0.01, 0.02, np.nan, 0.9], method=method)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    declared = found <= 0.05
    assert declared.tolist() == [method == "bh", method == "bh", False, False]


def step_up(p_values: np.ndarray, q: float) -> np.ndarray:
    """Declared members by the definition of Benjamini and Hochberg (1995), their equation (1)."""
    num = np.sum(~np.isnan(p_values))
    ranked = np.sort(p_values)[:num]
    passing = np.flatnonzero(ranked * num <= q * np.arange(1, num + 1))
    return p_values <= (ranked[passing[-1]] if passing.size else -1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    hnp.arrays(np.float64, 8, elements=st.floats(0, 1, allow_subnormal=False) | st.just(np.nan)),
    st.integers(0, 2**31),
)
def test_is_the_step_up_procedure(p_values, seed):
    found = np.asarray(adjust_p_values(p_values, method="bh"))
    known = ~np.isnan(p_values)
    np.testing.assert_array_equal(np.isnan(found), ~known)
    assert (found[known] >= p_values[known] * (1 - 1e-15)).all()
    assert (found[known] <= 1).all()
    # Away from the exact boundary, where q times a rank and a p-value differ by rounding only.
    for q in (0.0499, 0.2003, 0.5001):
        np.testing.assert_array_equal(found[known] <= q, step_up(p_values, q)[known])
    order = np.random.default_rng(seed).permutation(8)
    np.testing.assert_array_equal(adjust_p_values(p_values[order], method="bh"), found[order])
    assert (np.asarray(adjust_p_values(p_values, method="by"))[known] >= found[known]).all()


def test_a_family_of_nothing_and_of_one():
    assert adjust_p_values(jnp.zeros(0), method="bh").shape == (0,)
    assert adjust_p_values([0.3], method="by").tolist() == [0.3]
    assert np.isnan(adjust_p_values([np.nan, np.nan], method="bh")).all()


def test_batches_and_jit():
    families = np.random.default_rng(0).random((5, 6))
    families[1, 2] = np.nan
    adjust = jax.jit(jax.vmap(lambda p: adjust_p_values(p, method="by")))
    for found, family in zip(adjust(families), families, strict=True):
        np.testing.assert_allclose(found, adjust_p_values(family, method="by"), rtol=1e-15)


@pytest.mark.parametrize(
    "p_values, method, words",
    [
        ([0.1], "holm", 'method must be "bh" or "by"'),
        ([1.1], "bh", "p_values must lie between 0 and 1"),
        ([-0.1, np.nan], "bh", "p_values must lie between 0 and 1"),
        ([[0.1]], "bh", "p_values must have 1 axes"),
    ],
)
def test_bad_arguments(p_values, method, words):
    with pytest.raises(ValueError, match=words):
        adjust_p_values(p_values, method=method)


def twice_the_median(p_values):
    """By sorting: of an even number the lower middle one; an undefined one counts as 1."""
    ordered = sorted(1.0 if np.isnan(p) else p for p in p_values)
    return min(1.0, 2 * ordered[(len(ordered) - 1) // 2])


@pytest.mark.parametrize("num", [2, 3, 6, 7])
def test_splits_are_combined_by_twice_their_median(num):
    rng = np.random.default_rng(num)
    p_values = rng.random((num, 5)) ** 2
    p_values[0, 1], p_values[:, 2] = np.nan, np.nan
    combined, middle = jax.jit(combine_splits)(np.log(p_values))
    expected = [twice_the_median(column) for column in p_values.T]
    np.testing.assert_allclose(np.exp(combined), expected, rtol=1e-12)
    for k in (0, 3, 4):
        own = p_values[middle[k], k]
        assert min(1.0, 2 * own) == pytest.approx(expected[k])


def test_one_split_is_left_as_it_is():
    combined, middle = combine_splits(np.log([[0.3, np.nan]]))
    np.testing.assert_allclose(np.exp(combined), [0.3, 1.0])
    assert middle.tolist() == [0, 0]


@pytest.mark.parametrize("num", [2, 5])
@pytest.mark.parametrize("shared", [0.0, 0.5, 0.95])
def test_combined_splits_keep_the_level_under_dependence(num, shared):
    """One-sided normal tests of one sound hypothesis with correlated statistics."""
    size = 20_000
    rng = np.random.default_rng(7)
    common, own = rng.normal(size=size), rng.normal(size=(num, size))
    log_p = stats.norm.logsf(np.sqrt(shared) * common + np.sqrt(1 - shared) * own)
    combined, _ = jax.jit(combine_splits)(log_p)
    for level in (0.01, 0.05, 0.2):
        rate = np.mean(np.asarray(combined) < np.log(level))
        assert rate <= level + 5 * np.sqrt(level * (1 - level) / size)
