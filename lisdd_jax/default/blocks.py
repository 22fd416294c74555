"""Edges at blocks of rows: cheap enough to place them anew for every support.

Sums of products over blocks of consecutive rows, cumulated, give the fit on any span of blocks, and
the gain of every block, without the rows. Single rows are looked at only in the two blocks around
each edge.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default import edges
from lisdd_jax.default.edges import RowSpan, Sums
from lisdd_jax.default.runs import Spans
from lisdd_jax.numerics import extremes, tolerances

_LEAST_REACH = 4
"""Rows looked at on either side of an end: as many in a row may belong to the other fold."""


class Blocks(NamedTuple):
    """Rows in blocks of equal size, in two folds; ``M`` blocks, ``q = L + 1`` columns.

    Attributes:
      products: ``(2, M + 1, q, q)`` of terms and residual, cumulated over blocks, per fold.
      columns: ``(n, q)`` terms and residual.
      folds: ``(2, n)`` bool.
      size: rows per block, traced, so that rows out of use do not matter.
      largest: its largest value (static int).
      num_rows: rows in use.
    """

    products: jax.Array
    columns: jax.Array
    folds: jax.Array
    size: jax.Array
    largest: int
    num_rows: jax.Array


def make_blocks(
    terms: jax.Array, residual: jax.Array, used: jax.Array, folds: jax.Array, num_blocks: int
) -> Blocks:
    """Sums over blocks of the sorted rows.

    Args:
      terms: ``(n, L)``.
      residual: ``(n,)``.
      used: ``(n,)`` bool; the rows in use come first.
      folds: ``(2, n)`` bool.
      num_blocks: most blocks (static).

    Returns:
      A ``Blocks``.
    """
    n = terms.shape[0]
    num_blocks = min(num_blocks, n)
    largest = -(-n // num_blocks)
    num_rows = jnp.sum(used, dtype=jnp.int32)
    size = jnp.maximum(-(-num_rows // num_blocks), 1)
    within = jnp.arange(largest)
    row = jnp.arange(num_blocks)[:, None] * size + within
    live = (within < size) & (row < num_rows)
    row = jnp.minimum(row, n - 1)
    columns = jnp.column_stack([terms, residual])
    inside = folds[:, row] & live
    rows = columns[row]
    weighted = jnp.where(inside[..., None, :], jnp.swapaxes(rows, 1, 2), 0.0)
    products = weighted @ rows
    products = jnp.cumsum(jnp.pad(products, ((0, 0), (1, 0), (0, 0), (0, 0))), axis=1)
    return Blocks(products, columns, folds, size, largest, num_rows)


def to_blocks(spans: Spans, blocks: Blocks) -> Spans:
    """The same spans in units of blocks, rounded; windows are rounded outwards."""
    last = blocks.products.shape[1] - 1
    size = blocks.size

    def nearest(position: jax.Array) -> jax.Array:
        return jnp.clip((position + size // 2) // size, 0, last)

    start = nearest(spans.start)
    stop = jnp.maximum(nearest(spans.stop), jnp.where(spans.present, start + 1, start))
    return spans._replace(
        start=start,
        stop=stop,
        low=spans.low // size,
        high=jnp.minimum(-(-spans.high // size), last),
    )


class Candidate(NamedTuple):
    """One support fitted on one fold and scored on the other, for ``K`` regions.

    Attributes:
      coefficients: ``(K, m)``.
      region: positions of the ends, at single rows.
      gain: ``(K,)`` on the rows of the other fold.
      determined: ``(K,)`` bool.
    """

    coefficients: jax.Array
    region: RowSpan
    gain: jax.Array
    determined: jax.Array


def _sums_of(products: jax.Array, index: jax.Array) -> Sums:
    """Cumulated products of one support, from those of all columns, ``(M + 1, q, q)``."""
    rows = jnp.moveaxis(products[:, index], 0, -1)
    return Sums(rows[None, :, index], rows[None, :, -1])


def _fold_gain(sums: Sums, region: RowSpan, coefficients: jax.Array) -> jax.Array:
    gram, cross = sums.over(region)
    fitted = jnp.einsum("kab,kb->ka", gram, coefficients)
    return jnp.sum(coefficients * (2 * cross - fitted), axis=1)


def fit_candidate(
    blocks: Blocks,
    fold: jax.Array,
    shared: jax.Array,
    index: jax.Array,
    used: jax.Array,
    spans: Spans,
    bonus: jax.Array,
    num_steps: int,
) -> Candidate:
    """Fit one support, edges and coefficients in turn, on one fold; score it on the other.

    Args:
      blocks: the rows in blocks.
      fold: 0 or 1, the fold to fit on.
      shared: bool, one mechanism for all regions.
      index, used: ``(m,)`` the support.
      spans: runs and windows in units of blocks.
      bonus: gain granted to a region that goes on to the end of the axis.
      num_steps: alternations (static).

    Returns:
      A ``Candidate``.
    """
    fit_sums, score_sums = (_sums_of(blocks.products[part], index) for part in (fold, 1 - fold))
    begin = RowSpan(spans.start, spans.stop)
    region = edges.alternate(fit_sums, used, shared, spans, begin, bonus, True, num_steps)
    fitted = edges.fit_terms(fit_sums, region, used, shared)
    start, stop = (
        _fine_end(blocks, fold, index, fitted.coefficients, end, spans, is_stop)
        for end, is_stop in ((region.start, False), (region.stop, True))
    )
    gain = _fold_gain(score_sums, region, fitted.coefficients) + start[1] + stop[1]
    return Candidate(
        fitted.coefficients,
        RowSpan(start[0], stop[0]),
        jnp.where(spans.present, gain, 0.0),
        fitted.determined | ~spans.present,
    )


def _fine_end(
    blocks: Blocks,
    fold: jax.Array,
    index: jax.Array,
    coefficients: jax.Array,
    end: jax.Array,
    spans: Spans,
    is_stop: bool,
) -> tuple[jax.Array, jax.Array]:
    """An end at the best single row around it, a block to either side, by the gain on the fit fold.

    Returns its position, and the gain on the other fold between the block's end and that row.
    """
    n, size = blocks.columns.shape[0], blocks.size
    reach, largest = jnp.maximum(size, _LEAST_REACH), max(blocks.largest, _LEAST_REACH)
    base = jnp.clip(end * size - reach, 0, jnp.maximum(blocks.num_rows - 2 * reach, 0))
    offset = jnp.arange(2 * largest)
    row = base[:, None] + offset
    live = (offset < 2 * reach) & (row < blocks.num_rows)
    row = jnp.minimum(row, n - 1)
    terms = blocks.columns[row[..., None], index]
    correction = jnp.einsum("kra,ka->kr", terms, coefficients)
    gain = jnp.where(live, (2 * blocks.columns[row, -1] - correction) * correction, 0.0)
    of_folds = jnp.where(blocks.folds[:, row], gain, 0.0)[jnp.stack([fold, 1 - fold])]
    fit_gain, score_gain = extremes.running_sum(of_folds)
    place = base[:, None] + jnp.arange(2 * largest + 1)
    possible = (place >= spans.low[:, None] * size) & (place <= spans.high[:, None] * size)
    possible = possible & (place <= base[:, None] + 2 * reach)
    sign = 1 if is_stop else -1
    on_fit = jnp.where(possible, sign * fit_gain, -jnp.inf)
    largest_gain = jnp.max(jnp.abs(fit_gain), axis=1, keepdims=True)
    rounding = tolerances.CANCELLATION(gain.dtype) * largest_gain
    # Between two of its rows the fit fold leaves the end open; a wrong place there is no error of
    # the support, so the rows of the other fold may choose it.
    open_ends = on_fit >= jnp.max(on_fit, axis=1, keepdims=True) - rounding
    best = extremes.first_max(jnp.where(open_ends, sign * score_gain, -jnp.inf))
    # An end at the end of its window stays there.
    coarse = jnp.clip(end * size - base, 0, 2 * largest)
    best = jnp.where(end == (spans.high if is_stop else spans.low), coarse, best)

    def at(values: jax.Array, where: jax.Array) -> jax.Array:
        return jnp.take_along_axis(values, where[:, None], axis=1)[:, 0]

    change = at(score_gain, best) - at(score_gain, coarse)
    return jnp.minimum(base + best, blocks.num_rows), sign * change
