"""Rows in the order of the axis, and the passes over them (docs/method.md, section 3.1).

All that looks at single rows is here or called from here, each pass compiled on its own: what they
hand on are sums and places of a size that does not depend on the number of rows.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.dataset import Dataset
from lisdd_jax.default import dependence, ends, outliers
from lisdd_jax.default.cells import MOST_CELLS, Cells, coarse_cells, fine_cells
from lisdd_jax.default.dependence import Dependence, Sharing
from lisdd_jax.default.ends import Kinks, Placed, Spans
from lisdd_jax.default.form import Sums
from lisdd_jax.default.layout import Layout
from lisdd_jax.default.physics import LawSums, sum_law
from lisdd_jax.default.sums import sum_products
from lisdd_jax.numerics import cell_sums, scaling
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.statistics.splits import random_folds, unit_ranks

_CLIP = 20.0
"""Deviations from the median at which the response of the first fit is clipped: gross errors, which
could otherwise be as large as they like, leave the start of the robust fits bounded."""


class Ordered(NamedTuple):
    """The working columns, sorted along the axis; rows out of use last and zero.

    Attributes:
      columns: ``(m, n)`` as ``Layout`` says; the last is the response less ``initial``, over
        ``unit``.
      axis: ``(n,)``; inf out of use.
      order: ``(n,)`` int32, place of every row in the record.
      num_rows: int32.
      fold: ``(n,)`` int32, 0 or 1, which never divides a block.
      block: ``(n,)`` int32 ranks of blocks, or None.
      trusted: ``(n,)`` bool, or None.
      map_cell: ``(n,)`` int32 cell of the map.
      possible: ``(n + 1,)`` bool, positions between different places of the axis.
      equal: ``(n,)`` bool, rows equal to the one before.
      unit: units of the response in one of the working column.
      initial: ``(p,)`` a first fit, in the frame.
      term_scale: ``(L,)`` root mean squares that the terms were divided by.
    """

    columns: jax.Array
    axis: jax.Array
    order: jax.Array
    num_rows: jax.Array
    fold: jax.Array
    block: jax.Array | None
    trusted: jax.Array | None
    map_cell: jax.Array
    possible: jax.Array
    equal: jax.Array
    unit: jax.Array
    initial: jax.Array
    term_scale: jax.Array


def _clipped(response: jax.Array, used: jax.Array) -> jax.Array:
    center = outliers.middle_value(response, used)
    spread = outliers.middle(jnp.abs(response - center), used)
    bound = jnp.where(spread > 0, _CLIP * spread, jnp.inf)
    return jnp.where(used, jnp.clip(response, center - bound, center + bound), 0.0)


@jax.jit
@full_precision
def order_rows(key: jax.Array, data: Dataset) -> Ordered:
    """Sort the rows along the axis, and take the response about a first fit in a unit of its own.

    Args:
      key: typed key of the folds.
      data: the data set.
    """
    mask, dtype = data.mask, data.response.dtype
    axis = jnp.where(mask, data.axis, jnp.inf)
    order = jnp.argsort(axis).astype(jnp.int32)
    axis, used = axis[order], mask[order]
    count = jnp.maximum(jnp.sum(mask), 1).astype(dtype)
    physics, response = data.basis[order].T, data.centered[order]
    clipped = _clipped(response, used)
    initial = physics @ clipped / count
    clipped = clipped - initial @ physics
    step = physics @ clipped / count
    initial, left = initial + step, clipped - step @ physics
    unit = scaling.root(jnp.sum(left**2) / count)
    unit = jnp.where(unit > 0, unit, 1.0)
    residual = jnp.where(used, (response - initial @ physics) / unit, 0.0)
    terms = data.features[order].T
    term_scale = scaling.column_norms(terms / jnp.sqrt(count), axis=1)
    known = jnp.where(used, axis, 0.0)
    center = jnp.sum(known) / count
    spread = scaling.root(jnp.sum(jnp.where(used, (known - center) ** 2, 0.0)) / count)
    place = jnp.where(used, (known - center) / jnp.where(spread > 0, spread, 1.0), 0.0)
    one = jnp.where(used, 1.0, 0.0).astype(dtype)
    if data.noise_scale is not None:
        one = one / jnp.where(used, data.noise_scale[order], 1.0)
    columns = [one[None], (place * one)[None], physics, terms / term_scale[:, None]]
    columns = jnp.concatenate([*columns, residual[None]])
    columns = jnp.where(used[None], columns, 0.0)
    yes = jnp.ones(1, bool)
    changes = jnp.concatenate([yes, axis[1:] > axis[:-1], yes])
    same = jnp.all(columns[:, 1:] == columns[:, :-1], axis=0) & used[1:]
    fold = random_folds(key, mask, 2, data.block)[order]
    block = None if data.block is None else unit_ranks(mask, data.block)[order]
    return Ordered(
        columns=columns,
        axis=axis,
        order=order,
        num_rows=jnp.sum(mask, dtype=jnp.int32),
        fold=fold,
        block=block,
        trusted=None if data.trusted is None else data.trusted[order],
        map_cell=data.cell[order],
        possible=changes,
        equal=jnp.concatenate([~yes, same]),
        unit=unit,
        initial=initial,
        term_scale=term_scale,
    )


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
    """

    keep: jax.Array
    scale: jax.Array
    dependence: Dependence
    cells: Cells
    full: jax.Array
    trusted: jax.Array
    places: jax.Array


