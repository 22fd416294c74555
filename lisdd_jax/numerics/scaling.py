"""Square roots and column norms whose derivatives exist where a value or a column is zero."""

import jax
import jax.numpy as jnp
from jax import lax


def root(values: jax.Array) -> jax.Array:
    """Square root, 0 at and below zero with derivative 0 there; NaN passes."""
    usable = ~(values <= 0)
    return jnp.where(usable, jnp.sqrt(jnp.where(usable, values, 1.0)), 0.0)


def root_mean_square(values: jax.Array, count: jax.Array) -> jax.Array:
    """Root of a sum of squares over a count, whose squares may be beyond the range of floats.

    Args:
      values: ``(n,)``, zero where out of use.
      count: how many are in use.
    """
    largest = jnp.max(jnp.abs(values), initial=0.0)
    return largest * root(jnp.sum((values / jnp.where(largest > 0, largest, 1.0)) ** 2) / count)


def binary_unit(size: jax.Array) -> jax.Array:
    """The power of two next below a size, which values are divided by without rounding; 1 for 0.

    Squares of values near the ends of the range of floats leave it; those in this unit do not.

    Args:
      size: not negative; held constant under differentiation.
    """
    exponent = jnp.frexp(lax.stop_gradient(size))[1] - 1
    return jnp.where(size > 0, jnp.ldexp(jnp.ones_like(size), exponent), 1.0)


def column_norms(columns: jax.Array, axis: int = 0) -> jax.Array:
    """Euclidean norms along an axis, 1 for zero columns, constant under differentiation.

    For changes of scale that are undone later: what does not depend on the scale has no derivative
    through it.
    """
    norm = root(jnp.sum(lax.stop_gradient(columns) ** 2, axis=axis))
    return jnp.where(norm > 0, norm, 1.0)
