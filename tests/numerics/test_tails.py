"""Chi-square and F tails: reference values, limits, transforms, derivatives and edges."""

import json
import subprocess
import sys
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from lisdd_jax.numerics import tails

# Share of max(1, |log p|). The requirement is 1e-10 and 1e-3; in float64 every value below is
# within a hundred times rounding, in float32 the rounding of the arguments adds to it.
TOLERANCE = {"float64": 3e-14, "float32": 1e-5}
DTYPES = list(TOLERANCE)


def assert_log_close(actual, expected, tolerance):
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert np.isfinite(actual).all()
    error = np.abs(actual - expected) / np.maximum(1, np.abs(expected))
    assert error.max() <= tolerance, (error.argmax(), error.max())


def columns(rows, *names, dtype=np.float64):
    return [np.array([row[name] for row in rows], dtype) for name in names]


@pytest.fixture(scope="module")
def reference(shared: Path):
    return json.loads((shared / "reference" / "tails.json").read_text())


@pytest.mark.parametrize("dtype", DTYPES)
def test_chi2_reference_table(reference, dtype):
    value = tails.chi2_logsf(*columns(reference["chi2"], "x", "df", dtype=dtype))
    assert value.dtype == dtype
    assert_log_close(value, columns(reference["chi2"], "logsf")[0], TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_f_reference_table(reference, dtype):
    value = tails.f_logsf(*columns(reference["f"], "f", "df_num", "df_den", dtype=dtype))
    assert value.dtype == dtype
    assert_log_close(value, columns(reference["f"], "logsf")[0], TOLERANCE[dtype])


def chi2_grid():
    """Statistics from the far body to tails near 1e-100, and 0, for many degrees of freedom."""
    df = np.array([0.5, 1, 1.7, 2, 3, 9, 30, 143, 430, 2500, 3e4])[:, None]
    spread = np.sqrt(2 / df) * np.array([-6, -3, -1, -0.1, 0, 0.1, 1, 2.5])
    return np.broadcast_arrays(df * np.concatenate([np.exp(spread), 0 * df], 1), df)


def f_grid():
    df = np.array([0.5, 1, 2, 3, 7, 40, 333, 2997, 5e4])
    a, b = (v.ravel()[:, None] for v in np.meshgrid(df, df))
    spread = np.sqrt(2 / a + 2 / b) * np.array([-4, -1, -0.1, 0, 0.1, 1, 4])
    return np.broadcast_arrays(np.concatenate([np.exp(spread), 0 * a], 1), a, b)


def test_chi2_agrees_with_scipy():
    x, df = chi2_grid()
    expected = scipy.stats.chi2.sf(x, df)
    assert_log_close(tails.chi2_logsf(x, df), np.log(expected), 1e-12)
    np.testing.assert_allclose(tails.chi2_sf(x, df), expected, rtol=3e-12)


def test_f_agrees_with_scipy():
    x, a, b = f_grid()
    expected = scipy.stats.f.sf(x, a, b)
    inside = expected > 0
    # At df of 1e4 and more it is scipy that errs, by 1e-12.
    assert_log_close(np.asarray(tails.f_logsf(x, a, b))[inside], np.log(expected[inside]), 3e-12)
    np.testing.assert_allclose(tails.f_sf(x, a, b), expected, rtol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
def test_survival_near_one_keeps_its_digits(dtype):
    x, df = (v.astype(dtype) for v in chi2_grid())
    small = (x > 0) & (x < df / 2) & (scipy.stats.chi2.cdf(x, df) > 1e-30)
    expected = scipy.stats.chi2.cdf(x.astype(float), df.astype(float))
    actual = -np.expm1(np.asarray(tails.chi2_logsf(x, df), np.float64))
    np.testing.assert_allclose(actual[small], expected[small], rtol=100 * TOLERANCE[dtype])


def mp_chi2_logsf(x, df):
    """DLMF 8.6.7 by adaptive quadrature, from either side."""
    with mpmath.workdps(40):
        a, t = mpmath.mpf(df) / 2, mpmath.mpf(x) / 2
        sign = 1 if t >= a else -1
        scale = 1 / mpmath.sqrt(t)
        points = [scale * 2**k for k in range(-2, 7)]
        integral = mpmath.quad(
            lambda v: mpmath.exp(sign * a * v - t * mpmath.expm1(sign * v)), [0, *points]
        )
        log_tail = mpmath.log(integral) + a * mpmath.log(t) - t - mpmath.loggamma(a)
        return float(log_tail if sign > 0 else mpmath.log1p(-mpmath.exp(log_tail)))


@pytest.mark.parametrize("df", [1e5, 1e6, 1e8, 1e10])
@pytest.mark.parametrize("deviation", [-4.0, -0.1, 0.2, 3.0, 40.0])
def test_large_degrees_of_freedom(df, deviation):
    x = df + deviation * np.sqrt(2 * df)
    assert_log_close(tails.chi2_logsf(x, df), mp_chi2_logsf(x, df), 1e-15 * np.sqrt(df))
    x, df = np.float32(x), np.float32(df)
    if df <= 2**24:
        assert_log_close(tails.chi2_logsf(x, df), mp_chi2_logsf(float(x), float(df)), 1e-3)
    else:
        assert np.isnan(tails.chi2_logsf(x, df))


@pytest.mark.parametrize("df_den", [1.0, 2.5, 10.0, 300.0, 1e5])
def test_f_of_one_numerator_is_student_t(df_den):
    t = np.array([0.01, 0.5, 1.0, 3.0, 12.0])
    expected = np.log(2) + scipy.stats.t.logsf(t, df_den)
    assert_log_close(tails.f_logsf(t**2, 1.0, df_den), expected, 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinite_denominator_is_chi2(dtype):
    df = np.array([1, 2, 7, 60], dtype)[:, None]
    f = np.array([1e-6, 0.3, 1.0, 1.0001, 2.0, 50.0, 1e4], dtype)
    expected = tails.chi2_logsf(f.astype(float) * df, df.astype(float))
    assert_log_close(tails.f_logsf(f, df, np.inf), expected, TOLERANCE[dtype])
    # The limit is approached at the rate x / df_den.
    assert_log_close(tails.f_logsf(f, df, np.array(1e12, dtype)), expected, 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinite_numerator_reflects(dtype):
    df = np.array([1, 2, 7, 60], dtype)[:, None]
    f = np.array([0.3, 1.0, 1.0001, 2.0, 50.0], dtype)
    lower = scipy.stats.chi2.cdf(df.astype(float) / f, df)
    assert_log_close(tails.f_logsf(f, np.inf, df), np.log(lower), TOLERANCE[dtype])


def test_reflection_closes_to_one():
    x, a, b = f_grid()
    x = np.where(x > 0, x, 1.0)
    np.testing.assert_allclose(tails.f_sf(x, a, b) + tails.f_sf(1 / x, b, a), 1, rtol=1e-13)


@settings(max_examples=200, deadline=None)
@given(
    df=st.floats(0.1, 1e6),
    other=st.floats(0.1, 1e6),
    log_x=st.floats(-8, 8),
    step=st.floats(1e-6, 1),
)
def test_monotone_in_x(df, other, log_x, step):
    x = np.exp(np.array([log_x, log_x + step]))
    for low, high in (tails.chi2_logsf(x * df, df), tails.f_logsf(x, df, other)):
        assert high <= low <= 0
        assert np.isfinite(high)


@pytest.mark.parametrize("dtype", DTYPES)
def test_monotone_across_the_change_of_tail(dtype):
    info = np.finfo(dtype)
    near = (1 + info.eps * np.arange(-40, 41)).astype(dtype)
    for value in (tails.f_logsf(near, 3.0, 40.0), tails.chi2_logsf(5 * near, 5.0)):
        # Steps of one unit in the last place are lost in rounding; no jump may be left.
        assert np.ptp(np.asarray(value)) < 200 * info.eps


FUNCTIONS = {
    "chi2": (tails.chi2_logsf, chi2_grid),
    "f": (tails.f_logsf, f_grid),
}
# Called point by point below, so that each is compiled once for all tests.
SLOPE = {
    name: np.vectorize(jax.jit(jax.grad(function))) for name, (function, _) in FUNCTIONS.items()
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jit_and_vmap(name):
    function, grid = FUNCTIONS[name]
    arguments = [jnp.asarray(v[::3].ravel()) for v in grid()]
    eager = function(*arguments)
    np.testing.assert_array_equal(jax.jit(function)(*arguments), eager)
    np.testing.assert_allclose(jax.vmap(function)(*arguments), eager, rtol=1e-14)
    loop = [function(*row) for row in zip(*(v[:12] for v in arguments), strict=True)]
    np.testing.assert_allclose(np.stack(loop), eager[:12], rtol=1e-14, atol=1e-15)


def test_no_recompilation():
    traced = jax.jit(chex.assert_max_traces(lambda x, df: tails.chi2_logsf(x, df), n=1))
    for x, df in ((1.0, 2.0), (5.0, 430.0), (np.inf, 0.0)):
        traced(x, df)
    chex.clear_trace_counter()


POINTS = {
    "chi2": [(0.3, 1.0), (2.5, 2.0), (420.0, 430.0), (700.0, 430.0), (1e4, 30.0), (0.02, 0.7)],
    "f": [(0.4, 1.0, 3.0), (7.0, 2.0, 2997.0), (0.9, 40.0, 7.0), (300.0, 1.0, 2995.0)],
}


def central_difference(function, arguments, axis):
    # A relative step of 1e-5 has an error of order 1e-10.
    step = [1e-5 * a * (i == axis) for i, a in enumerate(arguments)]
    high = function(*(a + h for a, h in zip(arguments, step, strict=True)))
    low = function(*(a - h for a, h in zip(arguments, step, strict=True)))
    return (high - low) / (2 * step[axis])


@pytest.mark.parametrize("name", POINTS)
def test_derivatives_against_finite_differences(name):
    function = FUNCTIONS[name][0]
    arguments = [np.array(v) for v in zip(*POINTS[name], strict=True)]
    numbers = tuple(range(len(arguments)))
    gradient = jax.jit(jax.vmap(jax.grad(function, numbers)))(*arguments)
    second = jax.jit(jax.vmap(jax.grad(jax.grad(function), numbers)))(*arguments)
    for axis in numbers:
        numeric = central_difference(function, arguments, axis)
        np.testing.assert_allclose(gradient[axis], numeric, rtol=1e-6, atol=1e-10)
        numeric = central_difference(SLOPE[name], arguments, axis)
        np.testing.assert_allclose(second[axis], numeric, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", POINTS)
def test_forward_mode_agrees_with_reverse(name):
    function = FUNCTIONS[name][0]
    numbers = tuple(range(len(POINTS[name][0])))
    tangents = np.linspace(0.3, 1.0, len(numbers))

    @jax.jit
    def both(*primals):
        _, forward = jax.jvp(function, primals, tuple(tangents))
        return forward, jnp.dot(jnp.stack(jax.grad(function, numbers)(*primals)), tangents)

    for point in POINTS[name]:
        forward, reverse = both(*point)
        np.testing.assert_allclose(forward, reverse, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slope_in_x_is_minus_the_hazard(dtype):
    x, df = (v.astype(dtype) for v in chi2_grid())
    x, df = x[x > 0], df[x > 0]
    slope = SLOPE["chi2"](x, df)
    exact = [v.astype(np.float64) for v in (x, df)]
    expected = -scipy.stats.chi2.pdf(*exact) / scipy.stats.chi2.sf(*exact)
    # In float64 it is the expected density that loses digits as df grows.
    rtol = {"float64": 1e-10, "float32": 1e-3}[dtype]
    np.testing.assert_allclose(slope, expected, rtol=rtol, atol=1e-30)


def test_derivative_in_df_against_mpmath():
    in_df = jax.jit(jax.grad(tails.chi2_logsf, argnums=1))
    for x, df in ((350.0, 430.0), (431.0, 430.0), (9000.0, 430.0), (1.0, 1.0)):
        with mpmath.workdps(40):
            expected = mpmath.diff(
                lambda d, x=x: mpmath.log(mpmath.gammainc(d / 2, x / 2, regularized=True)), df
            )
        slope = in_df(x, df)
        np.testing.assert_allclose(slope, float(expected), rtol=1e-11)


def test_slope_far_beyond_the_float_range():
    # The hazard of chi-square tends to 1/2, that of F to df_den / (2 x).
    np.testing.assert_allclose(SLOPE["chi2"](1e7, 3.0), -0.5, rtol=1e-6)
    np.testing.assert_allclose(SLOPE["f"](1e9, 2.0, 3000.0), -1.5e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_edges(dtype):
    info = np.finfo(dtype)
    x = np.array([-np.inf, -1, 0, info.tiny, info.max, np.inf, np.nan], dtype)
    value = np.asarray(tails.chi2_logsf(x, np.array(3, dtype)))
    np.testing.assert_array_equal(value[:3], 0)
    assert -1e-10 < value[3] <= 0
    np.testing.assert_allclose(value[4], -info.max / 2, rtol=1e-6)
    np.testing.assert_array_equal(value[5:], [-np.inf, np.nan])
    value = np.asarray(tails.f_logsf(x, np.array(3, dtype), np.array(8, dtype)))
    np.testing.assert_array_equal(value[:3], 0)
    assert np.isfinite(value[3:5]).all()
    np.testing.assert_array_equal(value[5:], [-np.inf, np.nan])


@pytest.mark.parametrize("df", [0.0, -1.0, np.nan, np.inf])
def test_undefined_degrees_of_freedom_give_nan(df):
    x = np.array([-1.0, 0.0, 2.0, np.inf])
    assert np.isnan(tails.chi2_logsf(x, df)).all()
    other = df if np.isinf(df) else 5.0
    assert np.isnan(tails.f_logsf(x, df, other)).all()
    assert np.isnan(tails.f_logsf(x, other, df)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_nan_derivative_anywhere(name, dtype):
    function, info = FUNCTIONS[name][0], np.finfo(dtype)
    x = [0, -0.0, -1, np.inf, -np.inf, np.nan, info.tiny, info.max, 1e-12, 1e-3, 1, 2, 1e3, 1e12]
    df = [0, -1, np.nan, np.inf, 1e-2, 1, 2, 3, 430, 1e5]
    axes = [np.array(v, dtype) for v in ([x, df] if name == "chi2" else [x, df, df])]
    arguments = [v.ravel() for v in np.meshgrid(*axes)]
    numbers = tuple(range(len(arguments)))

    @jax.jit
    @jax.vmap
    def derivatives(*point):
        gradient = jax.grad(function, numbers)(*point)
        # Second derivatives leave the float range first in float32.
        return (gradient, jax.grad(jax.grad(function))(*point)) if dtype == "float32" else gradient

    for derivative in jax.tree.leaves(derivatives(*arguments)):
        assert np.isfinite(derivative).all()


def test_slope_at_zero_is_the_density():
    df = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(SLOPE["chi2"](0.0, df), [0, -0.5, 0])
    np.testing.assert_array_equal(SLOPE["f"](0.0, df, 9.0), [0, -1, 0])


def test_masked_lane_leaves_the_gradient_alone():
    def total(x):
        value = tails.f_logsf(x, 1.0, jnp.array([0.0, 20.0, np.nan]))
        return jnp.sum(jnp.where(jnp.isnan(value), 0.0, value))

    gradient = np.asarray(jax.jit(jax.grad(total))(np.array([3.0, 4.0, 0.0])))
    assert np.isfinite(gradient).all()
    assert gradient[1] < 0


def test_promotion_and_broadcasting():
    def result(function, *arguments):
        return jax.eval_shape(lambda: function(*arguments))

    assert result(tails.chi2_logsf, 3, 2).dtype == np.float64
    assert result(tails.chi2_logsf, np.float32(3), 2).dtype == np.float32
    assert result(tails.chi2_logsf, np.array([3, 4], np.float16), 2).dtype == np.float32
    assert result(tails.f_logsf, np.ones((4, 1)), np.ones(3), 5).shape == (4, 3)
    assert tails.f_sf(np.ones((0,)), 1, 5).shape == (0,)


def test_without_float64():
    code = "from lisdd_jax.numerics import tails as t; v = t.f_logsf(3, 1, 5); print(v.dtype, v)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    dtype, value = run.stdout.split()
    assert dtype == "float32"
    assert_log_close(float(value), scipy.stats.f.logsf(3, 1, 5), TOLERANCE["float32"])


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="df_den must be real"):
        tails.f_logsf(1.0, 2.0, 3j)
    with pytest.raises(ValueError, match=r"shapes must broadcast, got x \(2,\), df \(3,\)"):
        tails.chi2_logsf(np.ones(2), np.ones(3))
