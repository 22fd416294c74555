import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax import validation


class TestFloatArray:
    @pytest.mark.parametrize(
        "value, dtype",
        [
            ([1, 2], np.float64),
            ([True, False], np.float64),
            (np.array([1.0], np.float32), np.float32),
            (np.array([1.0]), np.float64),
            (np.array([2**53], np.int64), np.float64),
            (np.array([1], np.uint8), np.float64),
            (jnp.array([1], jnp.int32), np.float64),
            (jnp.array([1.0], jnp.float32), np.float32),
        ],
    )
    def test_real_numbers_become_floats(self, value, dtype):
        found = validation.float_array("x", value)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.asarray(value, float))

    @pytest.mark.parametrize(
        "value", [["a"], [1 + 2j], [None], np.array([], object), [np.datetime64("2020-01-01")]]
    )
    def test_what_is_not_real_is_refused(self, value):
        with pytest.raises(TypeError, match="x must hold real numbers, got"):
            validation.float_array("x", value)

    @pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.complex64])
    def test_other_types_of_jax_are_refused(self, dtype):
        with pytest.raises(TypeError, match="x must hold float32 or float64 numbers, got"):
            validation.float_array("x", jnp.zeros(3, dtype))

    def test_masked_values_are_missing(self):
        values = np.ma.masked_array([1, 2, 3], [False, True, False])
        np.testing.assert_array_equal(validation.float_array("x", values), [1.0, np.nan, 3.0])
        whole = np.ma.masked_array([1, 2, 3], [False] * 3)
        assert validation.float_array("x", whole).tolist() == [1.0, 2.0, 3.0]
        with pytest.raises(ValueError, match="x must be finite in the rows in use"):
            validation.check_finite("x", validation.float_array("x", values))
        with pytest.raises(TypeError, match="x must hold real numbers"):
            validation.float_array("x", np.ma.masked_array(["a", "b"], [False, True]))

    def test_long_doubles_are_rounded_to_double(self):
        values = np.array(["1.0000000000000000001", "1e4000"], np.longdouble)
        found = validation.float_array("x", values)
        assert found.dtype == jnp.float64
        assert found.tolist() == [1.0, np.inf]


SINGLE_PRECISION = """
    import warnings
    warnings.simplefilter("error")
    import jax, jax.numpy as jnp, numpy as np
    from lisdd_jax import validation
    assert not jax.config.jax_enable_x64
    row = np.arange(2000.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        validation.float_array("x", row.astype(np.float32))
        validation.float_array("x", [1, 2])
        assert not said
        for _ in range(3):
            validation.float_array("x", row)
    # Once in the life of the process.
    (warning,) = said
    assert "float64 input is computed in float32" in str(warning.message)

    def refused(value):
        try:
            found = validation.float_array("x", value)
        except ValueError as error:
            assert "x" in str(error) and "float32" in str(error), error
            return True
        value = np.asarray(value, float)
        assert found.dtype == jnp.float32
        assert np.allclose(found, value, rtol=1e-6, equal_nan=True), (found, value)
        return False

    assert not refused(row)
    assert not refused(np.full(5, 1.7e12))
    assert not refused(1.7e9 + 1e4 * row)
    assert refused(1.7e9 + row)
    assert refused(1.7e12 + row)
    assert refused((1.7e12 + row).astype(np.int64))
    assert refused(np.column_stack([row, 1.7e12 + row]))
    # Integers that do not fit 32 bits keep their value or are refused, and do not wrap.
    assert not refused(np.array([0, 5_000_000_000, 10_000_000_000]))
    assert not refused(np.array([0, 2**40], np.uint64))
    assert refused(np.array([2**62, 2**62 + 2**20, 2**62 + 2**21]))
    # A missing value somewhere does not switch the check off.
    assert refused(np.append(1.7e12 + row, np.nan))
    assert refused(jnp.asarray(1_700_000_000 + np.arange(2000), jnp.int32))
    # Values beyond the range of float32.
    assert refused(np.array([1.0, 2.0, 1e300]))
    assert not refused(np.array([]))
    print("done")
"""


