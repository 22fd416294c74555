r"""Upper tails of the chi-square and F distributions, on the log scale and with derivatives.

Both tails are one integral. The logarithm of a chi-square or F variable has a log-concave density,
so beyond a point the tail is the density there times

.. math:: M = \int_0^\infty e^{E(v)} dv, \qquad E(0) = 0, \; E \text{ concave and falling},

and the density is a deviance plus Stirling remainders: no large terms cancel and nothing
underflows. ``M`` is taken by one Gauss-Legendre rule of fixed size, from 0 to where the integrand
is negligible. There is no iteration that could stop early, the cost is the same for every
argument, and the rule has derivatives of any order, forward and reverse.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from lisdd_jax.numerics import survival
from lisdd_jax.numerics.log_concave import Exponent, integrate
from lisdd_jax.numerics.special import log1p_deficit, promote_real, stirling_remainder

# Steps of the recurrence that takes a small shape away from the slow tail exp(-c v): with c >= 8
# the rule of ``integrate`` is good to rounding for all degrees of freedom of at least 1.
_SHIFT = 8
_LOG_2PI = 1.8378770664093453


def chi2_logsf(x: ArrayLike, df: ArrayLike) -> Array:
    r"""Log of the probability that a chi-square variable exceeds ``x``.

    .. math:: \log P(\chi^2_{df} > x) = \log Q(df / 2, x / 2)

    The error is at most 1e-10 times ``max(1, |log p|)`` in float64 and 1e-3 in float32, and near
    rounding for degrees of freedom between 0.1 and 1e6. Differentiable in both arguments, to any
    order, in forward and reverse mode. At ``x = 0`` the derivative in ``x`` is the one from the
    right where that is finite (``df >= 2``), else 0.

    Args:
        x: statistic, any shape.
        df: degrees of freedom, positive and finite, of a shape that broadcasts with ``x``.

    Returns:
        Log probability of the broadcast shape, in the arguments' floating dtype: 0 for ``x <= 0``,
        -inf for ``x = inf``, NaN where ``x`` is NaN or ``df`` is not positive (an empty cell has
        ``df = 0``) or exceeds 1e10 in float64, 2**24 in float32.

    Raises:
        TypeError: if an argument is not real.
        ValueError: if the shapes do not broadcast.

    Example:
        >>> float(chi2_logsf(4000.0, 2.0))
        -2000.0

    References:
        DLMF, https://dlmf.nist.gov, 8.6.7 and 8.8.1-2 (integral and recurrence of the incomplete
        gamma function); Loader (2000), "Fast and accurate computation of binomial probabilities"
        (density as a deviance and Stirling remainders).
    """
    return _chi2_logsf(*promote_real(x=x, df=df))


def chi2_sf(x: ArrayLike, df: ArrayLike) -> Array:
    """Probability that a chi-square variable exceeds ``x``: ``exp(chi2_logsf(x, df))``.

    Args:
        x: statistic, any shape.
        df: degrees of freedom, positive and finite, of a shape that broadcasts with ``x``.

    Returns:
        Probability of the broadcast shape; NaN as in ``chi2_logsf``.

    Example:
        >>> round(float(chi2_sf(3.841458820694124, 1)), 6)
        0.05
    """
    return jnp.exp(chi2_logsf(x, df))


def f_logsf(x: ArrayLike, df_num: ArrayLike, df_den: ArrayLike) -> Array:
    r"""Log of the probability that an F variable exceeds ``x``.

    .. math:: \log P(F_{d_1, d_2} > x) = \log I_{d_2 / (d_2 + d_1 x)}(d_2 / 2, d_1 / 2)

    Accuracy and derivatives as for ``chi2_logsf``. One of the two degrees of freedom may be
    infinite: ``df_den = inf`` is the chi-square limit, with derivative 0 in ``df_den``.

    Args:
        x: statistic, any shape.
        df_num: numerator degrees of freedom, positive.
        df_den: denominator degrees of freedom, positive.

    Returns:
        Log probability of the broadcast shape, in the arguments' floating dtype: 0 for ``x <= 0``,
        -inf for ``x = inf``, NaN where ``x`` is NaN, where a number of degrees of freedom is not
        positive, or where the smaller of them exceeds 1e10 in float64, 2**24 in float32.

    Raises:
        TypeError: if an argument is not real.
        ValueError: if the shapes do not broadcast.

    Example:
        >>> round(float(f_logsf(8000.0, 1.0, 2995.0)), 2)
        -1951.56

    References:
        DLMF, https://dlmf.nist.gov, 8.17.4 and 8.17.20 (reflection and recurrence of the incomplete
        beta function); Loader (2000), as for ``chi2_logsf``.
    """
    return _f_logsf(*promote_real(x=x, df_num=df_num, df_den=df_den))


def f_sf(x: ArrayLike, df_num: ArrayLike, df_den: ArrayLike) -> Array:
    """Probability that an F variable exceeds ``x``: ``exp(f_logsf(x, df_num, df_den))``.

    Args:
        x: statistic, any shape.
        df_num: numerator degrees of freedom, positive.
        df_den: denominator degrees of freedom, positive.

    Returns:
        Probability of the broadcast shape; NaN as in ``f_logsf``.

    Example:
        >>> round(float(f_sf(4.0, 2, 10)), 6)
        0.052922
    """
    return jnp.exp(f_logsf(x, df_num, df_den))


@jax.jit
def _chi2_logsf(x: Array, df: Array) -> Array:
    info = jnp.finfo(x.dtype)
    valid = (df > 0) & (df <= largest_df(x.dtype)) & ~jnp.isnan(x)
    inside = valid & (x > info.tiny**0.5) & (x < 1e-4 * info.max)
    value = _chi2_log_survival(jnp.where(inside, x, 1.0), jnp.where(inside, df, 1.0))
    density_at_zero = jnp.where(df == 2, 0.5, 0.0)
    return survival.fill_outside(value, inside, valid, x, density_at_zero, -x / 2)


@survival.with_hazard
def _chi2_log_survival(x: Array, df: Array) -> tuple[Array, Array]:
    a, half = df / 2, x / 2
    upper = x >= df
    exponent = Exponent(
        rate=jnp.where(upper, a, a + _SHIFT),
        sign=jnp.where(upper, 1.0, -1.0).astype(x.dtype),
        total=None,
        share=half,
    )
    integral = integrate(exponent, jnp.abs(half - a) + jnp.where(upper, 0, _SHIFT), half)
    # Only the lower tail was shifted. The weight n w of the recurrence tends to x / 2.
    weight = jnp.minimum(half, a)
    integral = jnp.where(upper, integral, _undo_shift(integral, a, [weight] * _SHIFT))
    log_density = 0.5 * (jnp.log(a) - _LOG_2PI) - stirling_remainder(a)
    log_density -= a * log1p_deficit((x - df) / df, jnp.log(x / df))
    return _value_and_log_hazard(upper, log_density, integral)


@jax.jit
def _f_logsf(x: Array, df_num: Array, df_den: Array) -> Array:
    info = jnp.finfo(x.dtype)
    bounded = jnp.minimum(df_num, df_den) <= largest_df(x.dtype)
    valid = (df_num > 0) & (df_den > 0) & bounded & ~jnp.isnan(x)
    inside = valid & (x > info.tiny**0.5) & (x < jnp.inf)
    # Beyond this number more degrees of freedom change nothing: the chi-square limit.
    shapes = (jnp.minimum(jnp.where(inside, df, 1.0), info.eps**-2) / 2 for df in (df_num, df_den))
    value = _f_log_survival(jnp.where(inside, x, 1.0), *shapes)
    density_at_zero = jnp.where(df_num == 2, 1.0, 0.0)
    return survival.fill_outside(value, inside, valid, x, density_at_zero, -jnp.inf)


@survival.with_hazard
def _f_log_survival(x: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """F with shapes a and b, half the degrees of freedom.

    The reflection x -> 1 / x swaps the shapes, so that the tail is always I_w(c, o) with mean
    c / n, n = c + o, and w = c g / (o + c g), g <= 1, at or below the mean.
    """
    tiny = jnp.finfo(x.dtype).tiny
    x = jnp.clip(x, tiny, 1 / tiny)
    upper = x >= 1
    g, gap = jnp.where(upper, 1 / x, x), jnp.where(upper, (x - 1) / x, 1 - x)
    c, o = jnp.where(upper, b, a), jnp.where(upper, a, b)
    n = c + o
    odds = c * g / o
    w, rest = odds / (1 + odds), 1 / (1 + odds)
    integral = _beta_integral(c + _SHIFT, o, w, rest, slope=(c * gap + _SHIFT) * rest)
    integral = _undo_shift(integral, c, [(n + k) * w for k in range(_SHIFT)])
    log_ratio = jnp.log(n / (o + c * g))
    log_density = 0.5 * (jnp.log(jnp.minimum(c, o) * (jnp.maximum(c, o) / n)) - _LOG_2PI)
    # Stacked, so that their graphs are built once.
    remainder = stirling_remainder(jnp.stack([n, c, o]))
    deficit = log1p_deficit(
        jnp.stack([-gap * rest, c * gap / (o + c * g)]),
        jnp.stack([log_ratio + jnp.log(g), log_ratio]),
    )
    log_density += remainder[0] - remainder[1] - remainder[2] - c * deficit[0] - o * deficit[1]
    return _value_and_log_hazard(upper, log_density, integral)


def _beta_integral(c: Array, o: Array, w: Array, rest: Array, slope: Array) -> Array:
    """M of I_w(c, o) in log odds, with integrand exp(-c v) / (1 - w + w exp(-v))^n.

    Written from the side of the smaller shape, its two factors do not cancel.
    """
    from_other = o <= c
    exponent = Exponent(
        rate=jnp.where(from_other, o, c),
        sign=jnp.where(from_other, 1.0, -1.0).astype(w.dtype),
        total=c + o,
        share=jnp.where(from_other, rest, w),
    )
    return integrate(exponent, slope, (c + o) * w * rest)


def _undo_shift(integral: Array, c: Array, weights: Sequence[Array]) -> Array:
    """From M at shape c + 8 to M at c: M(c) = (1 + n w M(c + 1)) / c, by parts."""
    for k, weight in reversed(list(enumerate(weights))):
        integral = (1 + weight * integral) / (c + k)
    return integral


def _value_and_log_hazard(upper: Array, log_density: Array, integral: Array) -> tuple[Array, Array]:
    """Log survival and its log hazard in log x: the density over the tail."""
    # The integral underflows only where x is within a factor of its largest value.
    log_ratio = jnp.log(jnp.maximum(integral, jnp.finfo(integral.dtype).tiny))
    value = survival.from_tail(upper, log_density + log_ratio)
    return value, jnp.where(upper, -log_ratio, log_density - value)


def largest_df(dtype: np.dtype) -> float:
    """The largest degrees of freedom that the rounding of ``dtype`` allows.

    Rounding of the exponent leaves an error of a few eps sqrt(df) in log p, which stays below
    1e-10 in float64 and 1e-3 in float32 up to this number.
    """
    return 1e10 if dtype == np.float64 else 2.0**24
