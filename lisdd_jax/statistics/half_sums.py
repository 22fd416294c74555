"""Terms and residuals of two halves of the rows, reduced to what the choice of a support needs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import least_squares, scaling
from lisdd_jax.numerics.float_order import greatest
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.statistics import splits

_FEW_ROWS = 512
"""Rows of a half up to which it is compressed as one."""
_NUM_PARTS = 2


class HalfSums(NamedTuple):
    """What the choice needs of two halves of rows, the fit rows and the score rows.

    Attributes:
      factors: ``(2, L + 1, L + 1)`` triangular factors of terms and residuals, for the values.
      products: ``(2, L + 1, L + 1)`` their sums of products, for the derivatives.
      num_rows: ``(2,)`` rows in use.
      nonfinite: whether some value is not finite.
      unit: power of two in which the residuals are, so that their squares stay in range.
    """

    factors: jax.Array
    products: jax.Array
    num_rows: jax.Array
    nonfinite: jax.Array
    unit: jax.Array


def _in_unit(
    features: jax.Array, residuals: jax.Array, inside: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Columns ``(n, L + 1)`` of terms, and residuals in a power of two, which is returned too."""
    largest = greatest(jnp.abs(lax.stop_gradient(residuals)), inside)
    unit = scaling.binary_unit(largest)
    return jnp.column_stack([features, residuals / unit]), unit


def _sum_halves(
    halves: jax.Array, num_rows: jax.Array, compressed: least_squares.Compressed, unit: jax.Array
) -> HalfSums:
    """Sums of halves ``(2, m, L + 1)`` of terms and residuals, which have been compressed."""
    return HalfSums(
        compressed.triangle,
        jnp.einsum("hni,hnj->hij", halves, halves),
        num_rows,
        # The largest magnitudes tell what a pass over all rows would.
        ~jnp.all(jnp.isfinite(compressed.largest)),
        unit,
    )


def _compress_halves(columns: jax.Array, halves: splits.Halves) -> least_squares.Compressed:
    """Triangular factors of both halves of columns ``(n, k)``, part by part.

    Rows in use come first, so that a part costs nothing where the parts before it hold them all.
    """
    length = halves.rows.shape[1]
    if length <= _FEW_ROWS:
        return least_squares.compress_scaled(halves.take(columns))
    size, num_columns = -(-length // _NUM_PARTS), columns.shape[1]
    spare = ((0, 0), (0, size * _NUM_PARTS - length))
    rows, used = jnp.pad(halves.rows, spare), jnp.pad(halves.used, spare)

    def add_part(i: jax.Array, before: least_squares.Compressed) -> least_squares.Compressed:
        part = [lax.dynamic_slice_in_dim(values, i * size, size, 1) for values in (rows, used)]
        taken = jnp.concatenate([splits.take_rows(columns, *part), before.triangle], axis=1)
        found = least_squares.compress_scaled(taken)
        largest = jnp.maximum(before.largest, found.largest)
        return least_squares.Compressed.of_triangle(found.triangle, largest)

    nothing = jnp.zeros((2, num_columns), columns.dtype)
    empty = jnp.zeros((2, num_columns, num_columns), columns.dtype)
    num_parts = -(-jnp.max(jnp.sum(halves.used, axis=1, dtype=jnp.int32)) // size)
    start = least_squares.Compressed(empty, nothing)
    return lax.fori_loop(0, num_parts, add_part, start)


@full_precision
def sum_masked(
    features: jax.Array, residuals: jax.Array, fit_mask: jax.Array, score_mask: jax.Array
) -> HalfSums:
    """Sums of the fit rows and the score rows, given as disjoint masks ``(n,)``."""
    columns, unit = _in_unit(features, residuals, fit_mask | score_mask)
    masks = jnp.stack([fit_mask, score_mask])
    halves = jnp.where(masks[:, :, None], columns[None], 0.0)
    compressed = least_squares.compress_scaled(lax.stop_gradient(halves))
    return _sum_halves(halves, jnp.sum(masks, axis=1), compressed, unit)


@full_precision
def sum_halves(
    key: jax.Array,
    features: jax.Array,
    residuals: jax.Array,
    inside: jax.Array,
    block: jax.Array | None = None,
) -> HalfSums:
    """Sums of two random halves of the rows in ``inside``, which divide no block."""
    halves = splits.random_halves(key, inside, block)
    columns, unit = _in_unit(features, residuals, inside)
    compressed = _compress_halves(lax.stop_gradient(columns), halves)
    num_rows = jnp.sum(halves.used, axis=1)
    return _sum_halves(halves.take(columns), num_rows, compressed, unit)
