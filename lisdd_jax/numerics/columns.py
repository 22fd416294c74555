"""Tall arrays column by column: on CPU reductions over few columns row by row are slow."""

import jax
import jax.numpy as jnp
from jax import lax

_FEW = 4


def along_rows(values: jax.Array) -> jax.Array:
    """Columns ``(..., k, n)`` of ``(..., n, k)``, in memory too.

    Reductions over the rows are then several times as fast; without the barrier XLA would fold the
    transposition into each of them.
    """
    return lax.optimization_barrier(jnp.swapaxes(values, -1, -2))


def combine(weights: jax.Array, columns: jax.Array) -> jax.Array:
    """Weighted sum ``(n,)`` of columns ``(k, n)``.

    Few columns are summed in the loop that uses the sum, where a matrix product would be one apart.
    """
    if columns.shape[0] > _FEW:
        return jnp.matmul(weights, columns, precision="highest")
    total = weights[0] * columns[0]
    for weight, column in zip(weights[1:], columns[1:], strict=True):
        total = total + weight * column
    return total
