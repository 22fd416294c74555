"""Noise scales of single rows: the noise of their cells, and what is within (section 3.3)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.default.ordering import Ordered
from lisdd_jax.numerics import cell_sums, medians
from lisdd_jax.numerics.compilation import compiled


class CellNoise(NamedTuple):
    """Noise scales of rows as the noise of cells and what is within them.

    Attributes:
      relative: ``(n,)`` of a row over the root mean square of its cell; 1 out of use.
      expected: ``(K,)`` mean squares of the cells over that of all rows; 1 for empty ones.
    """

    relative: jax.Array
    expected: jax.Array


def within_cells(log_scale: jax.Array, cell: jax.Array, num_cells: int) -> CellNoise:
    """Divide noise scales between cells and their rows.

    Args:
      log_scale: ``(n,)``.
      cell: ``(n,)`` int; ``num_cells`` in rows out of use.
      num_cells: static.
    """

    def divide() -> CellNoise:
        square = jnp.exp(2 * log_scale)
        both = jnp.stack([jnp.ones_like(square), square], 1)
        count, total = cell_sums.cell_totals(both, cell, num_cells).T
        mean = jnp.where(count > 0, total / jnp.maximum(count, 1), 1.0)
        overall = jnp.sum(total) / jnp.maximum(jnp.sum(count), 1)
        used = cell < num_cells
        relative = jnp.where(used, jnp.sqrt(square / medians.per_row(mean, cell)), 1.0)
        return CellNoise(relative, jnp.where(count > 0, mean / overall, 1.0))

    # Divided by its own mean a constant would be one to rounding errors only.
    equal = CellNoise(jnp.ones_like(log_scale), jnp.ones(num_cells, log_scale.dtype))
    return lax.cond(jnp.any(log_scale != 0), divide, lambda: equal)


@compiled
def weigh(rows: Ordered, relative: jax.Array) -> Ordered:
    """The rows over noise scales ``relative (n,)`` of their own."""
    return rows._replace(columns=rows.columns / lax.stop_gradient(relative)[None])
