"""Whether: held-out rows confirm the terms (docs/method.md, section 3.9).

Each half of the rows chooses terms for the regions, and the other tests them by the partial F of
the terms inside the regions, added to the physics on all of its rows. Both must confirm, so the
larger of the two p-values counts; of the three splits into halves twice the median does.
"""

from typing import Any

import numpy as np

from lisdd_jax.default.cross_fits import halves
from lisdd_jax.default.form import Sums
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import namespace
from lisdd_jax.statistics.f_tests import FRatio, f_ratio
from lisdd_jax.statistics.supports import term_places


def _added(gram: Any, place: Any, used: Any, shared: Any, layout: ColumnLayout) -> tuple[Any, Any]:
    """Sums of products of the physics, the regions' terms, and the response.

    Args:
      gram: ``(..., R + 1, m, m)``.
      place, used: ``(..., R, s)`` columns of the terms.
      shared: bool, one mechanism: the terms of all regions are one.

    Returns:
      ``(..., p + R s, p + R s)`` and ``(..., p + R s)``.
    """
    xp = namespace(gram)
    num_regions, num_terms = place.shape[-2:]
    before = (1,) * (gram.ndim - 3)
    law = gram[..., layout.physics, :].sum(-3)
    own = xp.take_along_axis(gram[..., :-1, :, :], place[..., None], axis=-2)
    own = xp.where(used[..., None], own, 0.0)
    block = xp.take_along_axis(own, place[..., None, :], axis=-1)
    block = xp.where(used[..., None, :], block, 0.0)
    first = np.arange(num_regions) == 0

    def pooled(values: Any) -> Any:
        slots = first.reshape((*before, -1, 1, 1))
        every = values.sum(-3, keepdims=True)
        return xp.where(shared, xp.where(slots, every, 0.0), values)

    own, block = pooled(own), pooled(block)
    size = num_regions * num_terms
    apart = np.eye(num_regions, dtype=gram.dtype).reshape((*before, num_regions, 1, num_regions, 1))
    terms = (block[..., None, :] * xp.asarray(apart)).reshape((*gram.shape[:-3], size, size))
    own = own.reshape((*gram.shape[:-3], size, -1))
    cross = own[..., layout.physics]
    top = xp.concatenate([law[..., layout.physics], xp.swapaxes(cross, -1, -2)], -1)
    matrix = xp.concatenate([top, xp.concatenate([cross, terms], -1)], -2)
    return matrix, xp.concatenate([law[..., -1], own[..., -1]], -1)


def partial_f_of_regions(
    gram: Any, num_rows: Any, place: Any, used: Any, shared: Any, layout: ColumnLayout
) -> FRatio:
    """The partial F of the regions' terms, added to the physics.

    Args:
      gram: ``(..., R + 1, m, m)`` of the rows held out.
      num_rows: ``(...)`` how many.
      place, used: ``(..., R, s)`` columns of the terms.
      shared: bool.
      layout: columns.
    """
    xp = namespace(gram)
    tolerance = tolerances.gram(gram.dtype)
    matrix, target = _added(gram, place, used, shared, layout)
    size = layout.num_physics
    law = small_systems.solve(matrix[..., :size, :size], target[..., :size], tolerance)
    more = small_systems.solve(matrix, target, tolerance)
    square = gram[..., -1, -1].sum(-1)
    left = square - xp.sum(law.solution * target[..., :size], -1)
    rest = square - xp.sum(more.solution * target, -1)
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
    """Tests ``(3, 2)`` of either half's terms on the other, plain and with the cells' own noise.

    Args:
      sums: of the regions and outside.
      weighted: the same with rows weighted by their cells' noise.
      chosen: ``(3, 2, R)`` support that either half of every split chose.
      present: ``(R,)`` bool.
      shared: bool.
      layout: columns.
      max_terms: largest support.
    """
    xp = namespace(sums.gram)
    places, in_use = term_places(layout.num_terms, max_terms)
    place = xp.asarray(places)[chosen] + layout.num_directions
    used = xp.asarray(in_use)[chosen] & present[None, None, :, None]
    # Of both kinds of sums, the half that did not choose.
    split = halves(xp.stack([sums.gram, weighted.gram]), -3)[:, :, :, ::-1]
    gram = xp.moveaxis(split, 1, 3)
    rows = halves(sums.num_rows.sum(0), -1)[:, ::-1]
    rows, place, used = (xp.stack([part, part]) for part in (rows, place, used))
    found = partial_f_of_regions(gram, rows, place, used, shared, layout)
    plain, robust = zip(*found, strict=True)
    return FRatio(*plain), FRatio(*robust)
