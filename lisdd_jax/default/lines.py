"""Residual sums of straight lines from sums over rows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.numerics import small_systems, tolerances


class LineSums(NamedTuple):
    """Sums over the rows of each line, of any one shape: ``t`` the place, ``r`` what is fitted.

    Attributes:
      ones, along, square: of ``1``, ``t`` and ``t^2``.
      total, cross, whole: of ``r``, ``r t`` and ``r^2``.
    """

    ones: jax.Array
    along: jax.Array
    square: jax.Array
    total: jax.Array
    cross: jax.Array
    whole: jax.Array


def solve_left(gram: list[list[jax.Array]], cross: list[jax.Array], square: jax.Array) -> jax.Array:
    """Residual sums of least squares given the entries of its normal equations."""
    table = jnp.stack([jnp.stack(row, -1) for row in gram], -2)
    moment = jnp.stack(cross, -1)
    solved = small_systems.solve(table, moment, tolerances.gram(moment.dtype))
    return square - jnp.sum(solved.solution * moment, -1)


def line_left(sums: LineSums) -> jax.Array:
    """Residual sums of straight lines."""
    gram = [[sums.ones, sums.along], [sums.along, sums.square]]
    return solve_left(gram, [sums.total, sums.cross], sums.whole)
