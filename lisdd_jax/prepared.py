"""One data set made ready for the stages: cells, and the physics in a well-conditioned frame."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax import partition
from lisdd_jax.numerics.frame import Frame, whiten
from lisdd_jax.numerics.random_split import take_rows
from lisdd_jax.status import Status, first_failure, status_if


class Prepared(NamedTuple):
    """Rows as the stages use them, with design and response in a frame too."""

    design: jax.Array
    response: jax.Array
    axis: jax.Array
    features: jax.Array
    mask: jax.Array
    cell: jax.Array
    edges: jax.Array
    frame: Frame
    basis: jax.Array
    centered: jax.Array
    level: jax.Array


def prepare(
    design: jax.Array,
    response: jax.Array,
    axis: jax.Array,
    features: jax.Array,
    edges: jax.Array,
    mask: jax.Array,
) -> tuple[Prepared, jax.Array]:
    """Assign cells and change the basis; rows out of use become zero.

    Args:
      design, response, axis, features, edges, mask: as for ``diagnose``.

    Returns:
      The data, and a status for what makes it unfit for any stage.
    """
    finite = jnp.isfinite(response) & jnp.isfinite(axis)
    finite = finite & jnp.all(jnp.isfinite(design), 1) & jnp.all(jnp.isfinite(features), 1)
    nonfinite = jnp.any(mask & ~finite)
    cell = partition.cell_index(axis, edges, mask & finite)
    mask = cell < edges.shape[0] - 1
    design = jnp.where(mask[:, None], design, 0.0)
    response = jnp.where(mask, response, 0.0)
    features = jnp.where(mask[:, None], features, 0.0)
    frame = whiten(design, response, mask)
    status = first_failure(
        status_if(nonfinite, Status.NONFINITE_INPUT),
        status_if(jnp.sum(mask) <= design.shape[1], Status.TOO_FEW_ROWS),
        status_if(~jnp.all(frame.independent), Status.RANK_DEFICIENT_DESIGN),
    )
    data = Prepared(
        design=design,
        response=response,
        axis=axis,
        features=features,
        mask=mask,
        cell=cell,
        edges=edges,
        frame=frame,
        basis=frame.to_basis(design),
        centered=frame.center_response(design, response),
        level=jnp.max(jnp.abs(response)),
    )
    return data, status


def take(data: Prepared, rows: jax.Array, used: jax.Array) -> Prepared:
    """Some rows of a data set, in the same frame and cells.

    Args:
      data: all rows.
      rows: ``(m,)`` int, their positions.
      used: ``(m,)`` bool, those of them to use.
    """
    pick = partial(take_rows, rows=rows, used=used)
    num_cells = data.edges.shape[0] - 1
    return data._replace(
        design=pick(data.design),
        response=pick(data.response),
        axis=pick(data.axis),
        features=pick(data.features),
        mask=used,
        cell=jnp.where(used, data.cell[rows], num_cells),
        basis=pick(data.basis),
        centered=pick(data.centered),
    )
