"""Stage 1 and 2 with smooth gates: the physics, the noise scale and the trust in every cell.

The hard iteration of ``clean_regime`` ends at a fixed point: the coefficients are least squares on
the cells that these coefficients leave unflagged. Here a cell's weight falls smoothly with its log
p-value and a row counts in neighbouring cells, so that the fixed point is a smooth system of
equations, solved by Newton steps from the hard answer.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.hybrid import gates
from lisdd_jax.numerics import implicit, order, tails

_MAD_AT_NORMAL = 1.4826


class SoftRegime(NamedTuple):
    """The physics under smooth gates.

    Attributes:
      step: ``(p,)`` from the hard solution, in the frame.
      scale: noise scale.
      log_p_value: ``(R,)``; 0 where a cell has no rows.
      flagged: ``(R,)`` in [0, 1].
      residual: ``(n,)``.
      converged: bool.
    """

    step: jax.Array
    scale: jax.Array
    log_p_value: jax.Array
    flagged: jax.Array
    residual: jax.Array
    converged: jax.Array


def _cell_products(columns: jax.Array, membership: jax.Array) -> jax.Array:
    """Sums of products of columns ``(n, m)`` per cell, ``(R, m, m)``."""
    return jnp.einsum("nr,ni,nj->rij", membership, columns, columns)


def _flag(
    energy: jax.Array,
    count: jax.Array,
    scale: jax.Array,
    log_alpha: jax.Array,
    temperature: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Log p-value of every cell and the smooth flag."""
    filled = count > jnp.finfo(count.dtype).tiny
    statistic = jnp.where(filled, energy, 0.0) / scale**2
    log_p = jnp.where(filled, tails.chi2_logsf(statistic, jnp.where(filled, count, 1.0)), 0.0)
    flag = jax.nn.sigmoid((log_alpha - log_p) / (temperature * -log_alpha))
    # A cell that only borrows rows from its neighbours is no evidence of its own.
    return log_p, flag * count / (count + temperature)


def fit(
    basis: jax.Array,
    residual: jax.Array,
    membership: jax.Array,
    mask: jax.Array,
    alpha_cell: jax.Array,
    temperature: jax.Array,
) -> SoftRegime:
    """The fixed point near a hard solution.

    Args:
      basis: ``(n, p)`` physics in a frame.
      residual: ``(n,)`` response about the hard solution; both zero in rows out of use.
      membership: ``(n, R)`` of ``gates.cell_membership``.
      mask: ``(n,)`` bool, rows in use.
      alpha_cell: level of the test of one cell, in (0, 1).
      temperature: positive.

    Returns:
      A ``SoftRegime``, differentiable in basis, residual, membership, level and temperature.
    """
    size = basis.shape[1]
    ones = mask.astype(basis.dtype)
    share = ones / jnp.maximum(jnp.sum(ones), 1.0)
    membership = membership * ones[:, None]
    products = _cell_products(jnp.column_stack([basis, residual]), membership)
    count = jnp.sum(membership, axis=0)
    log_alpha = jnp.log(alpha_cell)
    center = lax.stop_gradient(order.median(residual, mask))
    unit = lax.stop_gradient(order.median_absolute_deviation(residual, mask))
    unit = jnp.where(unit > 0, unit, 1.0)

    def evaluate(unknown: jax.Array) -> tuple[jax.Array, SoftRegime]:
        move, middle = unit * unknown[:size], unit * unknown[size]
        spread = unit / _MAD_AT_NORMAL * jnp.exp(unknown[size + 1])
        direction = jnp.append(-move, 1.0)
        energy = jnp.einsum("i,rij,j->r", direction, products, direction)
        scale = _MAD_AT_NORMAL * spread
        log_p, flagged = _flag(energy, count, scale, log_alpha, temperature)
        trust = 1 - flagged
        pooled = jnp.einsum("r,rij->ij", trust, products)[:size] @ direction
        rows = jnp.maximum(jnp.sum(trust * count), 1.0)
        left = residual - basis @ move
        width = temperature * spread
        deviation = left - middle
        balance = jnp.sum(share * gates.sign(deviation, width))
        beyond = gates.magnitude(deviation, width) - spread
        halves = jnp.sum(share * gates.sign(beyond, width))
        equations = jnp.concatenate([pooled / (rows * unit), jnp.stack([balance, halves])])
        regime = SoftRegime(move, scale, log_p, flagged, left * ones, jnp.zeros((), bool))
        return equations, regime

    start = jnp.zeros(size + 2, basis.dtype).at[size].set(center / unit)
    root = implicit.find_root(lambda unknown: evaluate(unknown)[0], start)
    regime = evaluate(root.solution)[1]
    return regime._replace(converged=root.converged)
