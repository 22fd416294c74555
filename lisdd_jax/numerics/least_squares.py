"""Least squares that stays accurate: orthogonal factors, and rank by column.

``compress`` turns rows into a triangular factor, and ``orthogonalize`` works on that factor by
modified Gram-Schmidt with a pivot test per column. Errors grow with the condition number, not with
its square. The other device that carries the fits of the library is ``normal_equations``.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import tolerances
from lisdd_jax.numerics.columns import along_rows
from lisdd_jax.numerics.float_order import greatest
from lisdd_jax.numerics.hosted import unroll

_LARGEST_UNROLLED_ROWS = 8


def _units(largest: jax.Array) -> jax.Array:
    """The largest magnitudes of columns, 1 for columns of zeros."""
    return jnp.where(largest > 0, largest, 1.0)


class Compressed(NamedTuple):
    """Triangular factor ``(..., k, k)`` of columns over their units, and the units ``(..., k)``.

    Attributes:
      factor: upper triangular; a zero column where nothing is left.
      largest: largest magnitude of each column, the unit where it is above 0; NaN where one is NaN.
    """

    factor: jax.Array
    largest: jax.Array

    @property
    def units(self) -> jax.Array:
        """What the columns are divided by, ``(..., k)``."""
        return _units(self.largest)

    @classmethod
    def of_triangle(cls, triangle: jax.Array, largest: jax.Array) -> "Compressed":
        """From the factor of the columns themselves."""
        return cls(triangle / _units(largest)[..., None, :], largest)

    @property
    def triangle(self) -> jax.Array:
        """The factor of the columns themselves."""
        return self.factor * self.units[..., None, :]


def compress(columns: jax.Array) -> jax.Array:
    """Triangular factor ``R`` with ``R' R = columns' columns``, by modified Gram-Schmidt on rows.

    Its triangular factor is as accurate as that of a Householder factorisation (Bjorck, 1967).
    Written in elementary operations: the factorisations of LAPACK can block each other for ever
    when a program holds two of them, or two threads run one each, on few cores. Columns are scaled
    to unit maximum inside, so units do not matter.

    Args:
      columns: ``(..., n, k)``, rows out of use set to zero.

    Returns:
      ``(..., k, k)`` upper-triangular factor; a zero column where nothing is left.
    """
    return compress_scaled(columns).triangle


def compress_scaled(columns: jax.Array) -> Compressed:
    """``compress`` with the units of the columns apart from the factor."""
    rest = along_rows(columns)
    num = rest.shape[-2]
    largest = greatest(jnp.abs(lax.stop_gradient(rest)))
    rest = rest / _units(largest)[..., None]
    if num <= _LARGEST_UNROLLED_ROWS:
        rows = []
        for j in range(num):
            shares, row = _along(rest, rest[..., 0, :], 0)
            rows.append(jnp.pad(row, [(0, 0)] * (row.ndim - 1) + [(j, 0)]))
            rest = rest[..., 1:, :] - shares[..., 1:, None] * rest[..., :1, :]
        return Compressed(jnp.stack(rows, axis=-2), largest)

    def step(rest: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        column = lax.dynamic_index_in_dim(rest, j, -2, keepdims=False)
        shares, row = _along(rest, column, j)
        return rest - shares[..., None] * column[..., None, :], row

    _, steps = lax.scan(step, rest, jnp.arange(num))
    return Compressed(jnp.triu(jnp.moveaxis(steps, 0, -2)), largest)


def _along(
    columns: jax.Array, column: jax.Array, j: jax.Array | int
) -> tuple[jax.Array, jax.Array]:
    """Parts of columns ``(..., k, n)`` along the one at ``j``: as its multiples, as coordinates."""
    products = jnp.einsum("...kn,...n->...k", columns, column, precision="highest")
    square = products[..., j, None]
    usable = square > jnp.finfo(columns.dtype).tiny
    square = jnp.where(usable, square, 1.0)
    shares = jnp.where(usable, products / square, 0.0)
    return shares, shares * jnp.sqrt(square)


class Orthogonal(NamedTuple):
    """Columns in terms of orthonormal directions, in the order given.

    Attributes:
      triangle: ``(q, q)`` upper triangular: coordinates of the columns in the directions.
      independent: ``(q,)`` bool, False for a column in the span of those before it.
      coordinates: ``(q, m)`` coordinates of the targets in the directions.
      residual_sums: ``(m,)`` sums of squares that the directions leave of the targets.
    """

    triangle: jax.Array
    independent: jax.Array
    coordinates: jax.Array
    residual_sums: jax.Array


def orthogonalize(
    columns: jax.Array, targets: jax.Array, tolerance: float | None = None
) -> Orthogonal:
    """Modified Gram-Schmidt with a pivot test per column, and targets carried along.

    Carrying the targets through the same steps keeps their coordinates as accurate as those of a
    Householder factorisation; products with the directions afterwards would not be.

    Args:
      columns: ``(k, q)``; pass columns of the output of ``compress`` so that k is small.
      targets: ``(k, m)``.
      tolerance: a column is dependent when what is left of it is below this share of its norm.

    Returns:
      An ``Orthogonal``.
    """
    if tolerance is None:
        tolerance = tolerances.RANK(columns.dtype)
    num = columns.shape[1]
    squares = jnp.sum(columns**2, axis=0)
    everything = jnp.concatenate([columns, targets], axis=1)

    def step(rest: jax.Array, j: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        left = jnp.sum(rest[:, j] ** 2)
        usable = left > tolerance**2 * squares[j]
        norm = jnp.sqrt(jnp.where(usable, left, 1.0))
        direction = jnp.where(usable, rest[:, j] / norm, 0.0)
        row = jnp.where(jnp.arange(everything.shape[1]) < j, 0.0, direction @ rest)
        return rest - direction[:, None] * row[None], (row, usable)

    rest, (rows, independent) = lax.scan(step, everything, jnp.arange(num), unroll=unroll(num))
    return Orthogonal(
        rows[:, :num], independent, rows[:, num:], jnp.sum(rest[:, num:] ** 2, axis=0)
    )


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

    def step(solution: jax.Array, j: jax.Array) -> tuple[jax.Array, None]:
        pivot = jnp.where(independent[j], triangle[j, j], 1.0)
        left = (values[j] - triangle[j] @ solution) / pivot
        return solution.at[j].set(jnp.where(independent[j], left, 0.0)), None

    order = jnp.arange(num)[::-1]
    return lax.scan(step, jnp.zeros_like(values), order, unroll=unroll(num))[0]


class LeastSquares(NamedTuple):
    """A least-squares fit of ``q`` columns.

    Attributes:
      coefficients: ``(q,)``, 0 for dependent columns.
      residual_sum: sum of squared residuals.
      independent: ``(q,)`` bool.
      inverse_factor: ``(q, q)`` ``C`` with ``C C'`` the inverse of the columns' sums of products.
    """

    coefficients: jax.Array
    residual_sum: jax.Array
    independent: jax.Array
    inverse_factor: jax.Array


def solve_factor(terms: jax.Array, target: jax.Array) -> LeastSquares:
    """Least squares of a target on terms, both columns of one ``compress`` output.

    Args:
      terms: ``(k, q)``.
      target: ``(k,)``.

    Returns:
      A ``LeastSquares``.
    """
    basis = orthogonalize(terms, target[:, None])
    identity = jnp.eye(terms.shape[1], dtype=terms.dtype)
    sides = jnp.concatenate([basis.coordinates, identity], axis=1)
    solved = back_substitute(basis.triangle, sides, basis.independent)
    return LeastSquares(solved[:, 0], basis.residual_sums[0], basis.independent, solved[:, 1:])


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
    factor = compress(lax.stop_gradient(columns))
    fit = solve_factor(factor[:, :-1], factor[:, -1])
    terms = columns[:, :-1]
    left = columns[:, -1] - terms @ lax.stop_gradient(fit.coefficients)
    product = partial(jnp.matmul, terms.T, precision="highest")
    return with_derivatives(fit, product(terms), product(left), jnp.sum(left**2))


@jax.custom_jvp
def attach(value: jax.Array, live: jax.Array) -> jax.Array:
    """``value`` with the derivatives of ``live``, another formula for the same number.

    Where no derivative is taken ``live`` is dead code, and costs nothing to run or to compile.
    """
    del live
    return value


@attach.defjvp
def _attach_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    return attach(*primals), tangents[1]


def with_derivatives(
    fit: LeastSquares, gram: jax.Array, moment: jax.Array, residual_sum: jax.Array
) -> LeastSquares:
    """A fit whose numbers carry their derivatives in the rows.

    One step of iterative refinement about the solution has exactly the derivative of least squares,
    and the residual sum at fixed coefficients that of its minimum. With ``M`` the inverse of the
    sums of products ``G``, ``dM = -M dG M``, which ``dC = -M dG C / 2`` gives for ``C C' = M``.
    Unlike the derivative of a triangular factor, all exist where columns are dependent or zero.

    Only the derivatives of the sums count, at the fit's coefficients held fixed.

    Args:
      fit: of ``q`` columns.
      gram: ``(q, q)`` sums of products of the columns.
      moment: ``(q,)`` sums of their products with the residuals.
      residual_sum: sum of squares of the residuals.
    """
    fixed = jax.tree.map(lax.stop_gradient, fit)
    factor = fixed.inverse_factor
    inverse = factor @ factor.T
    change = (gram - lax.stop_gradient(gram)) @ factor
    return fixed._replace(
        coefficients=attach(fixed.coefficients, fixed.coefficients + inverse @ moment),
        residual_sum=attach(fixed.residual_sum, residual_sum),
        inverse_factor=attach(factor, factor - 0.5 * inverse @ change),
    )
