"""Least squares that stays accurate: orthogonal factors, rank by column, small normal equations.

Two devices carry every fit of the library.

* ``compress`` turns rows into a triangular factor, and ``orthogonalize`` works on that factor by
  modified Gram-Schmidt with a pivot test per column. Errors grow with the condition number, not
  with its square.
* ``whiten`` maps the physics columns once to a well-conditioned basis. In that basis sums of
  products per cell are safe, and a refit on any union of cells is a small solve by ``sweep``.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import register_dataclass


def rank_tolerance(dtype: jnp.dtype) -> float:
    """Share of a column's norm below which what is left of it counts as rounding error."""
    return 1e3 * float(jnp.finfo(dtype).eps)


def _scales(columns: jax.Array) -> jax.Array:
    largest = jnp.max(jnp.abs(columns), axis=-2)
    return jnp.where(largest > 0, largest, 1.0)


def compress(columns: jax.Array) -> jax.Array:
    """Triangular factor ``R`` with ``R' R = columns' columns``, by Householder reflections.

    Columns are scaled to unit maximum inside, so units do not matter.

    Args:
      columns: ``(..., n, k)``, rows out of use set to zero.

    Returns:
      ``(..., k, k)`` upper-triangular factor.
    """
    *_, n, k = columns.shape
    if n < k:
        padding = [(0, 0)] * (columns.ndim - 2) + [(0, k - n), (0, 0)]
        columns = jnp.pad(columns, padding)
    scales = lax.stop_gradient(_scales(columns))
    return jnp.linalg.qr(columns / scales[..., None, :], mode="r") * scales[..., None, :]


class Orthogonal(NamedTuple):
    """Columns in terms of orthonormal directions, in the order given.

    Attributes:
      directions: ``(k, q)``, column j is the unit direction that column j adds, or 0.
      triangle: ``(q, q)`` upper triangular: coordinates of the columns in the directions.
      independent: ``(q,)`` bool, False for a column in the span of those before it.
    """

    directions: jax.Array
    triangle: jax.Array
    independent: jax.Array


def orthogonalize(columns: jax.Array, tolerance: float | None = None) -> Orthogonal:
    """Modified Gram-Schmidt with a pivot test per column.

    Args:
      columns: ``(k, q)``; pass the output of ``compress`` so that k is small.
      tolerance: a column is dependent when what is left of it is below this share of its norm.

    Returns:
      An ``Orthogonal``.
    """
    if tolerance is None:
        tolerance = rank_tolerance(columns.dtype)
    num = columns.shape[1]
    rest = columns
    directions, rows, independent = [], [], []
    for j in range(num):
        whole = jnp.sum(columns[:, j] ** 2)
        left = jnp.sum(rest[:, j] ** 2)
        usable = left > tolerance**2 * whole
        norm = jnp.sqrt(jnp.where(usable, left, 1.0))
        direction = jnp.where(usable, rest[:, j] / norm, 0.0)
        row = direction @ rest
        row = jnp.where(jnp.arange(num) < j, 0.0, row)
        rest = rest - direction[:, None] * row
        directions.append(direction)
        rows.append(row)
        independent.append(usable)
    return Orthogonal(jnp.stack(directions, 1), jnp.stack(rows), jnp.stack(independent))


def back_substitute(triangle: jax.Array, values: jax.Array, independent: jax.Array) -> jax.Array:
    """Solve ``triangle x = values``, with zeros for dependent columns.

    Args:
      triangle: ``(q, q)`` upper triangular.
      values: ``(q, ...)`` right-hand sides.
      independent: ``(q,)`` bool.

    Returns:
      ``(q, ...)`` solution.
    """
    num = triangle.shape[0]
    solution = jnp.zeros_like(values)
    for j in reversed(range(num)):
        pivot = jnp.where(independent[j], triangle[j, j], 1.0)
        left = values[j] - triangle[j] @ solution
        solution = solution.at[j].set(jnp.where(independent[j], left / pivot, 0.0))
    return solution


