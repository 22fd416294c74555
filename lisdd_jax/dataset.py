"""The data set that travels through a diagnosis: checked, and made ready, in one place."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.config import Settings
from lisdd_jax.numerics import flags
from lisdd_jax.numerics.float_order import greatest
from lisdd_jax.numerics.frame import Frame, whiten
from lisdd_jax.statistics import partition
from lisdd_jax.statistics.splits import take_rows
from lisdd_jax.status import Status, first_failure, status_if

AnySettings = TypeVar("AnySettings", bound=Settings)


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Rows as every stage of both methods takes them; all are zero in rows out of use.

    Where the relative measurement errors of the rows are known, design, response, features, basis
    and centred response are divided by them: noise then has one variance.

    Attributes:
      design: ``(n, p)`` known regressors of the trusted physics.
      response: ``(n,)`` measurements.
      axis: ``(n,)`` operating variable.
      features: ``(n, L)`` candidate terms.
      mask: ``(n,)`` bool, rows in use.
      block: ``(n,)`` int32 labels of dependent rows; None where rows are independent.
      trusted: ``(n,)`` bool, rows on which the law is vouched for; None where nobody vouches.
      noise_scale: ``(n,)`` relative measurement error; None where it is one for all.
      edges: ``(R + 1,)`` non-decreasing cell edges.
      cell: ``(n,)`` int32 cell of every row; ``R`` in rows out of use.
      frame: the change of basis under which least squares is well conditioned.
      basis: ``(n, p)`` the design in it.
      centered: ``(n,)`` the response less its offset there.
      magnitude: largest absolute response.
    """

    design: jax.Array
    response: jax.Array
    axis: jax.Array
    features: jax.Array
    mask: jax.Array
    block: jax.Array | None
    trusted: jax.Array | None
    noise_scale: jax.Array | None
    edges: jax.Array
    cell: jax.Array
    frame: Frame
    basis: jax.Array
    centered: jax.Array
    magnitude: jax.Array

    @property
    def num_cells(self) -> int:
        """Number of cells."""
        return self.edges.shape[-1] - 1

    @property
    def num_rows(self) -> jax.Array:
        """Rows in use, int32."""
        return jnp.sum(self.mask, dtype=jnp.int32)

    def in_cells(self, chosen: jax.Array) -> jax.Array:
        """Rows ``(n,)`` in use that lie in the cells ``chosen (R,)``."""
        return self.mask & flags.look_up(chosen, self.cell)

    def take(self, rows: jax.Array, used: jax.Array) -> "Dataset":
        """Some rows, in the same frame and cells.

        Args:
          rows: ``(m,)`` int, their positions.
          used: ``(m,)`` bool, those of them to use.
        """
        pick = partial(take_rows, rows=rows, used=used)
        per_row = ("design", "response", "axis", "features", "basis", "centered")
        optional = ("block", "trusted", "noise_scale")
        given = [name for name in optional if getattr(self, name) is not None]
        taken: dict[str, Any] = {name: pick(getattr(self, name)) for name in (*per_row, *given)}
        cell = jnp.where(used, self.cell[rows], self.num_cells)
        return dataclasses.replace(self, **taken, mask=used, cell=cell)

    def without_rows(self) -> "Dataset":
        """What is known of the data set beside its rows: they need memory as long as it is held."""
        per_row = ("design", "response", "axis", "features", "mask", "cell", "basis", "centered")
        rows = {name: getattr(self, name) for name in per_row}
        empty: dict[str, Any] = {
            name: np.zeros((0, *part.shape[1:]), part.dtype) for name, part in rows.items()
        }
        return dataclasses.replace(self, **empty)

    def restrict(self, mask: jax.Array) -> "Dataset":
        """The same rows with only those in ``mask (n,)`` in use."""
        return self.take(jnp.arange(self.mask.shape[0]), self.mask & mask)


def check_arguments(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    *,
    num_cells: int,
    edges: Any = None,
    mask: Any = None,
    block: Any = None,
    trusted: Any = None,
    noise_scale: Any = None,
) -> dict[str, Any]:
    """Arguments of a diagnosis as arrays of one type; refuse what does not fit.

    Args:
      design, response, axis, features, edges, mask, block, trusted, noise_scale: as for
        ``diagnose``.
      num_cells: cells where no edges are given.

    Returns:
      The arguments of ``prepare`` by name.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.
    """
    named = {"design": design, "response": response, "axis": axis, "features": features}
    arrays = {name: validation.float_array(name, value) for name, value in named.items()}
    shapes = validation.Shapes()
    dimensions = (("n", "p"), ("n",), ("n",), ("n", "L"))
    for (name, array), dims in zip(arrays.items(), dimensions, strict=True):
        shapes.check(name, array.shape, dims)
    validation.common_dtype(**arrays)
    validation.check_filled(design=arrays["design"], features=arrays["features"])
    num_rows, dtype = arrays["response"].shape[0], arrays["response"].dtype
    mask = validation.mask_array(mask, num_rows)
    for name, array in arrays.items():
        validation.check_finite(name, array, mask)
    return {
        **arrays,
        "edges": _edges(edges, arrays["axis"], mask, num_cells),
        "mask": mask,
        "block": None if block is None else validation.row_labels("block", block, num_rows),
        "trusted": None if trusted is None else validation.row_flags("trusted", trusted, num_rows),
        "noise_scale": None
        if noise_scale is None
        else validation.positive_rows("noise_scale", noise_scale, mask, dtype),
    }


