import jax
import numpy as np
import pytest

from lisdd_jax.statistics import half_sums, splits

sum_halves, random_half = jax.jit(half_sums.sum_halves), jax.jit(splits.random_half)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_sums_of_halves_are_those_of_their_rows_whatever_share_is_in_use(share):
    """Long halves are compressed in parts, of which those without rows are left out."""
    rng = np.random.default_rng(3)
    features, residuals = rng.normal(size=(1400, 3)), 1e-7 * rng.normal(size=1400)
    inside = rng.random(1400) < share
    key = jax.random.key(4)
    found = sum_halves(key, features, residuals, inside)
    first = np.asarray(random_half(key, inside))
    for factor, rows in zip(found.factors, (first, inside & ~first), strict=True):
        columns = np.column_stack([features, residuals / found.unit])[rows]
        np.testing.assert_allclose(factor.T @ factor, columns.T @ columns, atol=1e-10)
    assert found.num_rows.tolist() == [first.sum(), (inside & ~first).sum()]
    assert not found.nonfinite
    spoilt = features.copy()
    spoilt[np.flatnonzero(inside)[-1:], 1] = np.nan
    assert sum_halves(key, spoilt, residuals, inside).nonfinite == inside.any()