def test_single_precision_keeps_the_variation_or_refuses():
    script = textwrap.dedent(SINGLE_PRECISION)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("value", [0.0152317, 0.1, 1.0, 39.37])
def test_a_constant_has_no_variation_to_lose(value):
    """Of 250 such numbers NumPy's standard deviation is 3e-18 for the first."""
    assert not validation._loses_variation(np.full(250, value))
    assert validation._loses_variation(np.full(250, value) + 1e-12 * np.arange(250))


class TestShapes:
    def test_the_first_use_of_a_name_binds_it(self):
        shapes = validation.Shapes()
        shapes.check("design", (7, 2), ("n", "p"))
        shapes.check("response", (7,), ("n",))
        with pytest.raises(
            ValueError, match=r"axis must have shape \(n,\) with n = 7 as in design"
        ):
            shapes.check("axis", (8,), ("n",))

    def test_the_number_of_axes(self):
        with pytest.raises(ValueError, match=r"design must have 2 axes \(n, p\), got shape \(7,\)"):
            validation.Shapes().check("design", (7,), ("n", "p"))


class TestFinite:
    def test_the_first_bad_row_is_named(self):
        values = jnp.ones((5, 2)).at[3, 1].set(jnp.nan).at[4, 0].set(jnp.inf)
        with pytest.raises(ValueError, match="design must be finite .* in 2 of 5 rows, .* row 3"):
            validation.check_finite("design", values)
        validation.check_finite("design", values, jnp.arange(5) < 3)

    def test_nothing_is_finite(self):
        validation.check_finite("design", jnp.zeros((0, 2)))
        validation.check_finite("response", jnp.zeros(0), jnp.zeros(0, bool))

    def test_traced_values_are_left_to_the_status(self):
        jax.jit(lambda x: validation.check_finite("x", x))(jnp.array([jnp.nan]))


class TestBetween:
    @pytest.mark.parametrize(
        "value", [0, 1, 0.5, np.float32(0.5), jnp.array(0.5), np.array([0.0, 1.0])]
    )
    def test_inside(self, value):
        validation.check_between("trim", value, 0.0, 1.0)

    @pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, "0.5", None, True, [0.5, 2.0]])
    def test_outside(self, value):
        with pytest.raises(ValueError, match="trim must lie between 0 and 1, got"):
            validation.check_between("trim", value, 0.0, 1.0)


class TestKey:
    @pytest.mark.parametrize("key", [0, None, np.zeros(2, np.uint32), jax.random.PRNGKey(0)])
    def test_untyped_keys_are_refused(self, key):
        with pytest.raises(TypeError, match=r"key must be a typed key as made by jax.random.key"):
            validation.check_key(key)

    def test_a_batch_of_keys_is_refused(self):
        with pytest.raises(ValueError, match="key must be a single key"):
            validation.check_key(jax.random.split(jax.random.key(0), 3))

    def test_traced_keys_pass(self):
        jax.vmap(lambda k: jax.random.uniform(validation.check_key(k)))(
            jax.random.split(jax.random.key(0), 3)
        )


class TestMask:
    def test_default_uses_every_row(self):
        assert validation.mask_array(None, 3).tolist() == [True] * 3

    def test_lists_of_bools_pass(self):
        assert validation.mask_array([True, False], 2).tolist() == [True, False]

    @pytest.mark.parametrize("mask", [[0, 1], [0.0, 1.0]])
    def test_numbers_are_refused(self, mask):
        with pytest.raises(TypeError, match="mask must be boolean"):
            validation.mask_array(mask, 2)

    def test_the_shape_must_fit(self):
        with pytest.raises(ValueError, match=r"mask must have shape \(3,\)"):
            validation.mask_array([True], 3)


def test_mixed_types_are_refused():
    with pytest.raises(TypeError, match="share one floating-point type, got a float32, b float64"):
        validation.common_dtype(a=jnp.zeros(1, jnp.float32), b=jnp.zeros(1))
