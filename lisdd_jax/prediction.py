"""The corrected model, evaluated on new rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import validation
from lisdd_jax.candidates import CandidateRegions
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.results import Diagnosis


@jax.jit
@full_precision
def _predict(
    found: Diagnosis | CandidateRegions, design: jax.Array, axis: jax.Array, features: jax.Array
) -> jax.Array:
    dtype = np.promote_types(design.dtype, found.coefficients.dtype)
    found, design, axis, features = jax.tree.map(
        lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf,
        (found, design, axis, features),
    )
    corrections = found.regions.coefficients @ features.T
    inside = found.regions.contains(axis)
    predicted = design @ found.coefficients
    predicted = predicted + jnp.sum(jnp.where(inside, corrections, 0.0), axis=0)
    unknown = jnp.isnan(axis) | jnp.any(jnp.isnan(features), axis=1)
    return jnp.where(unknown, jnp.nan, predicted)


def predict(
    diagnosis: Diagnosis | CandidateRegions, design: Any, axis: Any, features: Any
) -> jax.Array:
    """Response of the corrected model: the physics everywhere, the missing terms in the regions.

    A region that ends at the edge of the axis goes on beyond it (``Regions.contains``).

    Args:
      diagnosis: of one data set, from ``diagnose`` or ``diagnose_regions``.
      design: ``(m, p)`` new rows.
      axis: ``(m,)``.
      features: ``(m, L)``.

    Returns:
      ``(m,)``; NaN where a row holds a NaN, and everywhere if the diagnosis failed.

    Raises:
      ValueError, TypeError: shapes or types do not fit each other or the diagnosis.

    Example:
      >>> import jax, numpy as np
      >>> from lisdd_jax import diagnose
      >>> t = np.linspace(0.0, 1.0, 60)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0.0) + 0.05 * np.sin(997 * t**2)
      >>> columns = np.stack([np.ones(60), t], axis=1)
      >>> found = diagnose(columns, y, t, columns, key=jax.random.key(0))
      >>> new = np.array([[1.0, 0.5], [1.0, 0.9]])
      >>> [round(float(value), 1) for value in predict(found, new, new[:, 1], new)]
      [1.0, 2.8]
    """
    num_physics = diagnosis.coefficients.shape[-1]
    num_terms = diagnosis.regions.coefficients.shape[-1]
    named = {"design": design, "axis": axis, "features": features}
    arrays = {name: validation.float_array(name, value) for name, value in named.items()}
    shapes = validation.Shapes(p=(num_physics, "the diagnosis"), L=(num_terms, "the diagnosis"))
    dimensions = (("m", "p"), ("m",), ("m", "L"))
    for (name, array), dims in zip(arrays.items(), dimensions, strict=True):
        shapes.check(name, array.shape, dims)
    validation.common_dtype(**arrays)
    return _predict(diagnosis, *arrays.values())
