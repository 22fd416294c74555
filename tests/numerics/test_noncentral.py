"""Noncentral F tail: Poisson mixture, central limit cases, derivatives and edges."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

from lisdd_jax.numerics import noncentral, tails

# Share of max(1, |log p|); 1e-8 is required. Near rounding in both types.
TOLERANCE = {"float64": 1e-11, "float32": 3e-5}
DTYPES = list(TOLERANCE)
ncf_logsf = noncentral.ncf_logsf


def mp_ncf_logsf(x, df_num, df_den, noncentrality):
    """Poisson mixture of central tails, all terms positive, in 40 digits."""
    with mpmath.workdps(40):
        x, df_num, df_den = (mpmath.mpf(float(v)) for v in (x, df_num, df_den))
        a, b, half = df_num / 2, df_den / 2, mpmath.mpf(float(noncentrality)) / 2
        y = df_den / (df_den + df_num * x)
        tail = mpmath.betainc(b, a, 0, y, regularized=True)
        step = y**b * (1 - y) ** a / (a * mpmath.beta(a, b))
        weight, total, j = mpmath.exp(-half), mpmath.mpf(0), 0
        while j <= half or weight > 1e-30 * total:
            total += weight * tail
            tail += step
            step *= (1 - y) * (a + b + j) / (a + j + 1)
            j += 1
            weight *= half / j
        return float(mpmath.log(total))


CASES = [
    (0.5, 1, 1, 0.5),
    (9.3, 1, 1.2, 3.0),
    (0.7, 2.6, 3.4, 0.32),
    (2.0, 1, 10, 40.0),
    (3.0, 2, 500, 10.0),
    (50.0, 2, 500, 10.0),
    (3.84, 1, 2997, 7.85),
    (1e-3, 3, 60, 5.0),
    (500.0, 3, 60, 5.0),
    (40.0, 6, 5994, 600.0),
    (9.0, 1, 1e5, 12.0),
    (1700.0, 6, 1e5, 1e4),
    (1500.0, 6, 1e5, 1e4),
    (1.3, 400, 3000, 60.0),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_against_the_poisson_mixture(dtype):
    arguments = np.array(CASES, dtype).T
    value = ncf_logsf(*arguments)
    assert value.dtype == dtype
    expected = np.array([mp_ncf_logsf(*row) for row in arguments.T])
    error = np.abs(np.asarray(value) - expected) / np.maximum(1, np.abs(expected))
    assert error.max() <= TOLERANCE[dtype], CASES[int(error.argmax())]


def grid():
    a, b, noncentrality, z = (
        v.ravel()
        for v in np.meshgrid(
            [1, 2, 9.5, 200], [1, 4, 50, 3000, 1e5], [0, 0.1, 5, 300, 1e4], [-2, -0.5, 0, 1, 3]
        )
    )
    spread = np.minimum(
        1.0, np.sqrt(2 / b + 2 * (a + 2 * noncentrality) / (a + noncentrality) ** 2)
    )
    return (1 + noncentrality / a) * np.exp(z * spread), a, b, noncentrality


def test_agrees_with_scipy():
    arguments = grid()
    expected = scipy.stats.ncf.sf(*arguments)
    inside = expected > 1e-13  # scipy takes the upper tail from its complement
    actual = np.asarray(noncentral.ncf_sf(*arguments))
    np.testing.assert_allclose(actual[inside], expected[inside], rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_noncentrality_is_central(dtype):
    df = np.array([1, 1.5, 3, 40, 2997, 1e5])
    x, a, b = np.meshgrid([1e-6, 0.3, 1, 1.001, 2, 30, 1e4], df, df)
    x, a, b = (v.astype(dtype) for v in (x, a, b))
    expected = np.asarray(tails.f_logsf(*(v.astype(float) for v in (x, a, b))))
    error = np.abs(np.asarray(ncf_logsf(x, a, b, 0)) - expected) / np.maximum(1, np.abs(expected))
    assert error.max() <= TOLERANCE[dtype]


def test_infinite_denominator_is_noncentral_chi2():
    x, df, noncentrality = np.array([[0.5, 1, 3], [4, 2, 10], [30, 7, 100], [2.0, 1, 0.1]]).T
    expected = scipy.stats.ncx2.logsf(x * df, df, noncentrality)
    np.testing.assert_allclose(ncf_logsf(x, df, np.inf, noncentrality), expected, rtol=1e-11)


def test_one_numerator_is_noncentral_t():
    t, df, shift = np.array([[2.0, 10, 1.0], [1.5, 300, 3.0], [4.0, 5, 0.3]]).T
    expected = scipy.stats.nct.sf(t, df, shift) + scipy.stats.nct.cdf(-t, df, shift)
    np.testing.assert_allclose(noncentral.ncf_sf(t**2, 1, df, shift**2), expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_far_tails_stay_finite_and_ordered(dtype):
    noncentrality = np.logspace(-2, 7, 30).astype(dtype)
    value = np.asarray(ncf_logsf(3.0, 2.0, 3000.0, noncentrality))
    assert (np.diff(value) >= 0).all()
    assert value[-1] == 0
    x = np.logspace(0, 8, 30).astype(dtype)
    value = np.asarray(ncf_logsf(x, 4.0, 1e5, np.array(1e3, dtype)))
    assert np.isfinite(value).all()
    assert (np.diff(value) <= 0).all()
    assert value[-1] < -4e5


def test_power_by_simulation():
    rng = np.random.default_rng(0)
    num_draws, power = 20_000, float(noncentral.ncf_sf(3.0, 2, 60, 6.0))
    numerator = rng.noncentral_chisquare(2, 6.0, num_draws) / 2
    share = np.mean(numerator / (rng.chisquare(60, num_draws) / 60) > 3.0)
    assert abs(share - power) < 5 * np.sqrt(power * (1 - power) / num_draws)


def test_jit_and_vmap():
    arguments = tuple(jnp.asarray(v[::7]) for v in grid())
    eager = ncf_logsf(*arguments)
    np.testing.assert_array_equal(jax.jit(ncf_logsf)(*arguments), eager)
    np.testing.assert_allclose(jax.vmap(ncf_logsf)(*arguments), eager, rtol=1e-13, atol=1e-15)
    loop = [ncf_logsf(*row) for row in zip(*(v[:5] for v in arguments), strict=True)]
    np.testing.assert_allclose(np.stack(loop), eager[:5], rtol=1e-13, atol=1e-15)
    shape = jax.eval_shape(lambda: ncf_logsf(np.ones((3, 1)), 2, np.full(2, 9), 1)).shape
    assert shape == (3, 2)


def test_derivatives_against_finite_differences():
    points = np.array([(3.0, 2, 500, 10.0), (0.4, 1.5, 7, 2.0), (60.0, 3, 3000, 40.0)])

    def function(logs):
        return ncf_logsf(*jnp.exp(logs))

    logs = np.log(points)
    gradient = jax.jit(jax.vmap(jax.grad(function)))(logs)
    _, forward = jax.jit(jax.vmap(lambda v: jax.jvp(function, (v,), (jnp.ones(4),))))(logs)
    np.testing.assert_allclose(forward, gradient.sum(axis=1), rtol=1e-10)
    value = jax.jit(jax.vmap(function))
    for axis, step in enumerate(1e-5 * np.eye(4)):
        numeric = (value(logs + step) - value(logs - step)) / 2e-5
        np.testing.assert_allclose(gradient[:, axis], numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_edges_and_their_derivatives(dtype):
    x = np.array([-1, 0, 2, np.inf, np.nan, 2, 2, 2, 2, 2], dtype)
    df_num = np.array([3, 3, 3, 3, 3, 0, 3, np.inf, np.inf, 3], dtype)
    df_den = np.array([9, 9, 9, 9, 9, 9, np.inf, 9, np.inf, 9], dtype)
    noncentrality = np.array([1, 1, 0, 1, 1, 1, 1, 1, 1, -1], dtype)
    value = np.asarray(ncf_logsf(x, df_num, df_den, noncentrality))
    np.testing.assert_array_equal(value[:2], 0)
    assert value[3] == -np.inf
    np.testing.assert_array_equal(np.isnan(value), [0, 0, 0, 0, 1, 1, 0, 0, 1, 1])
    gradient = jax.jit(jax.vmap(jax.grad(ncf_logsf, (0, 1, 2, 3))))
    for slope in gradient(x, df_num, df_den, noncentrality):
        assert np.isfinite(slope).all()


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="noncentrality must be real"):
        ncf_logsf(1.0, 2.0, 3.0, 1j)
    with pytest.raises(ValueError, match="shapes must broadcast"):
        ncf_logsf(np.ones(2), np.ones(3), 1.0, 1.0)
