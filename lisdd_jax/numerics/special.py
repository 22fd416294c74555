"""Special functions that the tail probabilities share, free of cancellation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

# Coefficients of the Stirling series, B_2k / (2k (2k - 1)) (Abramowitz & Stegun 1964, 6.1.41).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_STIRLING_FROM = 8.0
_SERIES_BELOW = 0.25


def promote_real(**arguments: ArrayLike) -> tuple[Array, ...]:
    """Broadcast named real arguments together in one floating dtype.

    Integers and booleans become JAX's default float; half precision becomes float32.

    Args:
        **arguments: arrays or scalars of broadcastable shapes.

    Returns:
        The arguments in the order given, of one shape and dtype.

    Raises:
        TypeError: if an argument is complex or not numeric.
        ValueError: if the shapes do not broadcast.
    """
    # Known arrays stay with NumPy until they have their shape: each step would be a program.
    arrays = [
        value if isinstance(value, Array | bool | int | float) else np.asarray(value)
        for value in arguments.values()
    ]
    for name, array in zip(arguments, arrays, strict=True):
        dtype = jnp.result_type(array)
        if not (jnp.isdtype(dtype, ("bool", "real floating", "integral"))):
            raise TypeError(f"{name} must be real, got dtype {dtype}")
    try:
        shape = np.broadcast_shapes(*map(np.shape, arrays))
    except ValueError:
        shapes = ", ".join(f"{n} {np.shape(a)}" for n, a in zip(arguments, arrays, strict=True))
        raise ValueError(f"shapes must broadcast, got {shapes}") from None
    # The tails promote their arguments themselves, whatever the setting of the caller.
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.promote_types(jnp.result_type(*arrays, 0.0), jnp.float32)

    def spread(array: Any) -> Array:
        if isinstance(array, Array):
            return jnp.broadcast_to(array.astype(dtype), shape)
        return jax.device_put(np.broadcast_to(np.asarray(array, dtype), shape))

    return tuple(map(spread, arrays))


@jax.custom_jvp
def log1p_deficit(excess: Array, log_ratio: Array) -> Array:
    """Return d - log(1 + d) for d > -1, accurate for every d.

    Args:
        excess: d, any shape, computed by the caller without cancellation.
        log_ratio: log(1 + d), of the same shape, used for |d| >= 1/4: computed from the factors of
            1 + d, where 1 + d itself would be lost near d = -1.

    Returns:
        The deficit, non-negative, of the same shape.
    """
    # log1p(d) = 2 atanh(z), so that d - log1p(d) = d z - 2 (z^3 / 3 + z^5 / 5 + ...).
    small = jnp.abs(excess) < _SERIES_BELOW
    d = jnp.where(small, excess, 0.0)
    z = d / (2.0 + d)
    z2 = z * z
    tail = jnp.zeros_like(z)
    for k in range(9, -1, -1):
        tail = tail * z2 + 1.0 / (2 * k + 3)
    return jnp.where(small, d * z - 2.0 * z * z2 * tail, excess - log_ratio)


@log1p_deficit.defjvp
def _log1p_deficit_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    excess, log_ratio = primals
    small = jnp.abs(excess) < _SERIES_BELOW
    d = jnp.where(small, excess, 0.0)
    by_excess, by_log_ratio = jnp.where(small, d / (1.0 + d), 1.0), jnp.where(small, 0.0, -1.0)
    tangent = by_excess * tangents[0] + by_log_ratio * tangents[1]
    return log1p_deficit(excess, log_ratio), tangent


def complex_log1p(real: Array, imaginary: Array) -> tuple[Array, Array]:
    """Real and imaginary part of log(1 + z), in real arithmetic and accurate for small z."""
    size = real * (2.0 + real) + imaginary * imaginary
    return 0.5 * jnp.log1p(size), jnp.arctan2(imaginary, 1.0 + real)


def stirling_remainder(a: Array) -> Array:
    """Return log Gamma(a) - (a - 1/2) log a + a - log(2 pi) / 2 for a > 0.

    The remainder is what is left of log Gamma once its large terms are gone; tail
    probabilities need only this part, so their error does not grow with the degrees of freedom.

    Args:
        a: positive, any shape; infinite is allowed and gives 0.

    Returns:
        The remainder, about 1 / (12 a) for large a, of the same shape.

    References:
        Abramowitz & Stegun (1964), 6.1.41.
    """
    small = a < _STIRLING_FROM
    large = jnp.where(small, a + _STIRLING_FROM, a)
    inverse = 1.0 / large
    series = jnp.zeros_like(a)
    for coefficient in reversed(_STIRLING):
        series = series * inverse * inverse + coefficient
    series = series * inverse
    # Gamma(a) = Gamma(a + 8) / (a (a + 1) ... (a + 7)).
    low = jnp.where(small, a, 1.0)
    high = low + _STIRLING_FROM
    product = low
    for k in range(1, int(_STIRLING_FROM)):
        product = product * (low + k)
    shift = (high - 0.5) * jnp.log(high) - _STIRLING_FROM - jnp.log(product)
    return series + jnp.where(small, shift - (low - 0.5) * jnp.log(low), 0.0)
