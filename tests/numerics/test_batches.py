import jax.numpy as jnp
import numpy as np

from lisdd_jax.numerics import batches


def test_each_is_a_loop():
    parts = [{"a": jnp.arange(3.0) + i, "b": jnp.float64(i)} for i in range(4)]
    found = batches.each(lambda part: (part["a"] * part["b"], jnp.sum(part["a"])), parts)
    assert len(found) == 4
    for i, (product, total) in enumerate(found):
        np.testing.assert_array_equal(product, parts[i]["a"] * i)
        assert total == 3 + 3 * i
    assert batches.each(lambda part: part, []) == []
