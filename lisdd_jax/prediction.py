"""The corrected model, evaluated on new rows."""

import jax
import jax.numpy as jnp

from lisdd_jax.candidate_regions import CandidateRegions
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.results import Diagnosis


@jax.jit
@full_precision
def predict(
    diagnosis: Diagnosis | CandidateRegions, design: jax.Array, axis: jax.Array, features: jax.Array
) -> jax.Array:
    """Response of the corrected model: the physics everywhere, the missing terms in the regions.

    A region that ends at the edge of the axis goes on beyond it.

    Args:
      diagnosis: of one data set, from ``diagnose`` or ``diagnose_regions``.
      design: ``(m, p)`` new rows.
      axis: ``(m,)``.
      features: ``(m, L)``.

    Returns:
      ``(m,)``; NaN where the diagnosis failed.
    """
    regions, cells = diagnosis.regions, diagnosis.cells
    lower = jnp.where(regions.lower <= cells.lower[0], -jnp.inf, regions.lower)
    upper = jnp.where(regions.upper >= cells.upper[-1], jnp.inf, regions.upper)
    inside = (axis[:, None] >= lower) & (axis[:, None] < upper) & regions.present
    correction = features @ regions.coefficients.T
    return design @ diagnosis.coefficients + jnp.sum(jnp.where(inside, correction, 0.0), axis=1)