class LeastSquares(NamedTuple):
    """Coefficients ``(q,)``, residual sum of squares, ``(q,)`` bool of independent columns."""

    coefficients: jax.Array
    residual_sum: jax.Array
    independent: jax.Array


def least_squares(
    design: jax.Array, response: jax.Array, mask: jax.Array | None = None
) -> LeastSquares:
    """Ordinary least squares by an orthogonal factor, with rank detection per column.

    Args:
      design: ``(n, q)``.
      response: ``(n,)``.
      mask: ``(n,)`` bool, rows to use.

    Returns:
      A ``LeastSquares``; a dependent column has coefficient 0 and ``independent`` False.
    """
    columns = jnp.column_stack([design, response])
    if mask is not None:
        columns = jnp.where(mask[:, None], columns, 0.0)
    factor = compress(columns)
    num = design.shape[1]
    basis = orthogonalize(factor[:, :num])
    coordinates = basis.directions.T @ factor[:, num]
    coefficients = back_substitute(basis.triangle, coordinates, basis.independent)
    residual = factor[:, num] - factor[:, :num] @ coefficients
    return LeastSquares(coefficients, jnp.sum(residual**2), basis.independent)


class Swept(NamedTuple):
    """Solution ``(p,)``, inverse ``(p, p)``, ``(p,)`` bool of independent columns."""

    solution: jax.Array
    inverse: jax.Array
    independent: jax.Array


