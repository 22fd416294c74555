"""Integers in the order of floats, and extremes by way of them.

On CPU the extremes of integers are several times as fast as those of floats, whose rules for NaN
keep the loop from being vectorised.
"""

import jax
import jax.numpy as jnp
from jax import lax


def integer_type(dtype: jnp.dtype) -> jnp.dtype:
    """The integers as wide as a type of floats."""
    return jnp.dtype(jnp.int32 if dtype == jnp.float32 else jnp.int64)


def _smallest_normal(dtype: jnp.dtype) -> jax.Array:
    return lax.bitcast_convert_type(jnp.finfo(dtype).tiny, integer_type(dtype))


def _to_exact(values: jax.Array) -> jax.Array:
    """Integers in the order of floats, one for each float."""
    bits = lax.bitcast_convert_type(values, integer_type(values.dtype))
    magnitude = bits & jnp.iinfo(bits.dtype).max
    return jnp.where(bits < 0, -magnitude, magnitude)


def _from_exact(exact: jax.Array, dtype: jnp.dtype) -> jax.Array:
    magnitude = lax.bitcast_convert_type(jnp.abs(exact), dtype)
    return jnp.where(exact < 0, -magnitude, magnitude)


def to_integer(values: jax.Array) -> jax.Array:
    """Integers in the order of floats; subnormals share that of 0, as XLA compares them on CPU.

    Neighbouring normal floats have neighbouring integers.
    """
    exact = _to_exact(values)
    magnitude = jnp.maximum(jnp.abs(exact) - _smallest_normal(values.dtype) + 1, 0)
    return jnp.where(exact < 0, -magnitude, magnitude)


def from_integer(place: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The float of such an integer."""
    place = place.astype(integer_type(dtype))
    magnitude = lax.bitcast_convert_type(jnp.abs(place) + _smallest_normal(dtype) - 1, dtype)
    return jnp.where(place == 0, 0.0, jnp.where(place < 0, -magnitude, magnitude)).astype(dtype)


def least(values: jax.Array, where: jax.Array | None = None) -> jax.Array:
    """Smallest value along the last axis of those chosen, ``inf`` where none is."""
    if where is not None:
        values = jnp.where(where, values, jnp.inf)
    exact = _to_exact(values)
    return _from_exact(jnp.min(exact, axis=-1), values.dtype)


def greatest(values: jax.Array, where: jax.Array | None = None) -> jax.Array:
    """Largest value along the last axis of those chosen, ``-inf`` where none is.

    NaN where the values are magnitudes, ``abs(...)``, and one is NaN.
    """
    if where is not None:
        values = jnp.where(where, values, -jnp.inf)
    exact = _to_exact(values)
    return _from_exact(jnp.max(exact, axis=-1), values.dtype)
