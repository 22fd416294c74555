"""Every group's own fit, reduced to sums from which all later tests and refits are made.

In each group of cells the response is fitted on ``[1, axis, physics]``, in an orthonormal basis
``U`` of their span. With ``gamma = U' residual`` and ``Q`` the physics, the residual sum of the
physics on any union of groups is the groups' own residual sums plus
``sum |gamma - U'Q theta|^2``, so the rows are needed once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.numerics import normal_equations, scaling

NUM_SMOOTH = 4
"""Polynomials of the axis, of degree 0 to 3, that the lack-of-fit test adds to the physics."""

LARGEST_LEVERAGE = 0.9
"""HC3 divides by one minus the leverage; a row that its fit runs through has no residual left."""


class LocalFits(NamedTuple):
    """The groups' own fits; ``R`` groups, ``d = p + 2`` local directions.

    Attributes:
      num_rows: ``(R,)``, as floats.
      rank: ``(R,)`` directions that the group determines, as floats.
      own: ``(R, d)`` coordinates of the residual.
      physics: ``(R, d, p)`` coordinates of the physics.
      smooth: ``(R, d, NUM_SMOOTH)`` coordinates of global polynomials of the axis.
      meat: ``(R, d, d)`` ``sum u u' e^2 / (1 - leverage)^2``, the HC3 covariance of ``own``.
      residual_sum: ``(R,)`` of the group's own fit.
      gram: ``(R, p, p)``, cross: ``(R, p)``, square: ``(R,)`` products of physics and own.
    """

    num_rows: jax.Array
    rank: jax.Array
    own: jax.Array
    physics: jax.Array
    smooth: jax.Array
    meat: jax.Array
    residual_sum: jax.Array
    gram: jax.Array
    cross: jax.Array
    square: jax.Array

    @property
    def present(self) -> jax.Array:
        """``(R,)`` bool, groups that have rows."""
        return self.num_rows > 0

    @property
    def error_dof(self) -> jax.Array:
        """``(R,)`` degrees of freedom of the groups' own residuals."""
        return self.num_rows - self.rank

    @property
    def variance(self) -> jax.Array:
        """``(R,)`` of the groups' own residuals."""
        return self.residual_sum / jnp.maximum(self.error_dof, 1)


def legendre(axis: jax.Array, edges: jax.Array) -> jax.Array:
    """Legendre polynomials over the range of the cells, ``(n, NUM_SMOOTH)``."""
    x = (2 * axis - edges[0] - edges[-1]) / (edges[-1] - edges[0])
    return jnp.stack([jnp.ones_like(x), x, 1.5 * x**2 - 0.5, 2.5 * x**3 - 1.5 * x], axis=1)


def _outer(left: jax.Array, right: jax.Array) -> jax.Array:
    """Products of all pairs of columns, ``(n, i, j)``."""
    return left[:, :, None] * right[:, None, :]


def fit_groups(
    basis: jax.Array,
    residual: jax.Array,
    axis: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    edges: jax.Array,
) -> LocalFits:
    """Fit every group on its own.

    Args:
      basis: ``(n, p)`` physics in the frame.
      residual: ``(n,)`` response about a first fit.
      axis: ``(n,)``.
      mask: ``(n,)`` bool, rows to use.
      group: ``(n,)`` int in ``0 .. R - 1`` for rows to use.
      edges: ``(R + 1,)`` of the cells.

    Returns:
      A ``LocalFits``.
    """
    num_groups, size = edges.shape[0] - 1, basis.shape[1]
    num = size + 2
    # Sums over groups and their expansion to rows are products with the membership: on CPU as fast
    # as a scatter, and unlike it never fused with, and repeated for, what is done per row.
    member = ((group[:, None] == jnp.arange(num_groups)) & mask[:, None]).astype(basis.dtype)

    def total(columns: jax.Array) -> jax.Array:
        sums = member.T @ columns.reshape(columns.shape[0], -1)
        return sums.reshape(num_groups, *columns.shape[1:])

    def to_rows(values: jax.Array) -> jax.Array:
        rows = member @ values.reshape(num_groups, -1)
        return rows.reshape(rows.shape[0], *values.shape[1:])

    ones = jnp.where(mask, 1.0, 0.0).astype(basis.dtype)
    smooth = jnp.where(mask[:, None], legendre(jnp.where(mask, axis, 0.0), edges), 0.0)
    count = total(ones)
    deviation = smooth[:, 1] - to_rows(total(smooth[:, 1]) / jnp.maximum(count, 1))
    spread = scaling.root(total(deviation**2) / jnp.maximum(count, 1))
    deviation = deviation * to_rows(1 / jnp.where(spread > 0, spread, 1.0))
    columns = jnp.concatenate([ones[:, None], deviation[:, None], basis * ones[:, None]], axis=1)
    factor, independent = jax.vmap(normal_equations.inverse_factor)(total(_outer(columns, columns)))
    local = jnp.sum(columns[:, :, None] * to_rows(factor), axis=1)
    targets = jnp.concatenate([basis, smooth, residual[:, None]], axis=1)
    coordinates = total(_outer(local, targets))
    physics, own = coordinates[..., :size], coordinates[..., -1]
    left = ones * (residual - jnp.sum(local * to_rows(own), axis=1))
    # One step of refinement, as the basis is orthonormal to rounding of the Gram matrix only.
    correction = total(local * left[:, None])
    left = ones * (left - jnp.sum(local * to_rows(correction), axis=1))
    own = own + correction
    leverage = jnp.minimum(jnp.sum(local**2, axis=1), LARGEST_LEVERAGE)
    weighted = local * (left / (1 - leverage))[:, None]
    return LocalFits(
        num_rows=count,
        rank=jnp.sum(independent, axis=1).astype(basis.dtype),
        own=own,
        physics=physics,
        smooth=coordinates[..., size : size + NUM_SMOOTH],
        meat=total(_outer(weighted, weighted)).reshape(num_groups, num, num),
        residual_sum=total(left**2),
        gram=jnp.einsum("rdi,rdj->rij", physics, physics),
        cross=jnp.einsum("rdi,rd->ri", physics, own),
        square=jnp.sum(own**2, axis=1),
    )