def sweep(gram: jax.Array, moment: jax.Array, tolerance: float | None = None) -> Swept:
    """Solve ``gram x = moment`` by the sweep operator, skipping dependent columns.

    For well-conditioned systems, such as sums of products in the basis of ``whiten``. Batches over
    leading axes. Unlike ``jnp.linalg.solve`` it is safe in any number and batch size under one
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
        tolerance = 0.1 * rank_tolerance(gram.dtype)
    table = jnp.concatenate([gram, moment[..., None]], axis=-1)
    diagonal = jnp.diagonal(gram, axis1=-2, axis2=-1)
    unit = jnp.eye(num, num + 1, dtype=gram.dtype)
    independent = []
    for k in range(num):
        pivot = table[..., k, k]
        usable = pivot > tolerance * diagonal[..., k]
        safe = jnp.where(usable, pivot, 1.0)[..., None]
        row = table[..., k, :] / safe
        column = table[..., :, k]
        swept = table - column[..., :, None] * row[..., None, :]
        is_row = unit[k, :num, None] > 0
        is_column = unit[k] > 0
        swept = jnp.where(is_row, row[..., None, :], swept)
        swept = jnp.where(is_column, (-column / safe)[..., :, None], swept)
        swept = jnp.where(is_row & is_column, 1.0 / safe[..., None], swept)
        cleared = jnp.where(is_row | is_column, 0.0, table)
        table = jnp.where(usable[..., None, None], swept, cleared)
        independent.append(usable)
    return Swept(table[..., num], table[..., :num], jnp.stack(independent, axis=-1))


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """A change of basis under which least squares is well conditioned.

    ``basis = (design - reference center') transform`` has orthonormal columns up to the factor
    ``sqrt(rows in use)``. ``reference`` is the constant column of the design divided by its value,
    where there is one, so that offsets can be removed without changing the column space.

    Attributes:
      center: ``(p,)`` offsets removed from the columns.
      transform: ``(p, p)`` upper triangular; zero columns for dependent physics columns.
      constant: ``(p,)`` one at the constant column divided by its value, else zero.
      response_center: offset removed from the response.
      independent: ``(p,)`` bool.
    """

    center: jax.Array
    transform: jax.Array
    constant: jax.Array
    response_center: jax.Array
    independent: jax.Array

    def to_basis(self, design: jax.Array) -> jax.Array:
        """Rows ``(n, p)`` of the design in the basis."""
        reference = design @ self.constant
        return (design - reference[:, None] * self.center) @ self.transform

    def center_response(self, design: jax.Array, response: jax.Array) -> jax.Array:
        """Response ``(n,)`` less its offset."""
        return response - (design @ self.constant) * self.response_center

    def coefficients(self, solution: jax.Array) -> jax.Array:
        """Physics coefficients ``(p,)`` from a solution ``(p,)`` in the basis."""
        scaled = self.transform @ solution
        return scaled + self.constant * (self.response_center - self.center @ scaled)

    def covariance(self, inverse: jax.Array) -> jax.Array:
        """Matrix ``(p, p)`` of the coefficients from one in the basis."""
        size = self.center.shape[0]
        shift = jnp.eye(size, dtype=self.center.dtype) - jnp.outer(self.constant, self.center)
        mapping = shift @ self.transform
        return mapping @ inverse @ mapping.T

    def solution(self, coefficients: jax.Array) -> jax.Array:
        """The inverse of ``coefficients``: a solution in the basis from physics coefficients."""
        shifted = jnp.where(self.constant != 0, 0.0, coefficients)
        level = jnp.sum(jnp.where(self.constant != 0, coefficients / _safe(self.constant), 0.0))
        offset = level - self.response_center + self.center @ shifted
        target = jnp.where(self.constant != 0, offset * self.constant, shifted)
        return back_substitute(self.transform, target, self.independent)


def _safe(values: jax.Array) -> jax.Array:
    return jnp.where(values != 0, values, 1.0)


def _constant_column(design: jax.Array, mask: jax.Array) -> jax.Array:
    low = jnp.min(jnp.where(mask[:, None], design, jnp.inf), axis=0)
    high = jnp.max(jnp.where(mask[:, None], design, -jnp.inf), axis=0)
    is_constant = (low == high) & (low != 0)
    first = jnp.argmax(is_constant)
    chosen = (jnp.arange(design.shape[1]) == first) & is_constant[first]
    return jnp.where(chosen, 1.0 / jnp.where(chosen, low, 1.0), 0.0)


def whiten(design: jax.Array, response: jax.Array, mask: jax.Array) -> Frame:
    """The frame of a design on the rows in use.

    The frame is held constant under differentiation: a least-squares solution does not depend on
    the basis in which it is computed, so its derivative through the rows alone is exact.

    Args:
      design: ``(n, p)``.
      response: ``(n,)``.
      mask: ``(n,)`` bool, rows in use.

    Returns:
      A ``Frame``; columns that depend on earlier ones are marked in ``independent``.
    """
    design = lax.stop_gradient(jnp.where(mask[:, None], design, 0.0))
    response = lax.stop_gradient(jnp.where(mask, response, 0.0))
    constant = _constant_column(design, mask)
    count = jnp.maximum(jnp.sum(mask), 1).astype(design.dtype)
    has_constant = jnp.any(constant != 0)
    means = jnp.sum(design, axis=0) / count
    center = jnp.where(has_constant & (constant == 0), means, 0.0)
    response_center = jnp.where(has_constant, jnp.sum(response) / count, 0.0)
    centered = jnp.where(mask[:, None], design - center, 0.0)
    factor = compress(centered)
    basis = orthogonalize(factor)
    identity = jnp.eye(design.shape[1], dtype=design.dtype)
    transform = back_substitute(basis.triangle, identity, basis.independent) * jnp.sqrt(count)
    transform = jnp.where(basis.independent, transform, 0.0)
    return Frame(
        center=center,
        transform=transform,
        constant=constant,
        response_center=response_center,
        independent=_still_there(basis.independent, centered, design),
    )


def _still_there(independent: jax.Array, centered: jax.Array, design: jax.Array) -> jax.Array:
    """Independent and more than the rounding error that centring leaves of an offset."""
    left = jnp.max(jnp.abs(centered), axis=0)
    largest = jnp.max(jnp.abs(design), axis=0)
    return independent & (left > rank_tolerance(design.dtype) / 50 * largest)
