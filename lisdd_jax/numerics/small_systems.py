"""Small linear systems from sums of products, on the host or traced (see ``hosted``)."""

from typing import Any, NamedTuple

from lisdd_jax.numerics.hosted import namespace


class Solved(NamedTuple):
    """Solutions ``(..., p)``, inverse matrices ``(..., p, p)``, independent columns ``(..., p)``.

    Dependent columns have solution 0 and zero rows and columns in the inverse.
    """

    solution: Any
    inverse: Any
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
    xp = namespace(gram)
    size = gram.shape[-1]
    unit = xp.eye(size, dtype=gram.dtype)
    sides = [gram, moment[..., None], xp.broadcast_to(unit, gram.shape)]
    table = xp.concatenate(sides, axis=-1)
    independent = []
    for k in range(size):
        usable = table[..., k, k] > tolerance * gram[..., k, k]
        pivot = xp.where(usable, table[..., k, k], 1.0)
        row = xp.where(usable[..., None], table[..., k, :] / pivot[..., None], 0.0)
        # The row of the pivot is set: subtracted, it would lose digits by the size of the pivot.
        here = (_row(unit, k, gram.ndim - 1) > 0) & usable[..., None]
        others = table - table[..., :, k, None] * row[..., None, :]
        table = xp.where(here[..., None], row[..., None, :], others)
        independent.append(usable)
    known = xp.stack(independent, axis=-1)
    both = known[..., :, None] & known[..., None, :]
    return Solved(
        xp.where(known, table[..., size], 0.0), xp.where(both, table[..., size + 1 :], 0.0), known
    )


def _row(unit: Any, k: int, ndim: int) -> Any:
    return unit[k].reshape((1,) * (ndim - 1) + (-1,))


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
    rest, rows, independent = gram, [], []
    for j in range(depth):
        usable = (rest[..., j, j] > tolerance * gram[..., j, j]) & allowed[j]
        norm = xp.sqrt(xp.where(usable, rest[..., j, j], 1.0))
        row = xp.where(usable[..., None], rest[..., j, :] / norm[..., None], 0.0)
        rest = rest - row[..., :, None] * row[..., None, :]
        rows.append(row)
        independent.append(usable)
    return Eliminated(xp.stack(rows, axis=-2), xp.stack(independent, axis=-1), rest)
