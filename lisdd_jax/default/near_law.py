"""Rows near to a law, once one is known (docs/method.md, section 3.3)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.default.outliers import CUT, unless_many
from lisdd_jax.default.robust_cells import WINSOR, WINSOR_SQUARE
from lisdd_jax.numerics import cell_sums, medians

_OBEYS = 1.2
"""Scale of a cell's near rows about the law, over the noise there, up to which they obey it."""

_WINSOR_STEPS = 8
"""Steps of scales about the law, from one up to three times as large."""


def _scale_about(residual: jax.Array, scale: jax.Array, cell: jax.Array) -> jax.Array:
    """Noise scales ``(K,)`` of cells about a law, at most ``scale (K,)``.

    A robust fit of a cell with many columns may follow gross errors, which then hide in its scale;
    about the law of all cells they do not. Of many rows a sample at even steps tells it.
    """
    num_cells, step = len(scale), medians.sample_step(len(residual))
    residual, cell = residual[::step], cell[::step]
    ones = (cell < num_cells).astype(residual.dtype)
    count = cell_sums.cell_totals(ones[:, None], cell, num_cells)[:, 0]
    num = jnp.sum(count > 0, dtype=jnp.int32)

    def winsorise(_: int, found: jax.Array) -> jax.Array:
        bound = WINSOR * medians.per_row(found, cell)
        square = ones * jnp.minimum(jnp.abs(residual), bound) ** 2
        totals = cell_sums.cell_totals(square[:, None], cell, num_cells)[:, 0]
        mean = totals / (WINSOR_SQUARE * jnp.maximum(count, 1))
        return jnp.minimum(medians.middle_of_three(jnp.sqrt(mean), num), scale)

    # Not the root mean square of the near rows: errors at its bound would widen it pass by pass.
    return lax.fori_loop(0, _WINSOR_STEPS, winsorise, scale)


class NearLaw(NamedTuple):
    """Rows to keep ``(n,)`` bool, and noise scales ``(K,)`` of cells about the law."""

    keep: jax.Array
    scale: jax.Array


def keep_near(
    residual: jax.Array,
    local: jax.Array,
    scale: jax.Array,
    least: jax.Array,
    cell: jax.Array,
    num_cells: int,
    clean: jax.Array,
) -> NearLaw:
    """Rows to keep once a law is known: those near to it, in cells that obey it.

    Other cells keep the rows near to their own fit: judged about the law, they would lose those
    rows that show best what is wrong there. So do cells many of whose rows lie elsewhere. But where
    all rows of a cell are near the law except for some that stand among them, it is those that kept
    the cell from obeying it; a run of them is the end of a region.

    Args:
      residual: ``(n,)`` of the law.
      local: ``(n,)`` bool, rows near to robust fits of their cells.
      scale: ``(num_cells,)`` noise scales, or more where gross errors are among the rows.
      least: the smallest of them.
      cell: ``(n,)`` int.
      num_cells: static.
      clean: ``(num_cells,)`` bool, cells that obey the law.
    """
    used = cell < num_cells
    scale = jnp.maximum(_scale_about(residual, scale, cell), least)
    near = used & (jnp.abs(residual) <= CUT * medians.per_row(scale, cell))
    far = used & ~near
    together = jnp.append(far[:-1] & far[1:] & (cell[:-1] == cell[1:]), False)
    square = jnp.where(near, residual**2, 0.0)
    parts = jnp.stack([part.astype(residual.dtype) for part in (used, far, together, square)], 1)
    count, num_far, num_pairs, squares = cell_sums.cell_totals(parts, cell, num_cells).T
    own = jnp.sqrt(squares / jnp.maximum(count - num_far, 1))
    scattered = (num_far <= 2) | (num_pairs < num_far - 1)
    obeys = clean | (scattered & (own <= _OBEYS * scale))
    near = jnp.where(jnp.append(obeys, False)[cell], near, local)
    return NearLaw(unless_many(near, local, cell, count), scale)
