"""Levenberg-Marquardt steps on weighted squares, whose weights may follow the residuals."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import normal_equations, tolerances

_LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e9

Residuals = Callable[[jax.Array], jax.Array]
Weights = Callable[[jax.Array], jax.Array]


class _State(NamedTuple):
    unknown: jax.Array
    objective: jax.Array
    damping: jax.Array
    settled: jax.Array
    num_steps: jax.Array


class Descent(NamedTuple):
    """Where a descent ended.

    Attributes:
      unknown: ``(p,)``.
      objective: there; infinite where it is undefined.
      settled: bool, no step lowers it any more.
    """

    unknown: jax.Array
    objective: jax.Array
    settled: jax.Array


def equal_weights(left: jax.Array) -> jax.Array:
    """The weights of ordinary least squares."""
    return jnp.ones_like(left)


def objective(residuals: Residuals, weigh: Weights, unknown: jax.Array) -> jax.Array:
    """The weighted sum of squares, infinite where it is undefined."""
    left = residuals(unknown)
    weights = weigh(left)
    total = jnp.sum(weights * jnp.where(weights > 0, left, 0.0) ** 2)
    return jnp.where(jnp.isfinite(total), total, jnp.inf)


def descend(residuals: Residuals, weigh: Weights, start: jax.Array, max_iterations: int) -> Descent:
    """Damped Gauss-Newton steps, taken where the objective falls.

    Under weights that pick the smallest squares, a step that lowers the sum of the rows picked
    before it lowers the trimmed sum at least as much, so these are concentration steps as well.

    Args:
      residuals: ``(n,)`` of unknowns ``(p,)``.
      weigh: weights ``(n,)``, not negative, of residuals; zero where a residual is not finite.
      start: ``(p,)``.
      max_iterations: most steps (static).

    Returns:
      A ``Descent``.

    References:
      Moré (1978), The Levenberg-Marquardt algorithm: implementation and theory, Numerical Analysis
      (Lecture Notes in Mathematics 630). Rousseeuw and Van Driessen (2006), Computing LTS
      regression for large data sets, Data Mining and Knowledge Discovery 12.
    """

    def step(state: _State) -> _State:
        left = residuals(state.unknown)
        weights = weigh(left)
        used = weights > 0
        left = jnp.where(used, left, 0.0)
        jacobian = jnp.where(used[:, None], jax.jacfwd(residuals)(state.unknown), 0.0)
        weighted = weights[:, None] * jacobian
        gram = jacobian.T @ weighted
        damped = gram + state.damping * jnp.diag(jnp.diagonal(gram))
        direction = normal_equations.sweep(damped, weighted.T @ left).solution
        moved = state.unknown - direction
        value = objective(residuals, weigh, moved)
        better = value < state.objective
        damping = jnp.where(better, state.damping / 10, state.damping * 10)
        small = value > (1 - tolerances.DESCENT(left.dtype)) * state.objective
        return _State(
            jnp.where(better, moved, state.unknown),
            jnp.where(better, value, state.objective),
            jnp.maximum(damping, _LEAST_DAMPING),
            (better & small) | (damping > _MOST_DAMPING),
            state.num_steps + 1,
        )

    def going_on(state: _State) -> jax.Array:
        return ~state.settled & (state.num_steps < max_iterations)

    begin = _State(
        start,
        objective(residuals, weigh, start),
        jnp.full((), 1e-3, start.dtype),
        jnp.zeros((), bool),
        jnp.int32(0),
    )
    final = lax.while_loop(going_on, step, begin)
    return Descent(final.unknown, final.objective, final.settled)
