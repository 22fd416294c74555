"""Small linear systems from sums of products, on the host or traced (see ``hosted``)."""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.numerics.hosted import namespace, repeat, scan, take


class Solved(NamedTuple):
    """Solutions ``(..., p)``, 0 for dependent columns, and which columns are independent, bool."""

    solution: Any
    independent: Any

    @property
    def rank(self) -> Any:
        """Number of independent columns ``(...)``, of the type of the solution."""
        return self.independent.sum(-1).astype(self.solution.dtype)


def solve(gram: Any, moment: Any, tolerance: float) -> Solved:
    """Solve ``gram x = moment`` by Gauss-Jordan steps on the diagonal, skipping dependent columns.

    Args:
      gram: ``(..., p, p)`` symmetric positive semi-definite.
      moment: ``(..., p)``.
      tolerance: a column is dependent when its pivot is below this share of its diagonal.

    References:
      Goodnight (1979), A tutorial on the SWEEP operator, The American Statistician 33.
    """
    solutions, known = _solve_for(gram, moment[..., None], tolerance)
    return Solved(solutions[..., 0], known)


class Inverted(NamedTuple):
    """As ``Solved``, with inverse matrices ``(..., p, p)``.

    Dependent columns have zero rows and columns in the inverse.
    """

    solution: Any
    inverse: Any
    independent: Any


def solve_with_inverse(gram: Any, moment: Any, tolerance: float) -> Inverted:
    """``solve`` that gives the inverse too, at about three times the cost."""
    xp = namespace(gram)
    unit = xp.broadcast_to(xp.eye(gram.shape[-1], dtype=gram.dtype), gram.shape)
    sides = xp.concatenate([moment[..., None], unit], axis=-1)
    solutions, known = _solve_for(gram, sides, tolerance)
    return Inverted(solutions[..., 0], solutions[..., 1:], known)


def _solve_for(gram: Any, sides: Any, tolerance: float) -> tuple[Any, Any]:
    """Solutions ``(..., p, s)`` for right-hand sides, and independent columns ``(..., p)``."""
    xp = namespace(gram)
    size = gram.shape[-1]
    position = np.arange(size, dtype=np.int32).reshape((1,) * (gram.ndim - 2) + (-1, 1))

    def step(k: Any, table: Any) -> Any:
        row, column = take(table, k, -2), take(table, k, -1)
        pivot = take(column, k, -1)
        usable = pivot > tolerance * take(take(gram, k, -1), k, -1)
        pivot = xp.where(usable, pivot, 1.0)
        row = xp.where(usable[..., None], row / pivot[..., None], 0.0)[..., None, :]
        # The row of the pivot is set: subtracted, it would lose digits by the size of the pivot.
        return xp.where(position == k, row, table - column[..., None] * row)

    table = repeat(size, step, xp.concatenate([gram, sides], axis=-1))
    # A row is zero where its column was dependent, and has a one on the diagonal elsewhere.
    return table[..., size:], xp.diagonal(table, axis1=-2, axis2=-1) > 0


class Eliminated(NamedTuple):
    """Columns in terms of an orthonormal basis of the first ``d`` ones.

    Attributes:
      coordinates: ``(..., d, m)`` of all columns; zero for a dependent direction.
      independent: ``(..., d)`` bool.
      rest: ``(..., m, m)`` sums of products of what the basis leaves of the columns.
    """

    coordinates: Any
    independent: Any
    rest: Any


def eliminate(gram: Any, depth: int, allowed: Any, tolerance: float) -> Eliminated:
    """Gram-Schmidt on the first columns, by their sums of products with all.

    Args:
      gram: ``(..., m, m)``.
      depth: number of columns ``d`` that the basis spans.
      allowed: ``(d,)`` bool, columns that may enter it.
      tolerance: a column is dependent when what is left of it is below this share of its square.
    """
    xp = namespace(gram)

    def step(rest: Any, j: Any) -> tuple[Any, Any]:
        row = take(rest, j, -2)
        left = take(row, j, -1)
        usable = (left > tolerance * take(take(gram, j, -1), j, -1)) & take(allowed, j, 0)
        norm = xp.sqrt(xp.where(usable, left, 1.0))
        row = xp.where(usable[..., None], row / norm[..., None], 0.0)
        return rest - row[..., :, None] * row[..., None, :], row

    rest, rows = scan(step, gram, depth)
    rows = xp.moveaxis(rows, 0, -2)
    return Eliminated(rows, xp.diagonal(rows, axis1=-2, axis2=-1) > 0, rest)
