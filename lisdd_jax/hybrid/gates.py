"""Smooth indicators that become the hard ones as their width goes to zero."""

from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax import validation
from lisdd_jax.status import nan_where

LOWEST_TEMPERATURE = 1e-3
# Beyond it the smooth absolute value has no median of the size of the noise.
HIGHEST_TEMPERATURE = 0.5


def check_temperature(temperature: Any, dtype: jnp.dtype) -> jax.Array:
    """A temperature as an array; refuse one outside the supported range."""
    validation.check_number("temperature", temperature, LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)
    return jnp.asarray(temperature, dtype)


@jax.jit
def step(distance: jax.Array, width: jax.Array) -> jax.Array:
    """One above zero and zero below it, logistic over ``width``; exactly so where that is zero.

    Args:
      distance: ``(...)`` signed, positive inside.
      width: broadcast against it, non-negative.

    Returns:
      ``(...)`` in [0, 1]. Infinite distances give 0 or 1 with derivative 0. NaN where the distance
      is, or where the width is NaN or negative: neither is a gate, sharp or open.
    """
    soft = jnp.isfinite(distance) & (width > 0)
    ratio = jnp.where(soft, distance, 0.0) / jnp.where(soft, width, 1.0)
    sharp = (distance >= 0).astype(ratio.dtype)
    # Not ``~(width >= 0)``: XLA takes an exponential for one, also where it is NaN.
    undefined = jnp.isnan(distance) | jnp.isnan(width) | (width < 0)
    return nan_where(undefined, jnp.where(soft, jax.nn.sigmoid(ratio), sharp))


def between(axis: jax.Array, lower: jax.Array, upper: jax.Array, width: jax.Array) -> jax.Array:
    """One inside an interval and zero outside, with logistic ends.

    Args:
      axis, lower, upper, width: broadcast against each other.

    Returns:
      Their common shape. At width zero the half-open indicator, ``results.in_interval``, which the
      logistic ends approach as the width falls.
    """
    below = 1 - step(axis - upper, width)
    return step(axis - lower, width) * below


def cell_membership(axis: jax.Array, edges: jax.Array, width: jax.Array) -> jax.Array:
    """Share of every row in every cell; they sum to one.

    Args:
      axis: ``(n,)`` inside the edges.
      edges: ``(R + 1,)`` non-decreasing.
      width: scalar, of the inner edges; the outer ones have no other side.

    Returns:
      ``(n, R)``.
    """
    above = step(axis[:, None] - edges[None, 1:-1], width)
    ones = jnp.ones_like(above[:, :1])
    above = jnp.concatenate([ones, above, jnp.zeros_like(ones)], axis=1)
    return above[:, :-1] - above[:, 1:]


def smooth_sign(values: jax.Array, width: jax.Array) -> jax.Array:
    """Smooth sign ``v / sqrt(v^2 + width^2)``.

    Its slope falls off with a power only, so that a median defined by it is determined however
    small the width.
    """
    return values / magnitude(values, width)


def magnitude(values: jax.Array, width: jax.Array) -> jax.Array:
    """Smooth absolute value ``sqrt(v^2 + width^2)``."""
    return jnp.sqrt(values**2 + width**2)
