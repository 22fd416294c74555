"""The sums that all results are made of, and the only ones with derivatives (section 3.10)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.cells import MOST_CELLS
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.form import Sums
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.physics import LawSums, sum_law
from lisdd_jax.default.rows import OpenRegions, fold_sums
from lisdd_jax.default.settling import Settled
from lisdd_jax.default.sums import sum_products
from lisdd_jax.numerics import cell_sums
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.precision import full_precision


class Final(NamedTuple):
    """Sums over the rows that were settled on; the only ones with derivatives.

    Attributes:
      law: over the rows of the law.
      regions, weighted: over the regions and outside, plain and weighted by the cells' noise.
      map_all, map_law: ``(R_map, m', m')`` per cell of the map, of ``[1, axis, physics,
        residual]``, over all kept rows and over those of the law.
      map_rows: ``(R_map, 4)`` rows of a cell: in use, kept, of the law, in the regions.
    """

    law: LawSums
    regions: Sums
    weighted: Sums
    map_all: jax.Array
    map_law: jax.Array
    map_rows: jax.Array


@compiled(static_argnames=("layout", "num_map"))
@full_precision
def sum_final(
    rows: Ordered,
    look: FirstLook,
    region: OpenRegions,
    settled: Settled,
    theta: jax.Array,
    weights: jax.Array,
    layout: ColumnLayout,
    num_map: int,
) -> Final:
    """All sums that the results are made of.

    Args:
      rows, look, region, settled: what was found; ``rows`` may carry derivatives.
      theta: ``(p,)`` the law, nearly.
      weights: ``(K,)`` of the cells' rows in the robust test.
      layout: columns.
      num_map: cells of the map.
    """
    kept = region.weight > 0
    cell = look.cells.of_row
    physics, response = rows.columns[layout.physics], rows.columns[-1]
    most = region.spans.present.shape[0]
    weight = jnp.append(weights, jnp.zeros(1, weights.dtype))[cell]
    law = sum_law(
        physics,
        response,
        theta,
        settled.law,
        cell,
        MOST_CELLS,
        1 / jnp.sqrt(jnp.where(weight > 0, weight, 1.0)),
        rows.order,
        look.dependence.correlation,
        rows.block,
        settled.tail,
        region.bound,
    )
    part = jnp.where(kept, 2 * settled.slot + rows.fold, 2 * most + 2)
    columns = jnp.concatenate([rows.columns[: layout.num_directions], response[None]])
    on_map = jnp.where(kept, rows.map_cell, num_map)
    groups = jnp.stack([cell < MOST_CELLS, kept, settled.law, settled.slot < most], axis=1).astype(
        response.dtype
    )
    return Final(
        law=law,
        regions=fold_sums(rows, part, most, None),
        weighted=fold_sums(rows, part, most, weight),
        map_all=sum_products(columns, on_map, num_map),
        map_law=sum_products(columns, jnp.where(settled.law, on_map, num_map), num_map),
        map_rows=cell_sums.cell_totals(groups, rows.map_cell, num_map),
    )
