"""A frame: the physics columns in a basis in which sums of products are safe."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax.numerics import tolerances
from lisdd_jax.numerics.columns import along_rows, combine
from lisdd_jax.numerics.float_order import greatest, least
from lisdd_jax.numerics.hosted import namespace
from lisdd_jax.numerics.least_squares import (
    back_substitute,
    compress,
    solve_factor,
)


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """A change of basis under which least squares is well conditioned.

    ``basis = (design - reference center') transform`` has orthonormal columns up to the factor
    ``sqrt(rows in use)``. ``reference`` is the constant column of the design divided by its value,
    where there is one, so that offsets can be removed without changing the column space (see
    docs/method.md, equation 3).

    Attributes:
      center: ``(p,)`` offsets removed from the columns.
      transform: ``(p, p)`` upper triangular; zero columns for dependent physics columns.
      constant: ``(p,)`` one at the constant column divided by its value, else zero.
      response_center: offset removed from the response.
      independent: ``(p,)`` bool.
    """

    center: jax.Array
    transform: jax.Array
    constant: jax.Array
    response_center: jax.Array
    independent: jax.Array

    def to_basis(self, design: jax.Array) -> jax.Array:
        """Rows ``(n, p)`` of the design in the basis."""
        columns = design.T
        shifted = columns - self.center[:, None] * combine(self.constant, columns)[None]
        return jnp.stack([combine(weights, shifted) for weights in self.transform.T], axis=1)

    def mixing(self) -> jax.Array:
        """Weights ``(p, p)`` of the basis in the design's columns, less their offsets."""
        unit = jnp.eye(self.transform.shape[0], dtype=self.transform.dtype)
        return back_substitute(self.transform, unit, self.independent)

    def center_response(self, design: jax.Array, response: jax.Array) -> jax.Array:
        """Response ``(n,)`` less its offset."""
        return response - combine(self.constant, design.T) * self.response_center

    def coefficients(self, solution: jax.Array) -> jax.Array:
        """Physics coefficients ``(p,)`` from a solution ``(p,)`` in the basis."""
        scaled = self.transform @ solution
        return scaled + self.constant * (self.response_center - self.center @ scaled)

    def covariance(self, inverse: jax.Array) -> jax.Array:
        """Matrix ``(p, p)`` of the coefficients from one in the basis."""
        size = self.center.shape[0]
        xp = namespace(inverse)
        shift = xp.eye(size, dtype=self.center.dtype) - xp.outer(self.constant, self.center)
        mapping = shift @ self.transform
        return mapping @ inverse @ mapping.T

    def solution(self, coefficients: jax.Array) -> jax.Array:
        """The inverse of ``coefficients``: a solution in the basis from physics coefficients."""
        shifted = jnp.where(self.constant != 0, 0.0, coefficients)
        level = jnp.sum(jnp.where(self.constant != 0, coefficients / _safe(self.constant), 0.0))
        offset = level - self.response_center + self.center @ shifted
        target = jnp.where(self.constant != 0, offset * self.constant, shifted)
        return back_substitute(self.transform, target, self.independent)


def _safe(values: jax.Array) -> jax.Array:
    return jnp.where(values != 0, values, 1.0)


def _constant_column(columns: jax.Array, mask: jax.Array) -> jax.Array:
    low, high = least(columns, mask), greatest(columns, mask)
    is_constant = (low == high) & (low != 0)
    first = jnp.argmax(is_constant)
    chosen = (jnp.arange(columns.shape[0]) == first) & is_constant[first]
    return jnp.where(chosen, 1.0 / jnp.where(chosen, low, 1.0), 0.0)


def whiten(
    design: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    noise_scale: jax.Array | None = None,
) -> Frame:
    """The frame of a design on the rows in use.

    The frame is held constant under differentiation: a least-squares solution does not depend on
    the basis in which it is computed, so its derivative through the rows alone is exact.

    Args:
      design: ``(n, p)``.
      response: ``(n,)``.
      mask: ``(n,)`` bool, rows in use.
      noise_scale: ``(n,)`` positive; the frame is that of the rows divided by it, where a constant
        becomes a multiple of ``1 / noise_scale``. All ones where None.

    Returns:
      A ``Frame``; columns that depend on earlier ones are marked in ``independent``.
    """
    columns = along_rows(jnp.where(mask[:, None], lax.stop_gradient(design), 0.0))
    response = lax.stop_gradient(jnp.where(mask, response, 0.0))
    constant = _constant_column(columns, mask)
    count = jnp.maximum(jnp.sum(mask), 1).astype(design.dtype)
    reference, weight = None, count
    if noise_scale is not None:
        reference = jnp.where(mask, 1 / jnp.where(mask, lax.stop_gradient(noise_scale), 1.0), 0.0)
        squares = jnp.sum(reference**2)
        weight = jnp.where(squares > 0, squares, 1.0)
        columns, response = columns * reference[None], response * reference
    has_constant = jnp.any(constant != 0)
    means = _total(columns, reference) / weight
    center = jnp.where(has_constant & (constant == 0), means, 0.0)
    response_center = jnp.where(has_constant, _total(response, reference) / weight, 0.0)
    offsets = center[:, None] if reference is None else center[:, None] * reference[None]
    centered = jnp.where(mask[None], columns - offsets, 0.0)
    factor = compress(centered.T)
    fit = solve_factor(factor, jnp.zeros(design.shape[1], design.dtype))
    transform = jnp.where(fit.independent[None], fit.inverse_factor * jnp.sqrt(count), 0.0)
    return Frame(
        center=center,
        transform=transform,
        constant=constant,
        response_center=response_center,
        independent=_still_there(fit.independent, centered, columns),
    )


def to_frame(
    design: jax.Array, response: jax.Array, mask: jax.Array
) -> tuple[Frame, jax.Array, jax.Array]:
    """Rows in their frame.

    Args:
      design: ``(n, p)``.
      response: ``(n,)``.
      mask: ``(n,)`` bool, rows in use.

    Returns:
      The frame, the basis ``(n, p)``, and the response less its offset ``(n,)``; both zero in rows
      out of use.
    """
    frame = whiten(design, response, mask)
    design, response = jnp.where(mask[:, None], design, 0.0), jnp.where(mask, response, 0.0)
    return frame, frame.to_basis(design), frame.center_response(design, response)


def _total(values: jax.Array, reference: jax.Array | None) -> jax.Array:
    """Sums along the last axis, or products with the reference where there is one."""
    return jnp.sum(values, axis=-1) if reference is None else values @ reference


def _still_there(independent: jax.Array, centered: jax.Array, columns: jax.Array) -> jax.Array:
    """Independent and more than the rounding error that centring leaves of an offset."""
    left, largest = greatest(jnp.abs(centered)), greatest(jnp.abs(columns))
    return independent & (left > tolerances.OFFSET(columns.dtype) * largest)
