"""Rows in the order of the axis, in working columns (docs/method.md, section 3.1)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.dataset import Dataset
from lisdd_jax.default.cross_fits import NUM_FOLDS
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.numerics import medians, scaling, tolerances
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.statistics.splits import dealt_folds, unit_ranks

_CLIP = 20.0
"""Deviations from the median at which the response of the first fit is clipped: gross errors, which
could otherwise be as large as they like, leave the start of the robust fits bounded."""


class Ordered(NamedTuple):
    """The working columns, sorted along the axis; rows out of use last and zero.

    Attributes:
      columns: ``(m, n)`` as ``ColumnLayout`` says; the last is the response less ``initial``, over
        ``unit``.
      axis: ``(n,)``; inf out of use.
      order: ``(n,)`` int32, place of every row in the record.
      num_rows: int32.
      fold: ``(n,)`` int32, 0 to 3, which never divides a block.
      block: ``(n,)`` int32 ranks of blocks, or None.
      trusted: ``(n,)`` bool, or None.
      map_cell: ``(n,)`` int32 cell of the map.
      possible: ``(n + 1,)`` bool, positions between different places of the axis.
      equal: ``(n,)`` bool, rows equal to the one before.
      unit: units of the response in one of the working column.
      initial: ``(p,)`` a first fit, in the frame.
      term_scale: ``(L,)`` root mean squares that the terms were divided by.
      mixing: ``(p, p)`` the design's columns, less their offsets, in those of the frame.
      level: offset of the response in the frame, in the working unit.
      rounding: size of residuals, in the working unit, up to which they are rounding errors.
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
    mixing: jax.Array
    level: jax.Array
    rounding: jax.Array

    def without_labels(self) -> "Ordered":
        """The rows as the search takes them, which asks for neither blocks nor trusted rows: one
        program serves tables with them and without."""
        return self._replace(block=None, trusted=None)


def rounding_size(data: Dataset) -> jax.Array:
    """Size of residuals, in units of the response, up to which they are rounding errors."""
    count = jnp.maximum(jnp.sum(data.mask), 1).astype(data.response.dtype)
    size = scaling.root_mean_square(data.response, count)
    return tolerances.NOISE_FLOOR(data.response.dtype) * size


def _clipped(response: jax.Array, used: jax.Array, rounding: jax.Array) -> jax.Array:
    step = medians.sample_step(len(response))
    sample, counts = response[::step], used[::step]
    center = medians.signed_median(sample, counts)
    spread = medians.median_of_positive(jnp.abs(sample - center), counts)
    bound = jnp.where(spread > rounding, _CLIP * spread, jnp.inf)
    return jnp.where(used, jnp.clip(response, center - bound, center + bound), 0.0)


def _first_fit(
    physics: jax.Array, response: jax.Array, used: jax.Array, count: jax.Array, rounding: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Solution ``(p,)`` of the clipped rows in the frame, and the size of what it leaves."""
    clipped = _clipped(response, used, rounding)
    initial = physics @ clipped / count
    clipped = clipped - initial @ physics
    step = physics @ clipped / count
    initial, left = initial + step, clipped - step @ physics
    # A unit of rounding errors would make rows that the clipped fit leaves as large as 1e32.
    unit = jnp.maximum(scaling.root_mean_square(left, count), rounding)
    # No result depends on where the response is counted from, nor in which unit.
    return lax.stop_gradient((initial, jnp.where(unit > 0, unit, 1.0)))


def _standardised(axis: jax.Array, used: jax.Array, count: jax.Array) -> jax.Array:
    """The axis ``(n,)`` about its mean, in units of its spread; 0 out of use."""
    known = jnp.where(used, axis, 0.0)
    center = jnp.sum(known) / count
    spread = scaling.root(jnp.sum(jnp.where(used, (known - center) ** 2, 0.0)) / count)
    return jnp.where(used, (known - center) / jnp.where(spread > 0, spread, 1.0), 0.0)


def order_known(data: Dataset) -> Any:
    """Positions ``(n,)`` of rows in the order of the axis, by NumPy, which sorts many faster."""
    axis = np.where(data.mask, data.axis, np.inf)
    return np.argsort(axis, kind="stable").astype(np.int32)


@compiled
@full_precision
def order_rows(data: Dataset, order: jax.Array | None = None) -> Ordered:
    """Sort the rows along the axis, and take the response about a first fit in a unit of its own.

    Args:
      data: the data set.
      order: ``(n,)`` int32 positions of the rows in the order of the axis, rows out of use last;
        found here where None.
    """
    mask, dtype = data.mask, data.response.dtype
    axis = jnp.where(mask, data.axis, jnp.inf)
    if order is None:
        order = jnp.argsort(axis).astype(jnp.int32)
    axis, used = axis[order], mask[order]
    block = None if data.block is None else data.block[order]
    count = jnp.maximum(jnp.sum(mask), 1).astype(dtype)
    physics, response = data.basis[order].T, data.centered[order]
    rounding = rounding_size(data)
    initial, unit = _first_fit(physics, response, used, count, rounding)
    residual = jnp.where(used, (response - initial @ physics) / unit, 0.0)
    terms = data.features[order].T
    term_scale = scaling.column_norms(terms / jnp.sqrt(count), axis=1)
    place = _standardised(axis, used, count)
    one = jnp.where(used, 1.0, 0.0).astype(dtype)
    if data.noise_scale is not None:
        one = one / jnp.where(used, data.noise_scale[order], 1.0)
    parts = [one[None], (place * one)[None], physics, terms / term_scale[:, None]]
    columns = jnp.concatenate([*parts, residual[None]])
    columns = jnp.where(used[None], columns, 0.0)
    yes = jnp.ones(1, bool)
    changes = jnp.concatenate([yes, axis[1:] > axis[:-1], yes])
    same = jnp.all(columns[:, 1:] == columns[:, :-1], axis=0) & used[1:]
    return Ordered(
        columns=columns,
        axis=axis,
        order=order,
        num_rows=jnp.sum(mask, dtype=jnp.int32),
        fold=dealt_folds(jnp.maximum(unit_ranks(used, block), 0), NUM_FOLDS),
        block=None if block is None else unit_ranks(used, block),
        trusted=None if data.trusted is None else data.trusted[order],
        map_cell=data.cell[order],
        possible=changes,
        equal=jnp.concatenate([~yes, same]),
        unit=unit,
        initial=initial,
        term_scale=term_scale,
        mixing=lax.stop_gradient(data.frame.mixing()),
        level=lax.stop_gradient(data.frame.response_center) / unit,
        rounding=lax.stop_gradient(rounding) / unit,
    )


@compiled(static_argnames=("layout",))
def without_terms(rows: Ordered, layout: ColumnLayout) -> Ordered:
    """The rows without candidate terms: what does not ask them has one program for all libraries.

    Args:
      rows: the rows, their columns as ``layout`` says.
      layout: columns.
    """
    return rows._replace(columns=layout.drop_terms(rows.columns), term_scale=rows.term_scale[:0])
