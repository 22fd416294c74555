r"""Upper tail of the noncentral F distribution, on the log scale and with derivatives.

A noncentral F variable exceeds ``x`` when :math:`X_1 > \kappa X_2`, with
:math:`\kappa = d_1 x / d_2`, :math:`X_1` noncentral and :math:`X_2` central chi-square. The
cumulant function of half the difference is elementary,

.. math:: K(s) = \frac{\lambda}{2} \frac{s}{1 - s} - \frac{d_1}{2} \log(1 - s)
          - \frac{d_2}{2} \log(1 + \kappa s), \qquad -1 / \kappa < s < 1,

and either tail is a contour integral of :math:`e^{K(s)} / |s|` on its side of the pole at 0.
The contour passes through the saddle point of the integrand and bends as the path of steepest
descent does, so that nothing oscillates or cancels, and the trapezoidal rule on it converges
geometrically. The work is the same for every argument: there is no series whose length grows with
the noncentrality. By Cauchy's theorem the contour carries no derivative.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from lisdd_jax.numerics import survival
from lisdd_jax.numerics.special import complex_log1p, promote_real
from lisdd_jax.numerics.tails import largest_df


def ncf_logsf(
    x: ArrayLike, df_num: ArrayLike, df_den: ArrayLike, noncentrality: ArrayLike
) -> Array:
    r"""Log of the probability that a noncentral F variable exceeds ``x``.

    .. math:: \log P\left( \frac{\chi^2_{d_1}(\lambda) / d_1}{\chi^2_{d_2} / d_2} > x \right)

    This is the log power of an F-test with critical value ``x``. The error is at most 1e-10 times
    ``max(1, |log p|)`` in float64 and 1e-3 in float32, in practice near rounding. Differentiable
    in all arguments, in forward and reverse mode.

    Args:
        x: critical value, any shape.
        df_num: numerator degrees of freedom, at least 1.
        df_den: denominator degrees of freedom, at least 1; infinite is the limit in which the
            variance is known.
        noncentrality: sum of squared standardised means, at least 0.

    Returns:
        Log probability of the broadcast shape, in the arguments' floating dtype: 0 for ``x <= 0``,
        -inf for ``x = inf``, NaN where an argument is NaN or out of its range, or where the
        smaller number of degrees of freedom or the noncentrality exceeds 1e10 in float64, 2**24 in
        float32.

    Raises:
        TypeError: if an argument is not real.
        ValueError: if the shapes do not broadcast.

    Example:
        >>> round(float(ncf_logsf(50.0, 2, 500, 10.0)), 2)
        -23.52

    References:
        Helstrom & Ritcey (1985), "Evaluation of the noncentral F-distribution by numerical contour
        integration", SIAM J. Sci. Stat. Comput. 6, 505-514.
    """
    arguments = promote_real(x=x, df_num=df_num, df_den=df_den, noncentrality=noncentrality)
    return _ncf_logsf(*arguments)


def ncf_sf(x: ArrayLike, df_num: ArrayLike, df_den: ArrayLike, noncentrality: ArrayLike) -> Array:
    """Probability that a noncentral F variable exceeds ``x``: the power of an F-test.

    Args:
        x: critical value, any shape.
        df_num: numerator degrees of freedom, at least 1.
        df_den: denominator degrees of freedom, at least 1.
        noncentrality: sum of squared standardised means, at least 0.

    Returns:
        ``exp(ncf_logsf(x, df_num, df_den, noncentrality))``.

    Example:
        >>> round(float(ncf_sf(3.0, 2, 500, 10.0)), 4)
        0.8145
    """
    return jnp.exp(ncf_logsf(x, df_num, df_den, noncentrality))


@jax.jit
def _ncf_logsf(x: Array, df_num: Array, df_den: Array, noncentrality: Array) -> Array:
    info = jnp.finfo(x.dtype)
    limit = largest_df(x.dtype)
    valid = (df_num >= 1) & (df_den >= 1) & (noncentrality >= 0) & ~jnp.isnan(x)
    valid &= (jnp.minimum(df_num, df_den) <= limit) & (noncentrality <= limit)
    inside = valid & (x > info.tiny**0.5) & (x < jnp.inf)
    a, b = (jnp.minimum(jnp.where(inside, df, 1.0), info.eps**-2) / 2 for df in (df_num, df_den))
    half = jnp.where(inside, noncentrality, 0.0) / 2
    kappa = a / b * jnp.minimum(jnp.where(inside, x, 1.0), info.tiny**-0.5)
    value = _log_survival(_Cumulant(half, a, b, kappa))
    density_at_zero = jnp.where(df_num == 2, jnp.exp(-half), 0.0)
    return survival.fill_outside(value, inside, valid, x, density_at_zero, -jnp.inf)


class _Cumulant(NamedTuple):
    """Half the noncentrality, half the degrees of freedom, and kappa."""

    half: Array
    a: Array
    b: Array
    kappa: Array


class _Saddle(NamedTuple):
    """A real s in (-1 / kappa, 1), with its distances from both ends free of cancellation."""

    s: Array
    right: Array  # 1 - s
    log_right: Array
    left_rate: Array  # kappa / (1 + kappa s), the inverse distance
    log_left: Array


class _Contour(NamedTuple):
    """Points s + unit z, z = i y + bend y^2, y = width sinh(u), for 0 <= u <= end."""

    unit: Array
    width: Array
    bend: Array
    end: Array


def _log_survival(cumulant: _Cumulant) -> Array:
    fixed = lax.stop_gradient(cumulant)
    # The mean of the difference tells the smaller tail.
    upper = fixed.half + fixed.a <= fixed.b * fixed.kappa
    saddle = _find_saddle(fixed, upper)
    contour = _find_contour(fixed, saddle)
    # The saddle stays, but kappa moves its distance from the left end.
    relative = cumulant.kappa / fixed.kappa
    stretch = (relative - 1) * saddle.s * saddle.left_rate
    saddle = saddle._replace(
        left_rate=saddle.left_rate * relative / (1 + stretch),
        log_left=saddle.log_left + jnp.log1p(stretch),
    )
    exponent = (
        cumulant.half * saddle.s / saddle.right
        - cumulant.a * saddle.log_right
        - cumulant.b * saddle.log_left
    )
    integral = _integrate(cumulant, saddle, contour)
    return survival.from_tail(upper, exponent + jnp.log(integral))


def _saddle_at(t: Array, kappa: Array, upper: Array) -> _Saddle:
    """The point at a share 1 / (1 + exp(-t)) of the way from the pole at 0 to the end."""
    share, rest, log_rest = jax.nn.sigmoid(t), jax.nn.sigmoid(-t), -jax.nn.softplus(t)
    inverse = 1 / kappa
    return _Saddle(
        s=jnp.where(upper, share, -share * inverse),
        right=jnp.where(upper, rest, 1 + share * inverse),
        log_right=jnp.where(upper, log_rest, jnp.log1p(share * inverse)),
        left_rate=kappa / jnp.where(upper, 1 + kappa * share, rest),
        log_left=jnp.where(upper, jnp.log1p(kappa * share), log_rest),
    )


def _find_saddle(cumulant: _Cumulant, upper: Array) -> _Saddle:
    """The minimum of K(s) - log |s| on the side of the tail; a few digits of it are enough."""
    half, a, b, kappa = cumulant

    def beyond(t: Array) -> Array:
        at = _saddle_at(t, kappa, upper)
        slope = (half / at.right + a) / at.right - b * at.left_rate - 1 / at.s
        return jnp.where(upper, slope > 0, slope < 0)

    limit = jnp.full_like(kappa, -0.9 * jnp.log(jnp.finfo(kappa.dtype).tiny))
    return _saddle_at(_bisect(beyond, -limit, limit, num_steps=48), kappa, upper)


def _find_contour(cumulant: _Cumulant, saddle: _Saddle) -> _Contour:
    """Width, bend and end of the contour; lengths in a unit set by the nearest singularity."""
    unit = 1 / (1 / saddle.right + saddle.left_rate + 1 / jnp.abs(saddle.s))
    right, left = unit / saddle.right, unit * saddle.left_rate
    pull = cumulant.half / saddle.right
    second = (2 * pull + cumulant.a) * right**2 + cumulant.b * left**2
    third = (6 * pull + 2 * cumulant.a) * right**3 - 2 * cumulant.b * left**3
    # The bend is that of K alone: with the pole's share it would be wrong beyond the pole.
    width = 1 / jnp.sqrt(second + (unit / saddle.s) ** 2)
    bend = third / (6 * second)
    contour = _Contour(unit, width, bend, jnp.zeros_like(unit))
    depth = -jnp.log(jnp.finfo(unit.dtype).eps)

    def negligible(u: Array) -> Array:
        log_size, _, slant = _log_integrand(cumulant, saddle, contour, u)
        return log_size + jnp.log(jnp.cosh(u) * jnp.hypot(1.0, slant)) < -depth

    end = _bisect(negligible, jnp.zeros_like(unit), jnp.full_like(unit, 40.0), num_steps=16)
    return contour._replace(end=end)


def _log_integrand(
    cumulant: _Cumulant, saddle: _Saddle, contour: _Contour, u: Array
) -> tuple[Array, Array, Array]:
    """Log modulus and phase of e^K / s relative to the saddle, and the slant 2 bend y."""
    y = contour.width * jnp.sinh(u)
    z = contour.bend * y * y, y
    right, left = contour.unit / saddle.right, contour.unit * saddle.left_rate
    modulus_right, phase_right = complex_log1p(-right * z[0], -right * z[1])
    modulus_left, phase_left = complex_log1p(left * z[0], left * z[1])
    modulus_pole, phase_pole = complex_log1p(*(contour.unit / saddle.s * part for part in z))
    # The noncentral term (s / (1 - s) less its value at the saddle) is q / (1 - q), q = right z.
    real, imaginary = right * z[0], right * z[1]
    pull = cumulant.half / saddle.right
    scale = pull / ((1 - real) ** 2 + imaginary**2)
    log_size = scale * (real * (1 - real) - imaginary**2)
    log_size -= cumulant.a * modulus_right + cumulant.b * modulus_left + modulus_pole
    phase = scale * imaginary
    phase -= cumulant.a * phase_right + cumulant.b * phase_left + phase_pole
    return log_size, phase, 2 * contour.bend * y


def _integrate(cumulant: _Cumulant, saddle: _Saddle, contour: _Contour) -> Array:
    """The contour integral relative to exp(K) at the saddle, by the trapezoidal rule in u."""
    num_steps = 96 if contour.end.dtype == np.float64 else 40
    share = np.arange(num_steps + 1) / num_steps
    weights = np.where((share == 0) | (share == 1), 0.5, 1.0) / (num_steps * np.pi)
    cumulant, saddle, at_contour = jax.tree.map(
        lambda field: field[..., None], (cumulant, saddle, contour)
    )
    share, weights = (
        part.astype(contour.end.dtype).reshape((1,) * contour.end.ndim + (-1,))
        for part in (share, weights)
    )
    u = contour.end[..., None] * share
    log_size, phase, slant = _log_integrand(cumulant, saddle, at_contour, u)
    value = jnp.exp(log_size) * jnp.cosh(u) * (jnp.cos(phase) + slant * jnp.sin(phase))
    scale = contour.end * contour.width * contour.unit / jnp.abs(saddle.s[..., 0])
    return scale * jnp.sum(value * weights, axis=-1)


def _bisect(beyond: Callable[[Array], Array], low: Array, high: Array, *, num_steps: int) -> Array:
    """The point where ``beyond`` turns from false to true, to a share 2**-num_steps."""

    def step(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        past = beyond(middle)
        return jnp.where(past, low, middle), jnp.where(past, middle, high)

    low, high = lax.fori_loop(0, num_steps, step, (low, high))
    return 0.5 * (low + high)
