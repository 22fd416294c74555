"""One data set through all stages: where, what, whether, and a verdict."""

from typing import Any

import jax
import numpy as np

from lisdd_jax import partition, published, validation
from lisdd_jax.calibrated import run as calibrated
from lisdd_jax.config import Config
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.results import Diagnosis

_RUNS = {"calibrated": calibrated.run, "published": published.run}


def run(
    key: jax.Array,
    design: jax.Array,
    response: jax.Array,
    axis: jax.Array,
    features: jax.Array,
    edges: jax.Array,
    mask: jax.Array,
    config: Config,
) -> Diagnosis:
    """The traced body of ``diagnose``, with every argument given and checked."""
    method = _RUNS[config.method]
    return method(key, design, response, axis, features, edges, mask, config)


_diagnose = jax.jit(full_precision(run))


def diagnose(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    *,
    key: jax.Array,
    config: Config | None = None,
    edges: Any = None,
    mask: Any = None,
) -> Diagnosis:
    """Find where a trusted model is wrong, which term is missing there, and whether it is real.

    The model is ``response = design coefficients + 1[axis in region] features weights + noise``.

    Differentiable in all arrays and edges, forward and reverse: the derivative is that of the
    selected estimator, with trimmed rows, flags, supports and places of ends held as they are.

    Args:
      design: ``(n, p)`` known regressors of the trusted physics.
      response: ``(n,)`` measurements.
      axis: ``(n,)`` operating variable along which the model may fail.
      features: ``(n, L)`` candidate terms.
      key: typed key of starts and splits.
      config: settings; ``Config()`` where None.
      edges: ``(R + 1,)`` increasing cell edges; equal widths over the rows in use where None.
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``Diagnosis``; ``status`` and ``verdict`` say what could not be decided, and the estimates
      concerned are NaN.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    References:
      Wang, Localized and identifiable discovery of model discrepancy, algorithm 1.
    """
    arrays, edges, mask, config = check_arguments(
        design, response, axis, features, config=config, edges=edges, mask=mask
    )
    return _diagnose(validation.check_key(key), *arrays, edges, mask, config)


def check_arguments(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    *,
    config: Config | None,
    edges: Any,
    mask: Any,
) -> tuple[list[jax.Array], jax.Array, jax.Array, Config]:
    """Arguments of a diagnosis as arrays of one type; refuse what does not fit.

    Returns:
      Design, response, axis and features; edges; mask; settings.
    """
    config = Config() if config is None else config
    named = {"design": design, "response": response, "axis": axis, "features": features}
    arrays = {name: validation.float_array(name, value) for name, value in named.items()}
    shapes = validation.Shapes()
    for name, dims in (
        ("design", ("n", "p")),
        ("response", ("n",)),
        ("axis", ("n",)),
        ("features", ("n", "L")),
    ):
        shapes.check(name, arrays[name].shape, dims)
    validation.common_dtype(**arrays)
    num_rows = arrays["design"].shape[0]
    validation.check_filled(design=arrays["design"], features=arrays["features"])
    mask = validation.mask_array(mask, num_rows)
    for name, array in arrays.items():
        validation.check_finite(name, array, mask)
    config = config.checked(arrays["response"].dtype)
    edges = _check_edges(edges, arrays["axis"], mask, config.num_cells)
    return list(arrays.values()), edges, mask, config


def _check_edges(edges: Any, axis: jax.Array, mask: jax.Array, num_cells: int) -> jax.Array:
    if edges is None:
        return partition.equal_width_edges(axis, num_cells, mask)
    edges = validation.float_array("edges", edges).astype(axis.dtype)
    validation.Shapes().check("edges", edges.shape, ("R + 1",))
    if edges.shape[0] < 3:
        raise ValueError(f"edges must bound at least 2 cells, got {edges.shape[0]} edges")
    # In NumPy, since JAX traces even operations on known values under a transform.
    if validation.is_concrete(edges) and not np.all(np.diff(np.asarray(edges)) >= 0):
        raise ValueError(f"edges must not decrease, got {edges.tolist()}")
    if all(map(validation.is_concrete, (edges, axis, mask))):
        low, high = np.asarray(edges)[[0, -1]]
        used = np.asarray(axis)[np.asarray(mask)]
        outside = int(np.sum((used < low) | (used > high)))
        if outside:
            raise ValueError(
                f"edges must cover the axis, but {outside} rows in use lie outside"
                f" {low:g} to {high:g}; mask them or move the edges"
            )
    return edges
