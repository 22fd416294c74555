"""Running sums, and places of extremes, along the last axis.

On CPU a plain loop is several times as fast as the logarithmic scheme that JAX uses, and the place
of an extreme is found from its value several times as fast as by ``argmax``.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

_FEW_PLACES = 1 << 16
"""Values up to which a pass for every group costs less than taking them to their groups in turn."""


def _by_loop(
    step: Callable[[jax.Array, jax.Array], jax.Array], start: float, values: jax.Array
) -> jax.Array:
    def body(carry: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = step(carry, value)
        return carry, carry

    begin = jnp.full((), start, values.dtype)
    if values.ndim == 1:
        return lax.scan(body, begin, values)[1]
    # Row by row: side by side they would be turned over in memory, twice.
    rows = lax.map(lambda row: lax.scan(body, begin, row)[1], values.reshape(-1, values.shape[-1]))
    return rows.reshape(values.shape)


def running_sum(values: jax.Array) -> jax.Array:
    """Sums of the first ``0 .. n`` values: ``(..., n)`` gives ``(..., n + 1)``."""
    return lax.platform_dependent(
        jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(1, 0)]),
        cpu=partial(_by_loop, jnp.add, 0.0),
        default=lambda padded: jnp.cumsum(padded, axis=-1),
    )


def running_min(values: jax.Array) -> jax.Array:
    """Smallest of the values up to each of them, ``(..., n)``."""
    return lax.platform_dependent(
        values,
        cpu=partial(_by_loop, jnp.minimum, jnp.inf),
        default=lambda values: lax.cummin(values, axis=values.ndim - 1),
    )


def first_max(values: jax.Array) -> jax.Array:
    """Position of the first largest value, ``(...)`` int32; 0 where there is a NaN."""
    largest = jnp.max(values, axis=-1, keepdims=True)
    position = jnp.arange(values.shape[-1], dtype=jnp.int32)
    found = jnp.min(jnp.where(values == largest, position, values.shape[-1]), axis=-1)
    return jnp.where(found < values.shape[-1], found, 0)


def first_max_of_groups(values: jax.Array, group: jax.Array, num_groups: int) -> jax.Array:
    """Position of the first largest value of each group, ``(num_groups,)`` int32.

    Args:
      values: ``(n,)``; ``-inf`` where none may be.
      group: ``(n,)`` int32; those outside ``0 .. num_groups - 1`` are left out.
      num_groups: static.

    Returns:
      Positions; 0 for groups without a value above ``-inf``.
    """
    num = len(values)
    if num <= _FEW_PLACES:
        own = group[None] == jnp.arange(num_groups, dtype=group.dtype)[:, None]
        masked = jnp.where(own, values[None], -jnp.inf)
        return jnp.where(jnp.max(masked, axis=1) > -jnp.inf, first_max(masked), 0)
    largest = jnp.full(num_groups, -jnp.inf, values.dtype).at[group].max(values, mode="drop")
    threshold = jnp.append(largest, jnp.full(1, jnp.inf, values.dtype))
    place = jnp.where(values >= threshold[group], jnp.arange(num, dtype=jnp.int32), num)
    first = jnp.full(num_groups, num, jnp.int32).at[group].min(place, mode="drop")
    return jnp.where((largest > -jnp.inf) & (first < num), first, 0)
