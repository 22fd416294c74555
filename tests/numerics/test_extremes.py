"""Running sums and places of extremes, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.numerics import extremes

NUM, GROUPS = 60, 5


def test_running_sums_begin_with_nothing():
    values = np.random.default_rng(0).normal(size=(2, 3, NUM))
    expected = np.concatenate([np.zeros((2, 3, 1)), np.cumsum(values, axis=-1)], axis=-1)
    np.testing.assert_allclose(extremes.running_sum(jax.device_put(values)), expected, atol=1e-12)


def test_the_first_of_equal_largest_values():
    values = jnp.array([[1.0, 3.0, 3.0], [-jnp.inf, -jnp.inf, 2.0], [jnp.nan, 1.0, 0.0]])
    assert extremes.first_max(values).tolist() == [1, 2, 0]


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
    found = of_groups(jax.device_put(values), jax.device_put(group))
    np.testing.assert_array_equal(found, expected)
    batch = jax.vmap(lambda x: of_groups(x, jax.device_put(group)))(jax.device_put(values)[None])
    np.testing.assert_array_equal(batch[0], expected)
