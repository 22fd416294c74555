"""Functions of columns that noise may go with (docs/method.md, equation 20b)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.numerics import tolerances
from lisdd_jax.numerics.compilation import compiled

_RANGE = 4.0
"""Logs about their mean at which the noise scales of single rows are cut off."""


class Drivers(NamedTuple):
    """Columns that noise may go with: the axis, the physics, what the first fit predicts.

    What cells' own fits predict holds a part of each row's noise: rows that are low by chance would
    weigh more.

    Attributes:
      values: ``(p + 2, n)``; zero out of use. The prediction alone is counted from its own zero.
      used: ``(n,)`` bool.
    """

    values: jax.Array
    used: jax.Array


class Middle(NamedTuple):
    """Where drivers are small, and one over how far they are from there; 0 for constants.

    Attributes:
      center, inverse: ``(2, p + 2, 1)`` of ``T``: the mean; of ``|T|``: zero for the prediction.
    """

    center: jax.Array
    inverse: jax.Array


def gather_drivers(rows: Ordered, layout: ColumnLayout) -> Drivers:
    """The drivers, without the noise scales that rows were given."""
    one, physics = rows.columns[0], rows.columns[layout.physics]
    predicted = rows.initial / rows.unit @ physics + rows.level * one
    parts = [rows.columns[1:2], rows.mixing.T @ physics, predicted[None]]
    used = one > 0
    inverse = jnp.where(used, 1 / jnp.where(used, one, 1.0), 0.0)
    return Drivers(jnp.concatenate(parts) * inverse[None], used)


def find_middle(drivers: Drivers) -> Middle:
    """Where the drivers are small, and how far they are from there."""
    values, used = drivers
    count = jnp.maximum(jnp.sum(used), 1).astype(values.dtype)
    mean = jnp.sum(values, 1, keepdims=True) / count
    center = jnp.stack([mean, mean.at[-1].set(0.0)])

    def spread(center: jax.Array) -> jax.Array:
        apart = jnp.where(used[None], jnp.abs(values - center), 0.0)
        return jnp.sum(apart, 1, keepdims=True) / count

    size = jnp.stack([spread(part) for part in center])
    largest = jnp.max(jnp.abs(values), axis=1, keepdims=True)
    varies = size[:1] > tolerances.OFFSET(values.dtype) * largest[None]
    return Middle(center, jnp.where(varies, 1 / jnp.where(varies, size, 1.0), 0.0))


def functions_of(drivers: Drivers, middle: Middle) -> jax.Array:
    """``T`` and ``|T|`` of the drivers, ``(2 (p + 2), n)``; zero out of use and for constants."""
    values, used = drivers

    def of(side: int) -> jax.Array:
        ratio = (values - middle.center[side]) * middle.inverse[side]
        return jnp.where(used[None], jnp.sign(ratio) * jnp.log1p(jnp.abs(ratio)), 0.0)

    return jnp.stack([of(0), jnp.abs(of(1))], 1).reshape(-1, values.shape[1])


def log_scale_of(total: jax.Array, used: jax.Array) -> jax.Array:
    """Logs ``(n,)`` about their mean over rows in use; of rows out of use too."""
    count = jnp.maximum(jnp.sum(used), 1).astype(total.dtype)
    mean = jnp.sum(jnp.where(used, total, 0.0)) / count
    return jnp.clip(total - mean, -_RANGE, _RANGE)


@compiled
def carry_over(exponents: jax.Array, known: jax.Array, new: jax.Array) -> jax.Array:
    """Log noise scales of the rows of a diagnosis, and of further rows by the same functions.

    Args:
      exponents: ``(p + 2, 2)`` of the diagnosis.
      known: ``(p + 2, n)`` the axis, the physics columns and the prediction at its rows.
      new: ``(p + 2, m)`` the same at further rows.

    Returns:
      ``(n + m,)`` about the mean over the rows of the diagnosis; NaN where a column has no value.
    """
    drivers = Drivers(known, jnp.ones(known.shape[1], bool))
    every = jnp.concatenate([known, new], 1)
    row = jnp.arange(every.shape[1], dtype=jnp.int32)
    functions = functions_of(Drivers(every, row >= 0), find_middle(drivers))
    power = exponents.reshape(-1)
    # What has no exponent need not be known.
    total = jnp.sum(jnp.where(power[:, None] != 0, power[:, None] * functions, 0.0), 0)
    return log_scale_of(total, row < known.shape[1])
