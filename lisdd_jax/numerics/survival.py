"""What all log survival functions share: their two tails, their slope and their edges."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero


def from_tail(upper: Array, log_tail: Array) -> Array:
    """Log survival from the log of the upper tail or, where not ``upper``, of the lower one."""
    lower = jnp.exp(jnp.where(upper, -1.0, log_tail))
    # Rounding may take a lower tail to 1, where its complement would be lost.
    complement = jnp.log1p(-jnp.minimum(lower, 1 - jnp.finfo(lower.dtype).epsneg))
    return jnp.where(upper, log_tail, complement)


def with_hazard(parts: Callable[..., tuple[Array, Array]]) -> Callable[..., Array]:
    """Give a log survival function its slope in x from the hazard, at no cost.

    Parameters are differentiated through ``parts``, and only those that carry a tangent.

    Args:
        parts: ``parts(x, *parameters)`` returns log S and the log of -d log S / d log x.

    Returns:
        ``log_survival(x, *parameters)``, differentiable to any order, forward and reverse.
    """

    @jax.custom_jvp
    def log_survival(x: Array, *parameters: Array) -> Array:
        return parts(x, *parameters)[0]

    def rule(primals: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
        (x, *parameters), (x_dot, *dots) = primals, tangents
        value, log_hazard = parts(x, *parameters)
        value_dot = jnp.zeros_like(value)
        if not isinstance(x_dot, SymbolicZero):
            value_dot -= jnp.exp(log_hazard) / x * x_dot
        active = [i for i, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)]
        if active:

            def varied(*values: Array) -> Array:
                replaced = dict(zip(active, values, strict=True))
                return parts(x, *(replaced.get(i, p) for i, p in enumerate(parameters)))[0]

            primal, tangent = tuple(parameters[i] for i in active), tuple(dots[i] for i in active)
            value_dot += jax.jvp(varied, primal, tangent)[1]
        return value, value_dot

    log_survival.defjvp(rule, symbolic_zeros=True)
    return log_survival


def fill_outside(
    value: Array,
    inside: Array,
    valid: Array,
    x: Array,
    density_at_zero: Array | float,
    far: Array | float,
) -> Array:
    """Put 0 below the support, ``far`` above the range and NaN where undefined.

    Lanes outside take value and slope from here alone, so that none has a NaN derivative.

    Args:
        value: log survival, right where ``inside``.
        inside: lanes whose value stands.
        valid: lanes where a survival function exists at all.
        x: statistic.
        density_at_zero: density at 0 from the right, which is the slope there; finite.
        far: value beyond the range.

    Returns:
        Log survival of the same shape.
    """
    near = jnp.where(x < 0, 0.0, -density_at_zero * x)
    outside = jnp.where(x < 1, near, far)
    return jnp.where(inside, value, jnp.where(valid, outside, jnp.nan))
