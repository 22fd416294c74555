from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.numerics import tolerances

LIMITS = {
    name: limit for name, limit in vars(tolerances).items() if isinstance(limit, tolerances.Limit)
}
METHOD = Path(__file__).resolve().parents[2] / "docs" / "method.md"


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_has_its_reason_and_stands_in_the_docs(name):
    limit = LIMITS[name]
    assert limit.reason
    share = f"{limit.factor:g} eps" if limit.power == 1 else f"eps^{limit.power:g}"
    assert f"| {name} | {share} | {limit.of} |" in METHOD.read_text()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_limits_are_between_rounding_and_one(dtype):
    for limit in (*LIMITS.values(), tolerances.gram):
        assert np.finfo(dtype).eps <= limit(dtype) < 0.1
        assert limit(jnp.dtype(dtype)) == limit(dtype)