def _quarters(cells: Cells) -> Cells:
    """Cells joined to four."""
    of_row = 4 * cells.of_row // jnp.maximum(cells.num, 1)
    of_row = jnp.where(cells.of_row < MOST_CELLS, of_row, MOST_CELLS)
    return Cells(of_row, cells.bounds, jnp.minimum(cells.num, 4))


@partial(jax.jit, static_argnames="layout")
@full_precision
def look(rows: Ordered, layout: Layout) -> FirstLook:
    """Fit single cells robustly, measure dependence, and lay the cells of the place."""
    coarse = coarse_cells(rows.axis, rows.num_rows, layout.num_physics)
    directions = rows.columns[: layout.num_directions]
    local = outliers.set_aside(directions, rows.columns[-1], coarse.of_row, MOST_CELLS)
    found = dependence.correlate(local, coarse, rows.order)
    count = rows.num_rows.astype(rows.axis.dtype)

    def shared(cells: Cells) -> tuple[Sharing, jax.Array]:
        size = jnp.maximum(count / jnp.maximum(cells.num, 1).astype(count.dtype), 1)
        return dependence.share(found, cells, rows.order, rows.block), size

    repeated = dependence.share_of_copies(rows.equal, coarse, count.dtype)
    longer = dependence.stretch(*shared(coarse), repeated)
    cells, full = fine_cells(rows.axis, rows.num_rows, layout.num_physics, longer)
    sharing, size = shared(cells)
    wide, _ = shared(_quarters(cells))
    depend = dependence.summarize(found, sharing, wide, size, repeated, rows.block is not None)
    trusted = jnp.zeros(MOST_CELLS, bool)
    if rows.trusted is not None:
        ones = jnp.ones_like(rows.axis)
        vouched = jnp.where(rows.trusted, 1.0, 0.0).astype(ones.dtype)
        both = cell_sums.cell_totals(jnp.stack([ones, vouched], 1), cells.of_row, MOST_CELLS)
        trusted = 2 * both[:, 1] > both[:, 0]
    last = jnp.maximum(rows.num_rows - 1, 0)
    places = rows.axis[jnp.clip(cells.bounds, 0, last)]
    return FirstLook(local.keep, local.pooled, depend, cells, full, trusted, places)


