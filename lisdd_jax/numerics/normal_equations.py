"""Small systems from sums of products, solved by the sweep operator.

For columns that ``frame.whiten`` has mapped to a well-conditioned basis. There sums of products per
cell are safe, and a refit on any union of cells costs nothing in rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import tolerances
from lisdd_jax.numerics.hosted import unroll


class Swept(NamedTuple):
    """Solution ``(p,)``, inverse ``(p, p)``, ``(p,)`` bool of independent columns."""

    solution: jax.Array
    inverse: jax.Array
    independent: jax.Array


def sweep(gram: jax.Array, moment: jax.Array, tolerance: float | None = None) -> Swept:
    """Solve ``gram x = moment`` by the sweep operator, skipping dependent columns.

    For well-conditioned systems, such as sums of products in the basis of ``frame.whiten``. Batches
    over leading axes. Unlike ``jnp.linalg.solve`` it is safe in any number and batch size under one
    ``jit`` on CPU, where two large batched factorisations can block each other for ever.

    Args:
      gram: ``(..., p, p)`` symmetric positive semi-definite.
      moment: ``(..., p)``.
      tolerance: a column is dependent when its pivot is below this share of its diagonal.

    Returns:
      A ``Swept``; dependent columns have solution 0 and zero rows and columns in the inverse.

    References:
      Goodnight (1979), A tutorial on the SWEEP operator, The American Statistician 33.
    """
    num = gram.shape[-1]
    if tolerance is None:
        tolerance = tolerances.PIVOT(gram.dtype)
    table = jnp.concatenate([gram, moment[..., None]], axis=-1)
    diagonal = jnp.diagonal(gram, axis1=-2, axis2=-1)

    def step(table: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
        pivot = table[..., k, k]
        usable = pivot > tolerance * diagonal[..., k]
        safe = jnp.where(usable, pivot, 1.0)[..., None]
        row = table[..., k, :] / safe
        column = table[..., :, k]
        is_row = (jnp.arange(num) == k)[:, None]
        is_column = (jnp.arange(num + 1) == k)[None]
        swept = table - column[..., :, None] * row[..., None, :]
        swept = jnp.where(is_row, row[..., None, :], swept)
        swept = jnp.where(is_column, (-column / safe)[..., :, None], swept)
        swept = jnp.where(is_row & is_column, 1.0 / safe[..., None], swept)
        cleared = jnp.where(is_row | is_column, 0.0, table)
        return jnp.where(usable[..., None, None], swept, cleared), usable

    table, independent = lax.scan(step, table, jnp.arange(num), unroll=unroll(num))
    return Swept(table[..., num], table[..., :num], jnp.moveaxis(independent, 0, -1))


def left_over(gram: jax.Array, cross: jax.Array, square: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What a fit to sums over rows leaves of the response's sum of squares.

    Args:
      gram: ``(..., p, p)`` products of the columns.
      cross: ``(..., p)`` products with the response.
      square: ``(...)`` sum of squares of the response.

    Returns:
      The residual sum ``(...)`` and the rank ``(...)`` int32.
    """
    fit = sweep(gram, cross, tolerances.gram(gram.dtype))
    left = square - jnp.sum(fit.solution * cross, axis=-1)
    return left, jnp.sum(fit.independent, axis=-1, dtype=jnp.int32)


def quadratic_form(matrix: jax.Array, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``vector' matrix^+ vector`` and the rank of a positive semi-definite matrix.

    Args:
      matrix: ``(..., p, p)``.
      vector: ``(..., p)``.

    Returns:
      The form ``(...)`` and the rank ``(...)`` int32.
    """
    swept = sweep(matrix, vector, tolerances.gram(matrix.dtype))
    form = jnp.sum(swept.solution * vector, axis=-1)
    return form, jnp.sum(swept.independent, axis=-1, dtype=jnp.int32)


def inverse_factor(gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Upper-triangular ``C`` with ``C' gram C = I`` on independent columns.

    ``columns @ C`` is then orthonormal where ``gram = columns' columns``: Gram-Schmidt, applied
    twice, in the metric of the Gram matrix.

    Args:
      gram: ``(p, p)`` symmetric positive semi-definite.

    Returns:
      ``(p, p)`` with zero columns for dependent ones, and ``(p,)`` bool of independent columns.
    """
    num = gram.shape[0]
    tolerance = tolerances.gram(gram.dtype)

    def step(factor: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        direction = (jnp.arange(num) == j).astype(gram.dtype)
        for _ in range(2):
            direction = direction - factor @ (factor.T @ (gram @ direction))
        left = direction @ gram @ direction
        usable = left > tolerance * gram[j, j]
        norm = jnp.sqrt(jnp.where(usable, left, 1.0))
        column = jnp.where(usable, direction / norm, 0.0)
        return factor.at[:, j].set(column), usable

    return lax.scan(step, jnp.zeros_like(gram), jnp.arange(num), unroll=unroll(num))
