import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.numerics import float_order

DTYPES = (jnp.float32, jnp.float64)
TO_INTEGER, LEAST, GREATEST = map(
    jax.jit, (float_order.to_integer, float_order.least, float_order.greatest)
)
FROM_INTEGER = jax.jit(float_order.from_integer, static_argnames="dtype")


@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_are_in_the_order_of_floats(dtype):
    tiny = float(np.finfo(dtype).tiny)
    largest = float(np.finfo(dtype).max)
    values = np.array(
        [-np.inf, -largest, -1.5, -tiny, 0.0, tiny, 1e-3, 2.0, largest, np.inf], dtype
    )
    found = np.asarray(TO_INTEGER(values))
    assert (found[1:] > found[:-1]).all()
    np.testing.assert_array_equal(FROM_INTEGER(found, dtype), values)
    assert int(TO_INTEGER(np.array(-0.0, dtype))) == int(TO_INTEGER(np.array(0.0, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_keep_subnormals(dtype):
    smallest = np.finfo(dtype).smallest_subnormal
    values = np.array([3.0, smallest, 2 * smallest, -smallest], dtype)
    assert np.asarray(LEAST(values[:3])).tobytes() == smallest.tobytes()
    assert np.asarray(LEAST(values)).tobytes() == (-smallest).tobytes()
    assert np.asarray(GREATEST(values[1:])).tobytes() == values[2].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_by_integers(dtype):
    values = np.random.default_rng(0).standard_cauchy((3, 41)).astype(dtype)
    values[1, 4], values[2, 7] = np.inf, -np.inf
    chosen = np.arange(41) % 3 == 1
    np.testing.assert_array_equal(LEAST(values), values.min(axis=1))
    np.testing.assert_array_equal(GREATEST(values), values.max(axis=1))
    np.testing.assert_array_equal(LEAST(values, chosen), values[:, chosen].min(axis=1))
    np.testing.assert_array_equal(GREATEST(values, chosen), values[:, chosen].max(axis=1))
    nothing = np.zeros(41, bool)
    assert (LEAST(values, nothing) == np.inf).all()
    assert (GREATEST(values, nothing) == -np.inf).all()
    values[0, 3] = np.nan
    assert np.isnan(GREATEST(np.abs(values))).tolist() == [True, False, False]
