import jax
import numpy as np
import pytest

from lisdd_jax.numerics import columns


@pytest.mark.parametrize("num", [1, 3, 4, 5, 9])
def test_combined_columns(num):
    rng = np.random.default_rng(num)
    weights, values = rng.normal(size=num), rng.normal(size=(50, num))
    found = jax.jit(lambda values: columns.combine(weights, columns.along_rows(values)))(values)
    np.testing.assert_allclose(found, values @ weights, rtol=1e-12)
