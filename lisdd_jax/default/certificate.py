"""Whether: held-out rows confirm the terms (docs/method.md, section 3.9).

Each fold of the rows chooses terms for the regions, and the other tests them by the partial F of
the terms inside the regions, added to the physics on all of its rows. Both must confirm, so the
larger of the two p-values counts.
"""

from typing import Any

import numpy as np

from lisdd_jax.default.form import Sums
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import namespace
from lisdd_jax.statistics.f_tests import FRatio, f_ratio
from lisdd_jax.statistics.supports import term_places


def _added(gram: Any, place: Any, used: Any, shared: Any, layout: ColumnLayout) -> tuple[Any, Any]:
    """Sums of products of the physics, the regions' terms, and the response.

    Args:
      gram: ``(R + 1, m, m)``.
      place, used: ``(R, s)`` columns of the terms.
      shared: bool, one mechanism: the terms of all regions are one.

    Returns:
      ``(p + R s, p + R s)`` and ``(p + R s,)``.
    """
    xp = namespace(gram)
    num_regions, num_terms = place.shape
    law = gram[:, layout.physics]
    rows = xp.arange(num_regions)[:, None]
    regions = gram[:-1]
    cross = xp.where(used[..., None], regions[rows, place][..., layout.physics], 0.0)
    target = xp.where(used, regions[rows, place, -1], 0.0)
    both = used[:, :, None] & used[:, None, :]
    block = regions[rows[..., None], place[:, :, None], place[:, None, :]]
    block = xp.where(both, block, 0.0)
    first = xp.asarray(np.arange(num_regions) == 0)

    def pooled(values: Any) -> Any:
        slots = first.reshape((-1,) + (1,) * (values.ndim - 1))
        return xp.where(shared, xp.where(slots, values.sum(0)[None], 0.0), values)

    cross, target, block = pooled(cross), pooled(target), pooled(block)
    size = num_regions * num_terms
    apart = xp.asarray(np.eye(num_regions), gram.dtype)[:, None, :, None]
    terms = (block[:, :, None, :] * apart).reshape(size, size)
    cross = cross.reshape(size, -1)
    top = xp.concatenate([law[..., layout.physics].sum(0), cross.T], 1)
    matrix = xp.concatenate([top, xp.concatenate([cross, terms], 1)], 0)
    return matrix, xp.concatenate([law[..., -1].sum(0), target.reshape(size)])


def partial_f_of_regions(
    gram: Any, num_rows: Any, place: Any, used: Any, shared: Any, layout: ColumnLayout
) -> FRatio:
    """The partial F of the regions' terms, added to the physics.

    Args:
      gram: ``(R + 1, m, m)`` of the rows held out.
      num_rows: how many.
      place, used: ``(R, s)`` columns of the terms.
      shared: bool.
      layout: columns.
    """
    xp = namespace(gram)
    tolerance = tolerances.gram(gram.dtype)
    matrix, target = _added(gram, place, used, shared, layout)
    size = layout.num_physics
    law = small_systems.solve(matrix[:size, :size], target[:size], tolerance)
    more = small_systems.solve(matrix, target, tolerance)
    square = gram[:, -1, -1].sum()
    left = square - law.solution @ target[:size]
    rest = square - more.solution @ target
    floor = tolerances.CANCELLATION(gram.dtype) * square
    gain = xp.maximum(left - rest - floor, 0.0)
    df_den = num_rows - more.rank
    variance = xp.maximum(rest, floor) / xp.maximum(df_den, 1)
    safe = xp.where(variance > 0, variance, 1.0)
    return f_ratio(gain, more.rank - law.rank, df_den, variance=safe)


def held_out(
    sums: Sums,
    weighted: Sums,
    chosen: Any,
    present: Any,
    shared: Any,
    layout: ColumnLayout,
    max_terms: int,
) -> tuple[FRatio, FRatio]:
    """Tests of either fold's terms on the other, ordinary and with the cells' own noise, ``(2,)``.

    Args:
      sums: of the regions and outside.
      weighted: the same with rows weighted by their cells' noise.
      chosen: ``(2, R)`` support that either fold chose.
      present: ``(R,)`` bool.
      shared: bool.
      layout: columns.
      max_terms: largest support.
    """
    xp = namespace(sums.gram)
    places, in_use = term_places(layout.num_terms, max_terms)
    found = []
    for part in (sums, weighted):
        ratios = []
        for fold in range(2):
            place = xp.asarray(places)[chosen[fold]] + layout.num_directions
            used = xp.asarray(in_use)[chosen[fold]] & present[:, None]
            gram, rows = part.gram[:, 1 - fold], sums.num_rows[:, 1 - fold].sum()
            ratios.append(partial_f_of_regions(gram, rows, place, used, shared, layout))
        found.append(FRatio(*(xp.stack(parts) for parts in zip(*ratios, strict=True))))
    return found[0], found[1]
