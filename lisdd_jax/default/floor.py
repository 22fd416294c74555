"""What counts as no discrepancy: rounding errors, and sizes that do not matter to the user."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.numerics import scaling, tolerances


class Floor(NamedTuple):
    """Limits below which nothing is evidence.

    Attributes:
      variance: variance at or below which residuals are rounding errors; added to the noise.
      size: mean discrepancy, in units of the response, that is too small to matter.
    """

    variance: jax.Array
    size: jax.Array


def _less(square: jax.Array, length: jax.Array) -> jax.Array:
    left = scaling.root(square) - length
    return jnp.where(left > 0, left, 0.0) ** 2


def beyond_rounding(gain: jax.Array, square: jax.Array) -> jax.Array:
    """A difference of two residual sums, less the rounding error that a total ``square`` leaves.

    Without noise, rounding errors would otherwise be all that there is to test.
    """
    return jnp.maximum(gain - tolerances.CANCELLATION(square.dtype) * square, 0.0)


def beyond_size(gain: jax.Array, num_rows: jax.Array, floor: Floor) -> jax.Array:
    """A gain less what a discrepancy of the size that does not matter can add to it.

    A gain is the squared length of a projection. Over ``num_rows`` rows such a discrepancy is a
    vector no longer than ``sqrt(num_rows) size``, so without it the length is at least this much
    less (triangle inequality), and a test of what is left keeps its level.
    """
    return _less(gain, scaling.root(num_rows) * floor.size)


def wald_beyond_size(
    wald: jax.Array, num_rows: jax.Array, variance: jax.Array, floor: Floor
) -> jax.Array:
    """The same for a Wald form, whose metric divides by the variance of the noise."""
    return _less(wald, scaling.root(num_rows / (variance + floor.variance)) * floor.size)
