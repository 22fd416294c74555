"""The sums that all results are made of, and the only ones with derivatives (section 3.10)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.cells import MOST_CELLS
from lisdd_jax.default.cross_fits import NUM_FOLDS
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

DEGREE = 3
"""Largest power of the axis along which a law may bend all along: with the fifth such a curve
follows a regime of another law too, as that of dense traffic."""


class Final(NamedTuple):
    """Sums over the rows that were settled on; the only ones with derivatives.

    Attributes:
      law: over the rows of the law.
      regions, weighted: over the regions and outside, plain and weighted by the cells' noise.
      curved: ``(2, 4, m', m')`` over the rows in regions and outside but for gradual onsets, by
        fold, with more columns before the response: powers of the axis from the second on, its
        products with the physics, and the square of what the law predicts.
      map_all, map_law: ``(R_map, m', m')`` per cell of the map, of ``[1, axis, physics,
        residual]``, over all kept rows and over those of the law.
      map_rows: ``(R_map, 4)`` rows of a cell: in use, kept, of the law, in the regions.
    """

    law: LawSums
    regions: Sums
    weighted: Sums
    curved: jax.Array
    map_all: jax.Array
    map_law: jax.Array
    map_rows: jax.Array


def _with_curves(columns: jax.Array, law: jax.Array, layout: ColumnLayout) -> jax.Array:
    """Columns ``(m, n)`` with those that ``law (p,)`` would bend along before the response."""
    one, axis = columns[:2]
    # Weights of the rows are in every column: a product has them once.
    weight = jnp.where(one > 0, one, 1.0)
    place, physics = axis / weight, columns[layout.physics]
    predicted = law @ physics
    powers = [axis * place**power for power in range(1, DEGREE)]
    bent = [*powers, *(place[None] * physics), predicted**2 / weight]
    return jnp.concatenate([columns[:-1], jnp.stack(bent), columns[-1:]])


def _in_onsets(axis: jax.Array, settled: Settled) -> jax.Array:
    """Rows ``(n,)`` outside of regions over which a deviation begins gradually."""
    lower, upper = settled.lower[:, None], settled.upper[:, None]
    before, after = settled.softness[:, :, None]
    place = axis[None]
    begins = (place >= lower - before) & (place < lower)
    return jnp.any(begins | ((place >= upper) & (place < upper + after)), axis=0)


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
    kept, cell = settled.kept, look.cells.of_row
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
    part = jnp.where(kept, NUM_FOLDS * settled.slot + rows.fold, NUM_FOLDS * (most + 1))
    on_map = jnp.where(kept, rows.map_cell, num_map)
    groups = jnp.stack([cell < MOST_CELLS, kept, settled.law, settled.slot < most], axis=1).astype(
        response.dtype
    )
    outside = (settled.slot == most).astype(jnp.int32)
    asked = kept & ~_in_onsets(rows.axis, settled)
    side = jnp.where(asked, NUM_FOLDS * outside + rows.fold, 2 * NUM_FOLDS)

    def bend(columns: jax.Array) -> jax.Array:
        return _with_curves(columns, rows.initial / rows.unit + theta, layout)

    def sum_map(cell: jax.Array) -> jax.Array:
        return sum_products(rows.columns, cell, num_map, expand=layout.drop_terms)

    curved = sum_products(rows.columns, side, 2 * NUM_FOLDS, expand=bend)
    return Final(
        law=law,
        regions=fold_sums(rows, part, most, None),
        weighted=fold_sums(rows, part, most, weight),
        curved=curved.reshape(2, NUM_FOLDS, *curved.shape[1:]),
        map_all=sum_map(on_map),
        map_law=sum_map(jnp.where(settled.law, on_map, num_map)),
        map_rows=cell_sums.cell_totals(groups, rows.map_cell, num_map),
    )