def _totals(
    rows: Ordered, cell: jax.Array, num_cells: int, weights: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    gram = sum_products(rows.columns, cell, num_cells, weights)
    ones = jnp.ones((rows.axis.shape[0], 1), rows.axis.dtype)
    return gram, cell_sums.cell_totals(ones, cell, num_cells)[:, 0]


@jax.jit
@full_precision
def sum_cells(rows: Ordered, cells: Cells, keep: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums of products of the kept rows per cell, ``(K, m, m)``, and their number ``(K,)``."""
    return _totals(rows, jnp.where(keep, cells.of_row, MOST_CELLS), MOST_CELLS)


def residual_of(rows: Ordered, theta: jax.Array, layout: Layout) -> jax.Array:
    """Residuals ``(n,)`` of a law ``theta (p,)``, in the working unit."""
    return rows.columns[-1] - theta @ rows.columns[layout.physics]


@partial(jax.jit, static_argnames="layout")
@full_precision
def keep_near_law(
    rows: Ordered, look: FirstLook, theta: jax.Array, scale: jax.Array, layout: Layout
) -> jax.Array:
    """Rows to keep once a law is known, ``(n,)`` bool; ``scale (K,)`` of the cells."""
    residual = residual_of(rows, theta, layout)
    return outliers.near_law(residual, look.keep, scale, look.cells.of_row, MOST_CELLS)


class Region(NamedTuple):
    """Regions while their terms and ends are sought.

    Attributes:
      spans: runs of cells.
      residual: ``(n,)`` of the law.
      bound: ``(n,)`` residual at which squares are cut off.
      weight: ``(n,)`` 1 for kept rows.
      bonus: gain granted to an end at the end of the axis.
    """

    spans: Spans
    residual: jax.Array
    bound: jax.Array
    weight: jax.Array
    bonus: jax.Array


@partial(jax.jit, static_argnames="layout")
@full_precision
def open_regions(
    rows: Ordered,
    cells: Cells,
    members: jax.Array,
    keep: jax.Array,
    theta: jax.Array,
    scale: jax.Array,
    variance: jax.Array,
    layout: Layout,
) -> tuple[Region, Sums]:
    """Runs of cells ``members (R, K)`` as regions, and the sums over their rows."""
    spans = ends.spans_of_runs(members, cells)
    bound = outliers.CUT * outliers.per_row(scale, cells.of_row)
    count = jnp.maximum(rows.num_rows, 2).astype(rows.axis.dtype)
    # Schwarz: an end inside the axis is a parameter that a region up to its end does not have.
    bonus = 2 * jnp.log(count) * variance
    weight = jnp.where(keep, 1.0, 0.0).astype(rows.axis.dtype)
    region = Region(spans, residual_of(rows, theta, layout), bound, weight, bonus)
    return region, _sum_regions(rows, region, spans.start, spans.stop)


def _fold_sums(
    rows: Ordered, part: jax.Array, most: int, weights: jax.Array | None
) -> Sums:
    gram, count = _totals(rows, part, 2 * most + 2, weights)
    return Sums(gram.reshape(most + 1, 2, *gram.shape[1:]), count.reshape(most + 1, 2))


def _sum_regions(rows: Ordered, region: Region, start: jax.Array, stop: jax.Array) -> Sums:
    inside = ends.inside(region.spans, start, stop, rows.axis.shape[0])
    most = inside.shape[0]
    slot = jnp.where(jnp.any(inside, 0), jnp.argmax(inside, 0), most).astype(jnp.int32)
    part = jnp.where(region.weight > 0, 2 * slot + rows.fold, 2 * most + 2)
    return _fold_sums(rows, part, most, None)


@jax.jit
@full_precision
def move_ends(
    rows: Ordered,
    region: Region,
    use: jax.Array,
    shared: jax.Array,
    begin: tuple[jax.Array, jax.Array],
) -> tuple[Placed, Sums]:
    """Move the ends for a correction in the columns ``use (R, q + L)``, and sum the new regions."""
    placed = ends.place_ends(
        rows.columns[:-1],
        region.residual,
        region.weight,
        region.bound,
        use,
        shared,
        region.spans,
        begin,
        rows.possible,
        rows.num_rows,
        region.bonus,
    )
    return placed, _sum_regions(rows, region, placed.start, placed.stop)


class Settled(NamedTuple):
    """The final ends, and which rows serve what.

    Attributes:
      lower, upper: ``(R,)`` on the axis; infinite at the ends of the axis, NaN where absent.
      lower_interval, upper_interval: ``(R, 2)``; NaN where an end lies at the end of the axis.
      is_kink, softness: ``(2, R)`` of lower and upper ends.
      slot: ``(n,)`` int32 region of every row, ``R`` outside.
      law: ``(n,)`` bool, rows of the law.
      count: ``(R,)`` int32 rows inside.
      outlier: ``(n,)`` bool, in the order of the record.
    """

    lower: jax.Array
    upper: jax.Array
    lower_interval: jax.Array
    upper_interval: jax.Array
    is_kink: jax.Array
    softness: jax.Array
    slot: jax.Array
    law: jax.Array
    count: jax.Array
    outlier: jax.Array


def _between(axis: jax.Array, position: jax.Array, num_rows: jax.Array) -> jax.Array:
    """The axis halfway between the rows beside positions; infinite at the ends."""
    last = axis.shape[0] - 1
    below, above = axis[jnp.clip(position - 1, 0, last)], axis[jnp.clip(position, 0, last)]
    half = 0.5 * below + 0.5 * above
    half = jnp.where(position <= 0, -jnp.inf, half)
    return jnp.where(position >= num_rows, jnp.inf, half)


def _place_on_axis(
    rows: Ordered, spans: Spans, placed: Placed, kinks: Kinks, jumps: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Positions of the ends, their places, intervals, and which of them are kinks, each ``(2, R)``."""
    at_end = jnp.stack([placed.start <= 0, placed.stop >= rows.num_rows])
    kink = kinks.is_kink & ~at_end
    position = jnp.stack([placed.start, placed.stop])
    row = jnp.searchsorted(rows.axis, kinks.place).astype(jnp.int32)
    moved = jnp.where(kink, jnp.clip(row, spans.low[None], spans.high[None]), position)
    # A region between two kinks that have passed each other keeps the ends of the correction.
    kink = kink & (moved[0] < moved[1])[None]
    position = jnp.where(kink, moved, position)
    place = jnp.where(kink, kinks.place, _between(rows.axis, position, rows.num_rows))
    place = jnp.where(spans.present[None], place, jnp.nan)
    bounds = jnp.stack([kinks.lower, kinks.upper], -1)
    interval = jnp.where(kink[..., None], bounds, _between(rows.axis, jumps, rows.num_rows))
    known = spans.present[None] & ~at_end
    return position, place, jnp.where(known[..., None], interval, jnp.nan), kink


@partial(jax.jit, static_argnames="layout")
@full_precision
def settle(
    rows: Ordered,
    look: FirstLook,
    region: Region,
    placed: Placed,
    clean: jax.Array,
    variance: jax.Array,
    layout: Layout,
) -> Settled:
    """Intervals of the ends, jumps or kinks, and the rows of the law.

    Args:
      rows, look, region, placed: what was found.
      clean: ``(K,)`` bool.
      variance: of the noise.
      layout: columns.
    """
    del layout
    spans, num = region.spans, rows.axis.shape[0]
    inflation = look.dependence.rows
    jumps = ends.jump_intervals(placed.gain, placed, spans, variance * inflation)
    kinks = ends.fit_kinks(
        rows.axis, region.residual, region.weight, spans, placed, rows.num_rows, inflation
    )
    position, place, interval, kink = _place_on_axis(rows, spans, placed, kinks, jumps)
    own = ends.inside(spans, position[0], position[1], num)
    inside = jnp.any(own, axis=0)
    # Rows between the bounds of an end belong to neither side for certain.
    outer = jnp.stack([interval[0, :, 0], interval[1, :, 1]])
    open_end = jnp.array([[-jnp.inf], [jnp.inf]], outer.dtype)
    wide = jnp.searchsorted(rows.axis, jnp.where(jnp.isnan(outer), open_end, outer))
    wide = wide.astype(jnp.int32)
    doubtful = jnp.any(ends.inside(spans, wide[0], wide[1], num), axis=0)
    window = jnp.any(ends.inside(spans, spans.low, spans.high, num), axis=0)
    sound = jnp.append(clean, False)[look.cells.of_row]
    kept = region.weight > 0
    used = look.cells.of_row < MOST_CELLS
    correction = placed.coefficients @ rows.columns[:-1]
    corrected = region.residual - jnp.sum(jnp.where(own, correction, 0.0), axis=0)
    far = used & ~kept & (jnp.abs(corrected) > region.bound)
    slot = jnp.where(inside, jnp.argmax(own, axis=0), own.shape[0]).astype(jnp.int32)
    return Settled(
        lower=place[0],
        upper=place[1],
        lower_interval=interval[0],
        upper_interval=interval[1],
        is_kink=kink,
        softness=jnp.where(kink, kinks.softness, 0.0),
        slot=slot,
        law=kept & ~doubtful & ~inside & (sound | window),
        count=jnp.sum(own, axis=1, dtype=jnp.int32),
        outlier=jnp.zeros(num, bool).at[rows.order].set(far),
    )


class Final(NamedTuple):
    """Sums over the rows that were settled on; the only ones with derivatives.

    Attributes:
      law: over the rows of the law.
      regions, weighted: over the regions and outside, plain and weighted by the cells' noise.
      map_all, map_law: ``(R_map, m', m')`` per cell of the map, of ``[1, axis, physics, residual]``,
        over all kept rows and over those of the law.
      map_rows: ``(R_map, 4)`` rows of a cell: in use, kept, of the law, in the regions.
    """

    law: LawSums
    regions: Sums
    weighted: Sums
    map_all: jax.Array
    map_law: jax.Array
    map_rows: jax.Array


@partial(jax.jit, static_argnames=("layout", "num_map"))
@full_precision
def sum_final(
    rows: Ordered,
    look: FirstLook,
    region: Region,
    settled: Settled,
    theta: jax.Array,
    weights: jax.Array,
    layout: Layout,
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
    law = sum_law(
        physics,
        response,
        theta,
        settled.law,
        cell,
        MOST_CELLS,
        rows.order,
        look.dependence.correlation,
        rows.block,
    )
    most = region.spans.present.shape[0]
    weight = jnp.append(weights, jnp.zeros(1, weights.dtype))[cell]
    part = jnp.where(kept, 2 * settled.slot + rows.fold, 2 * most + 2)
    columns = jnp.concatenate([rows.columns[: layout.num_directions], response[None]])
    on_map = jnp.where(kept, rows.map_cell, num_map)
    groups = jnp.stack(
        [cell < MOST_CELLS, kept, settled.law, settled.slot < most], axis=1
    ).astype(response.dtype)
    return Final(
        law=law,
        regions=_fold_sums(rows, part, most, None),
        weighted=_fold_sums(rows, part, most, weight),
        map_all=sum_products(columns, on_map, num_map),
        map_law=sum_products(columns, jnp.where(settled.law, on_map, num_map), num_map),
        map_rows=cell_sums.cell_totals(groups, rows.map_cell, num_map),
    )
