"""Rows in the order of the axis, and groups of cells with enough rows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.dataset import Dataset
from lisdd_jax.default.floor import Floor
from lisdd_jax.numerics import scaling, tolerances


class Ordered(NamedTuple):
    """Rows sorted along the axis, those out of use last and zero.

    Attributes:
      basis: ``(n, p)`` physics in the frame.
      residual: ``(n,)`` response less a first least-squares fit.
      initial: ``(p,)`` that fit, in the frame.
      terms: ``(n, L)`` candidate terms over their root mean square.
      term_scale: ``(L,)`` those root mean squares.
      axis: ``(n,)``; inf out of use.
      used: ``(n,)`` bool.
      cell: ``(n,)``; the number of cells out of use.
      edges: ``(R + 1,)`` of the cells.
      block: ``(n,)`` labels of dependent rows, or None.
      floor: what is no evidence.
    """

    basis: jax.Array
    residual: jax.Array
    initial: jax.Array
    terms: jax.Array
    term_scale: jax.Array
    axis: jax.Array
    used: jax.Array
    cell: jax.Array
    edges: jax.Array
    block: jax.Array | None
    floor: Floor


def order_rows(data: Dataset, negligible: jax.Array) -> Ordered:
    """Sort the rows along the axis and take the response about a first fit.

    Residual sums of squares from sums of products then do not cancel. A mean discrepancy up to
    ``negligible`` is no evidence.
    """
    axis = jnp.where(data.mask, data.axis, jnp.inf)
    order = jnp.argsort(axis)
    basis, response, terms = data.basis[order], data.centered[order], data.features[order]
    count = jnp.maximum(jnp.sum(data.mask), 1).astype(basis.dtype)
    initial = basis.T @ response / count
    residual = response - basis @ initial
    correction = basis.T @ residual / count
    scale = scaling.column_norms(terms / jnp.sqrt(count))
    info = jnp.finfo(basis.dtype)
    mean_square = jnp.sum(data.response**2) / count
    # Any positive floor serves a response of zeros, and one keeps the derivatives finite.
    smallest = tolerances.NOISE_FLOOR(basis.dtype) ** 2 * mean_square + info.tiny
    smallest = jnp.where(mean_square > 0, smallest, 1.0)
    return Ordered(
        basis=basis,
        residual=residual - basis @ correction,
        initial=initial + correction,
        terms=terms / scale,
        term_scale=scale,
        axis=axis[order],
        used=data.mask[order],
        cell=data.cell[order],
        edges=data.edges,
        block=None if data.block is None else data.block[order],
        floor=Floor(smallest, negligible),
    )


class Groups(NamedTuple):
    """Neighbouring cells taken together: group of every cell ``(R,)``, and how many groups."""

    of_cell: jax.Array
    num: jax.Array


def group_cells(count: jax.Array, least: int) -> Groups:
    """Join neighbouring cells until each group has enough rows.

    Args:
      count: ``(R,)`` int, rows per cell.
      least: rows that a group needs.

    Returns:
      A ``Groups`` with at least one group; what is left over at the end joins the last.

    Example:
      >>> import jax.numpy as jnp
      >>> groups = group_cells(jnp.array([5, 2, 3, 6, 1]), 5)
      >>> groups.of_cell.tolist(), int(groups.num)
      ([0, 1, 1, 2, 2], 3)
    """

    def step(
        carry: tuple[jax.Array, jax.Array], rows: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        gathered, group = carry
        gathered = gathered + rows
        full = gathered >= least
        return (jnp.where(full, 0, gathered), group + full.astype(group.dtype)), group

    start = (jnp.zeros((), count.dtype), jnp.int32(0))
    (_, num), group = jax.lax.scan(step, start, count)
    return Groups(jnp.minimum(group, jnp.maximum(num - 1, 0)), jnp.maximum(num, 1))


class AxisPlaces(NamedTuple):
    """Axis values at positions between sorted rows.

    Attributes:
      below, above: the nearest rows in use, or the end of the cells.
      middle: half way between the two; an end of the cells where no row is in use beyond.
    """

    below: jax.Array
    middle: jax.Array
    above: jax.Array


def axis_places(
    axis: jax.Array, mask: jax.Array, edges: jax.Array, position: jax.Array
) -> AxisPlaces:
    """Where positions ``(...)`` between the sorted rows in ``mask`` lie on the axis."""
    before = jnp.arange(axis.shape[0]) < position[..., None]
    below = jnp.max(jnp.where(mask & before, axis, -jnp.inf), axis=-1)
    above = jnp.min(jnp.where(mask & ~before, axis, jnp.inf), axis=-1)
    first, last = jnp.isinf(below), jnp.isinf(above)
    below = jnp.where(first, edges[0], below)
    above = jnp.where(last, edges[-1], above)
    middle = jnp.where(last, edges[-1], jnp.where(first, edges[0], (below + above) / 2))
    return AxisPlaces(below, middle, above)