def check_call(
    key: Any,
    config: AnySettings,
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    **optional: Any,
) -> tuple[jax.Array, dict[str, Any], AnySettings]:
    """Key, arrays and settings of a call, ready to be traced: what every diagnosis begins with.

    Args:
      key: typed key.
      config: settings of a method.
      design, response, axis, features: as for ``diagnose``.
      **optional: what else ``check_arguments`` takes, by its names.

    Returns:
      The key, the arguments of ``prepare`` by name, and the settings in the type of the arrays.

    Raises:
      ValueError, TypeError: something does not fit.
    """
    arrays = check_arguments(
        design, response, axis, features, num_cells=config.num_cells, **optional
    )
    return validation.check_key(key), arrays, config.checked(arrays["response"].dtype)


def _edges(edges: Any, axis: jax.Array, mask: jax.Array, num_cells: int) -> jax.Array:
    """Checked edges; those of known rows by NumPy."""
    if edges is None and validation.is_concrete(axis) and validation.is_concrete(mask):
        found = partition.equal_width_edges(np.asarray(axis), num_cells, np.asarray(mask))
        return jax.device_put(found)
    return partition.check_edges(edges, axis, mask, num_cells)


def _measured(
    design: jax.Array,
    response: jax.Array,
    axis: jax.Array,
    features: jax.Array,
    noise_scale: jax.Array | None,
) -> jax.Array:
    """Rows ``(n,)`` without a NaN or infinity, and with a noise scale above zero."""
    finite = jnp.isfinite(response) & jnp.isfinite(axis)
    for columns in (design, features):
        finite = finite & jnp.all(jnp.isfinite(columns), axis=1)
    if noise_scale is not None:
        finite = finite & jnp.isfinite(noise_scale) & (noise_scale > 0)
    return finite


def prepare(
    design: jax.Array,
    response: jax.Array,
    axis: jax.Array,
    features: jax.Array,
    edges: jax.Array,
    mask: jax.Array,
    block: jax.Array | None = None,
    trusted: jax.Array | None = None,
    noise_scale: jax.Array | None = None,
) -> tuple[Dataset, jax.Array]:
    """Make a data set ready: divide by the noise scale, assign cells, change the basis.

    Args:
      design, response, axis, features, edges, mask, block, trusted, noise_scale: as checked by
        ``check_arguments``.

    Returns:
      The data set, and a status: what makes it unfit for any stage, or that rows lie outside the
      edges and were left out.
    """
    finite = _measured(design, response, axis, features, noise_scale)
    cell = partition.cell_index(axis, edges, mask & finite)
    used = cell < edges.shape[0] - 1
    frame = whiten(design, response, used, noise_scale)

    def in_use(values: jax.Array) -> jax.Array:
        """Rows in use over their noise scale, else zero."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        kept = jnp.where(used.reshape(shape), values, 0.0)
        if noise_scale is None:
            return kept
        return kept / jnp.where(used, noise_scale, 1.0).reshape(shape)

    design, response, features = in_use(design), in_use(response), in_use(features)
    status = first_failure(
        status_if(jnp.any(mask & ~finite), Status.NONFINITE_INPUT),
        status_if(jnp.sum(used) <= design.shape[1], Status.TOO_FEW_ROWS),
        status_if(~jnp.all(frame.independent), Status.RANK_DEFICIENT_DESIGN),
        status_if(jnp.any(mask & finite & ~used), Status.ROWS_OUTSIDE_EDGES),
    )
    data = Dataset(
        design=design,
        response=response,
        axis=jnp.where(used, axis, 0.0),
        features=features,
        mask=used,
        block=block,
        trusted=None if trusted is None else trusted & used,
        noise_scale=noise_scale,
        edges=edges,
        cell=cell,
        frame=frame,
        basis=frame.to_basis(design),
        centered=frame.center_response(design, response),
        magnitude=greatest(jnp.abs(jax.lax.stop_gradient(response))),
    )
    return data, status
