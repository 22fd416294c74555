"""What single cells show before any law, and the cells of the place (sections 3.1, 3.3 and 3.6)."""

from operator import itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.default import correlations, dependence, noise_shape, pieces
from lisdd_jax.default.blocks import gather_blocks
from lisdd_jax.default.cells import MOST_CELLS, SortedCells, coarse_cells, fine_cells
from lisdd_jax.default.dependence import RowDependence, Sharing
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.row_noise import CellNoise, within_cells
from lisdd_jax.numerics import cell_sums
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.precision import full_precision


class FirstLook(NamedTuple):
    """What single cells show before any law.

    Attributes:
      keep: ``(n,)`` bool, rows near to a robust fit of their own cell.
      scale: noise scale, the middle one of the coarse cells.
      dependence: of the rows.
      cells: the cells of the place.
      full: bool, they are fitted fully.
      trusted: ``(K,)`` bool, cells whose law is vouched for.
      places: ``(K + 1,)`` axis at the bounds of the cells.
      noise: of the rows, as far as it goes with a column.
      exponents: ``(p + 2, 2)`` with which it does.
      row_noise: ``(n,)`` ``noise.relative`` in the order of the record.
    """

    keep: jax.Array
    scale: jax.Array
    dependence: RowDependence
    cells: SortedCells
    full: jax.Array
    trusted: jax.Array
    places: jax.Array
    noise: CellNoise
    exponents: jax.Array
    row_noise: jax.Array


def _quarters(cells: SortedCells) -> SortedCells:
    """Cells joined to four."""
    of_row = 4 * cells.of_row // jnp.maximum(cells.num, 1)
    of_row = jnp.where(cells.of_row < MOST_CELLS, of_row, MOST_CELLS)
    first = -(-np.arange(MOST_CELLS + 1, dtype=np.int32) * cells.num // 4)
    bounds = cells.bounds[jnp.minimum(first, MOST_CELLS)]
    return SortedCells(of_row, bounds, jnp.minimum(cells.num, 4))


@compiled(static_argnames=("layout",))
@full_precision
def look(rows: Ordered, layout: ColumnLayout) -> FirstLook:
    """Fit single cells robustly, measure dependence, and lay the cells of the place.

    Args:
      rows: the rows, with candidate terms or without: they are not asked.
      layout: columns.
    """
    coarse = coarse_cells(rows.axis, rows.num_rows, layout.num_physics)
    local, shape = noise_shape.fit_weighed(rows, coarse, layout)
    blocks = None if rows.block is None else gather_blocks(rows.block)
    taking = dependence.columns_that_take(rows.columns[: layout.num_directions], coarse)
    found = correlations.correlate(local, coarse, rows.order, taking, blocks)
    broken = pieces.breaks_explain(rows.axis, rows.columns[-1], rows.order, rows.num_rows)
    found = found.unless(broken)
    count = rows.num_rows.astype(rows.axis.dtype)

    def shared(cells: SortedCells) -> Sharing:
        return dependence.share(found, cells, rows.order, blocks)

    def size_of(cells: SortedCells) -> jax.Array:
        return jnp.maximum(count / jnp.maximum(cells.num, 1).astype(count.dtype), 1)

    repeated = dependence.share_of_copies(rows.equal, coarse, count.dtype)
    longer = dependence.stretch(shared(coarse), size_of(coarse), repeated)
    cells, full = fine_cells(rows.axis, rows.num_rows, layout.num_physics, longer)
    both = jax.tree.map(lambda *parts: jnp.stack(parts), cells, _quarters(cells))
    each = jax.vmap(shared)(both)
    sharing, wide = (jax.tree.map(itemgetter(place), each) for place in (0, 1))
    size = size_of(cells)
    blocked, taking = rows.block is not None, jnp.where(full, taking, 2.0)
    depend = dependence.summarize_dependence(
        found, sharing, wide, size, repeated, blocked, coarse, taking
    )
    trusted = jnp.zeros(MOST_CELLS, bool)
    if rows.trusted is not None:
        ones = jnp.ones_like(rows.axis)
        vouched = jnp.where(rows.trusted, 1.0, 0.0).astype(ones.dtype)
        both = cell_sums.cell_totals(jnp.stack([ones, vouched], 1), cells.of_row, MOST_CELLS)
        trusted = 2 * both[:, 1] > both[:, 0]
    last = jnp.maximum(rows.num_rows - 1, 0)
    places = rows.axis[jnp.clip(cells.bounds, 0, last)]
    noise = within_cells(shape.log_scale, cells.of_row, MOST_CELLS)
    row_noise = noise.relative.at[rows.order].set(noise.relative)
    seen = (depend, cells, full, trusted, places, noise, shape.exponents, row_noise)
    return FirstLook(local.keep, local.pooled, *seen)
