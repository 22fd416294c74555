"""Running sums and places of extremes, against NumPy."""

import jax
import numpy as np
import pytest

from lisdd_jax.numerics import extremes

NUM, GROUPS = 60, 5


def test_running_sums_begin_with_nothing():
    values = np.random.default_rng(0).normal(size=(2, 3, NUM))
    expected = np.concatenate([np.zeros((2, 3, 1)), np.cumsum(values, axis=-1)], axis=-1)
    np.testing.assert_allclose(jax.jit(extremes.running_sum)(values), expected, atol=1e-12)


def test_the_first_of_equal_largest_values():
    values = np.array([[1.0, 3.0, 3.0], [-np.inf, -np.inf, 2.0], [np.nan, 1.0, 0.0]])
    assert jax.jit(extremes.first_max)(values).tolist() == [1, 2, 0]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_largest_value_of_each_group(monkeypatch, seed, many):
    """Many begin early here; the same lines serve any number."""
    if many:
        monkeypatch.setattr(extremes, "_FEW_PLACES", NUM // 2)
    of_groups = jax.jit(lambda *given: extremes.first_max_of_groups(*given, GROUPS))
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, size=NUM).astype(float)
    values[rng.uniform(size=NUM) < 0.3] = -np.inf
    group = rng.integers(0, GROUPS + 1, size=NUM).astype(np.int32)
    # A group of nothing, and one of which no value may be taken.
    group[group == 3] = GROUPS
    values[group == 2] = -np.inf
    expected = np.zeros(GROUPS, int)
    for k in range(GROUPS):
        best = -np.inf
        for i in np.flatnonzero(group == k):
            if values[i] > best:
                best, expected[k] = values[i], i
    found = of_groups(values, group)
    np.testing.assert_array_equal(found, expected)
    batch = jax.jit(jax.vmap(of_groups, (0, None)))(values[None], group)
    np.testing.assert_array_equal(np.asarray(batch)[0], expected)
