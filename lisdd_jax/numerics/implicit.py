"""Solutions of small systems of equations, differentiated by the implicit function theorem.

The iterations that find a solution carry no derivative: where ``g(u, data) = 0``,
``du = -(dg/du)^-1 dg/ddata``, whatever path led there. Forward and reverse mode, any order.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import least_squares, tolerances

Equations = Callable[[jax.Array], jax.Array]
_Outcome = tuple[jax.Array, tuple[jax.Array, jax.Array]]
_MAX_HALVINGS = 40


class Root(NamedTuple):
    """A solution ``(m,)``, whether the equations hold there, and the iterations made."""

    solution: jax.Array
    converged: jax.Array
    num_iterations: jax.Array


class _State(NamedTuple):
    solution: jax.Array
    misfit: jax.Array
    settled: jax.Array
    num_steps: jax.Array


def inverse(matrix: jax.Array) -> jax.Array:
    """Inverse ``(m, m)`` by Gram-Schmidt; rows of zeros for dependent columns.

    Elementary operations only, see ``least_squares.compress``.
    """
    identity = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    basis = least_squares.orthogonalize(matrix, identity)
    return least_squares.back_substitute(basis.triangle, basis.coordinates, basis.independent)


def _newton(equations: Equations, initial: jax.Array, max_iterations: int) -> _State:
    """Newton steps, each halved until the equations hold better."""
    jacobian = jax.jacfwd(equations)

    def misfit(solution: jax.Array) -> jax.Array:
        size = jnp.sum(equations(solution) ** 2)
        return jnp.where(jnp.isfinite(size), size, jnp.inf)

    def step(state: _State) -> _State:
        direction = inverse(jacobian(state.solution)) @ equations(state.solution)

        def worse(trial: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
            share, _, value = trial
            return (value >= state.misfit) & (share > 0.5**_MAX_HALVINGS)

        def halve(
            trial: tuple[jax.Array, jax.Array, jax.Array],
        ) -> tuple[jax.Array, jax.Array, jax.Array]:
            share = 0.5 * trial[0]
            moved = state.solution - share * direction
            return share, moved, misfit(moved)

        full = state.solution - direction
        _, moved, value = lax.while_loop(
            worse, halve, (jnp.ones((), initial.dtype), full, misfit(full))
        )
        better = value < state.misfit
        return _State(
            jnp.where(better, moved, state.solution),
            jnp.where(better, value, state.misfit),
            ~better,
            state.num_steps + 1,
        )

    def going_on(state: _State) -> jax.Array:
        return ~state.settled & (state.num_steps < max_iterations)

    start = _State(initial, misfit(initial), jnp.zeros((), bool), jnp.int32(0))
    return lax.while_loop(going_on, step, start)


def find_root(equations: Equations, initial: jax.Array, max_iterations: int = 50) -> Root:
    """Solve ``equations(u) = 0`` by damped Newton steps from ``initial``.

    Differentiable in everything that ``equations`` closes over, not in ``initial``.

    Args:
      equations: takes ``(m,)`` to ``(m,)``; both of order one near the solution.
      initial: ``(m,)``.
      max_iterations: most Newton steps (static).

    Returns:
      A ``Root``: the equations hold to ``tolerances.EQUATION``, or the solution is ``initial``.
    """

    def solve(function: Equations, start: jax.Array) -> _Outcome:
        final = _newton(function, start, max_iterations)
        converged = final.misfit <= tolerances.EQUATION(start.dtype) ** 2
        # Far away derivatives may overflow; those of no solution are not wanted anyway.
        return _outcome(jnp.where(converged, final.solution, start), converged, final.num_steps)

    return _custom_root(equations, initial, solve)


def fixed_point(update: Equations, initial: jax.Array, max_iterations: int) -> Root:
    """Iterate ``u = update(u)`` until no entry moves by more than the root of the precision.

    Differentiable in everything that ``update`` closes over, not in ``initial``.

    Args:
      update: takes ``(m,)`` to ``(m,)``, in units in which a change of one matters.
      initial: ``(m,)``.
      max_iterations: most iterations (static).

    Returns:
      A ``Root``.
    """
    resolution = tolerances.STEP(initial.dtype)

    def enough(solution: jax.Array, gap: jax.Array) -> jax.Array:
        rounding = tolerances.SETTLED(initial.dtype) * jnp.abs(solution)
        return jnp.all(jnp.abs(gap) <= jnp.maximum(resolution, rounding))

    def solve(function: Equations, start: jax.Array) -> _Outcome:
        def step(state: _State) -> _State:
            gap = function(state.solution)
            moved = state.solution - gap
            return _State(moved, state.misfit, enough(moved, gap), state.num_steps + 1)

        def going_on(state: _State) -> jax.Array:
            return ~state.settled & (state.num_steps < max_iterations)

        begin = _State(start, jnp.zeros((), start.dtype), jnp.zeros((), bool), jnp.int32(0))
        final = lax.while_loop(going_on, step, begin)
        return _outcome(final.solution, final.settled, final.num_steps)

    def gap(solution: jax.Array) -> jax.Array:
        return solution - update(solution)

    return _custom_root(gap, initial, solve)


def _outcome(solution: jax.Array, converged: jax.Array, num_steps: jax.Array) -> _Outcome:
    """What stands beside a root must be floating-point to pass through ``custom_root``."""
    return solution, (converged.astype(solution.dtype), num_steps.astype(solution.dtype))


def _custom_root(equations: Equations, initial: jax.Array, solve: Callable[..., _Outcome]) -> Root:
    def solve_tangent(linear: Equations, target: jax.Array) -> jax.Array:
        return inverse(jax.jacfwd(linear)(jnp.zeros_like(target))) @ target

    solution, (converged, num_steps) = lax.custom_root(
        equations, lax.stop_gradient(initial), solve, solve_tangent, has_aux=True
    )
    return Root(solution, converged > 0, num_steps.astype(jnp.int32))
