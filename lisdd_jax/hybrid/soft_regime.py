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
from lisdd_jax.numerics import implicit, normal_equations, order, tails

_MAD_AT_NORMAL = 1.4826
_MAX_ALTERNATIONS, _NEAR = 60, 1e-3


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


class _System(NamedTuple):
    """The equations: rows, sums over cells, and the units of the unknowns.

    The unknowns are the step of the coefficients and the middle of the residuals over ``unit``, and
    the log of their spread over its hard value.
    """

    basis: jax.Array
    residual: jax.Array
    share: jax.Array
    products: jax.Array
    num_rows: jax.Array
    log_alpha: jax.Array
    temperature: jax.Array
    unit: jax.Array

    def unpack(self, unknown: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Step of the coefficients, middle, and noise scale."""
        scale = self.unit * jnp.exp(unknown[-1])
        return self.unit * unknown[:-2], self.unit * unknown[-2], scale

    def flag(self, move: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log p-value of every cell and the smooth flag."""
        count, direction = self.num_rows, jnp.append(-move, 1.0)
        energy = jnp.einsum("i,rij,j->r", direction, self.products, direction)
        filled = count > jnp.finfo(count.dtype).eps
        statistic = jnp.where(filled, energy, 0.0) / scale**2
        tail = tails.chi2_logsf(statistic, jnp.where(filled, count, 1.0))
        log_p = jnp.where(filled, tail, 0.0)
        distance = (self.log_alpha - log_p) / (self.temperature * -self.log_alpha)
        # A cell that only borrows rows from its neighbours is no evidence of its own.
        return log_p, jax.nn.sigmoid(distance) * count / (count + self.temperature)

    def trusted(self, move: jax.Array, scale: jax.Array) -> jax.Array:
        """Sums of products of basis and residual under the trust in the cells."""
        _, flagged = self.flag(move, scale)
        return jnp.einsum("r,rij->ij", 1 - flagged, self.products)

    def scale_equations(self, unknown: jax.Array) -> jax.Array:
        """Half of the residuals lie above the middle, and half farther from it than the spread."""
        move, middle, scale = self.unpack(unknown)
        spread = scale / _MAD_AT_NORMAL
        width = self.temperature * spread
        deviation = self.residual - self.basis @ move - middle
        beyond = gates.magnitude(deviation, width) - spread
        halves = [
            jnp.sum(self.share * gates.smooth_sign(part, width)) for part in (deviation, beyond)
        ]
        return jnp.stack(halves)

    def equations(self, unknown: jax.Array) -> jax.Array:
        """All equations, zero at the fixed point."""
        move, _, scale = self.unpack(unknown)
        pooled = self.trusted(move, scale)[:-1] @ jnp.append(-move, 1.0)
        return jnp.concatenate(
            [pooled / (self.unit * jnp.sum(self.num_rows)), self.scale_equations(unknown)]
        )

    def alternate(self, unknown: jax.Array) -> jax.Array:
        """The scale given the coefficients, and half a step to the coefficients given the scale."""
        law = unknown[:-2]

        def given_law(rest: jax.Array) -> jax.Array:
            return self.scale_equations(jnp.append(law, rest))

        # The hard statistics are close to the root where the equations are steep.
        left, mask = self.residual - self.basis @ (self.unit * law), self.share > 0
        spread = order.median_absolute_deviation(left, mask) / self.unit
        log_spread = jnp.log(jnp.where(spread > 0, spread, 1.0))
        hard = jnp.stack([order.median(left, mask) / self.unit, log_spread])
        rest = implicit.find_root(given_law, hard).solution
        move, _, scale = self.unpack(jnp.append(law, rest))
        table = self.trusted(move, scale)
        fit = normal_equations.sweep(table[:-1, :-1], table[:-1, -1])
        return jnp.append((law + fit.solution / self.unit) / 2, rest)


_Turns = tuple[jax.Array, jax.Array, jax.Array]


def _start(system: _System) -> jax.Array:
    """Near the fixed point: from the hard answer by turns of scale and coefficients."""
    hard = jnp.zeros(system.basis.shape[1] + 2, system.basis.dtype)

    def step(state: _Turns) -> _Turns:
        unknown, _, num = state
        moved = system.alternate(unknown)
        return moved, jnp.max(jnp.abs(moved - unknown)), num + 1

    def going_on(state: _Turns) -> jax.Array:
        _, change, num = state
        return (change > _NEAR) & (num < _MAX_ALTERNATIONS)

    begin = (hard, jnp.full((), jnp.inf, hard.dtype), jnp.int32(0))
    return lax.while_loop(going_on, step, begin)[0]


def fit_soft_regime(
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
    ones = mask.astype(basis.dtype)
    num = jnp.maximum(jnp.sum(ones), 1.0)
    membership = membership * ones[:, None]
    columns = jnp.column_stack([basis, residual])
    unit = lax.stop_gradient(order.median_absolute_deviation(residual, mask))
    system = _System(
        basis=basis,
        residual=residual,
        share=ones / num,
        products=jnp.einsum("nr,ni,nj->rij", membership, columns, columns),
        num_rows=jnp.sum(membership, axis=0),
        log_alpha=jnp.log(alpha_cell),
        temperature=temperature,
        unit=jnp.where(unit > 0, unit, 1.0),
    )
    # Iterations towards the root carry no derivative.
    start = _start(lax.stop_gradient(system))
    root = implicit.find_root(system.equations, start)
    move, _, scale = system.unpack(root.solution)
    log_p, flagged = system.flag(move, scale)
    return SoftRegime(
        step=move,
        scale=scale,
        log_p_value=log_p,
        flagged=flagged,
        residual=residual - basis @ move,
        converged=root.converged,
    )
