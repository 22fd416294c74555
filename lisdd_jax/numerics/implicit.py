"""Solutions of small systems of equations, differentiated by the implicit function theorem.

The iterations that find a solution carry no derivative: where ``g(u, data) = 0``,
``du = -(dg/du)^-1 dg/ddata``, whatever path led there. Forward and reverse mode, any order.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from lisdd_jax.numerics import least_squares, tolerances

Equations = Callable[[jax.Array], jax.Array]
_Evaluation = Callable[[jax.Array], tuple[jax.Array, Any]]
_MAX_HALVINGS = 40


class Root(NamedTuple):
    """A solution ``(m,)``, whether the equations hold there, and the iterations made."""

    solution: jax.Array
    converged: jax.Array
    num_iterations: jax.Array


_Outcome = tuple[Root, Any]
_Solver = Callable[[_Evaluation, jax.Array], _Outcome]


class _State(NamedTuple):
    """Best solution so far and its misfit; which share of which direction is tried next."""

    solution: jax.Array
    misfit: jax.Array
    direction: jax.Array
    share: jax.Array
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
    """Newton steps, each halved until the equations hold better.

    Every turn evaluates equations and Jacobian at one trial, so that they are compiled once.
    """

    def twice(unknown: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = equations(unknown)
        return value, value

    def turn(state: _State) -> _State:
        trial = state.solution - state.share * state.direction
        jacobian, value = jax.jacfwd(twice, has_aux=True)(trial)
        size = jnp.sum(value**2)
        better = size < state.misfit
        share = jnp.where(better, 1.0, 0.5 * state.share)
        # Where a step is lost in rounding, so is every shorter one.
        lost = jnp.all(trial == state.solution)
        return _State(
            jnp.where(better, trial, state.solution),
            jnp.where(better, size, state.misfit),
            jnp.where(better, inverse(jacobian) @ value, state.direction),
            share,
            ~better & (lost | (share < 0.5**_MAX_HALVINGS)),
            state.num_steps + better.astype(jnp.int32),
        )

    def going_on(state: _State) -> jax.Array:
        return ~state.settled & (state.num_steps <= max_iterations)

    nowhere = jnp.full((), jnp.inf, initial.dtype)
    start = _State(
        initial,
        nowhere,
        jnp.zeros_like(initial),
        jnp.ones_like(nowhere),
        jnp.zeros((), bool),
        jnp.int32(0),
    )
    return lax.while_loop(going_on, turn, start)


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

    def solve(evaluate: _Evaluation, start: jax.Array) -> tuple[Root, None]:
        final = _newton(lambda unknown: evaluate(unknown)[0], start, max_iterations)
        converged = final.misfit <= tolerances.EQUATION(start.dtype) ** 2
        # Far away derivatives may overflow; those of no solution are not wanted anyway.
        solution = jnp.where(converged, final.solution, start)
        return Root(solution, converged, final.num_steps), None

    return _at_the_root(lambda unknown: (equations(unknown), None), initial, solve)[0]


class _Turn(NamedTuple):
    solution: jax.Array
    found: Any
    settled: jax.Array
    last: jax.Array
    num: jax.Array


def fixed_point(update: _Evaluation, initial: jax.Array, max_iterations: int) -> tuple[Root, Any]:
    """Iterate ``u, _ = update(u)`` until no entry moves by more than the root of the precision.

    Differentiable in everything that ``update`` closes over, not in ``initial``. One program of
    ``update`` serves the iteration and what is found at its end.

    Args:
      update: takes ``(m,)``, in units in which a change of one matters, to the next ``(m,)`` and to
        any arrays found on the way.
      initial: ``(m,)``.
      max_iterations: most iterations that move the solution (static).

    Returns:
      A ``Root``, whose iterations are the calls of ``update``, and what that found there.
    """
    resolution = tolerances.STEP(initial.dtype)

    def enough(solution: jax.Array, gap: jax.Array) -> jax.Array:
        rounding = tolerances.SETTLED(initial.dtype) * jnp.abs(solution)
        return jnp.all(jnp.abs(gap) <= jnp.maximum(resolution, rounding))

    def solve(evaluate: _Evaluation, start: jax.Array) -> tuple[Root, Any]:
        def turn(state: _Turn) -> _Turn:
            gap, found = evaluate(state.solution)
            last = state.settled | (state.num >= max_iterations)
            moved = jnp.where(last, state.solution, state.solution - gap)
            settled = jnp.where(last, state.settled, enough(moved, gap))
            return _Turn(moved, found, settled, last, state.num + 1)

        no = jnp.zeros((), bool)
        nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(evaluate, start)[1])
        begin = _Turn(start, nothing, no, no, jnp.int32(0))
        final = lax.while_loop(lambda state: ~state.last, turn, begin)
        return Root(final.solution, final.settled, final.num), final.found

    def evaluate(solution: jax.Array) -> tuple[jax.Array, Any]:
        moved, found = update(solution)
        return solution - moved, found

    return _at_the_root(evaluate, initial, solve)


def _at_the_root(evaluate: _Evaluation, initial: jax.Array, solve: _Solver) -> _Outcome:
    """What ``solve`` says of ``evaluate``, with derivatives from one evaluation at the solution.

    Args:
      evaluate: takes ``(m,)`` to equations ``(m,)``, zero at the solution, and anything beside.
      initial: ``(m,)``, taken as constant.
      solve: from both the root, and what stands beside the equations there.
    """
    traced, shapes = jax.make_jaxpr(evaluate, return_shape=True)(initial)
    tree = jax.tree.structure(shapes)

    def given(captured: Sequence[Any]) -> _Evaluation:
        def evaluate(unknown: jax.Array) -> Any:
            return jax.tree.unflatten(tree, jax.core.eval_jaxpr(traced.jaxpr, captured, unknown))

        return evaluate

    @jax.custom_jvp
    def solved(start: jax.Array, *captured: Any) -> _Outcome:
        return solve(given(captured), start)

    def derive(arguments: Any, changes: Any) -> tuple[_Outcome, _Outcome]:
        outcome, captured = solved(*arguments), arguments[1:]
        moves = [not isinstance(change, SymbolicZero) for change in changes[1:]]

        def floats(unknown: jax.Array, moved: list[Any]) -> list[jax.Array]:
            values = iter(moved)
            parts = [next(values) if m else c for c, m in zip(captured, moves, strict=True)]
            return list(filter(_is_float, jax.tree.leaves(given(parts)(unknown))))

        data, by = (list(compress(parts, moves)) for parts in (captured, changes[1:]))
        tangents = iter(_implicit_tangents(floats, outcome[0].solution, data, by))
        return outcome, jax.tree.map(
            lambda leaf: (
                next(tangents) if _is_float(leaf) else np.zeros(leaf.shape, jax.dtypes.float0)
            ),
            outcome,
        )

    solved.defjvp(derive, symbolic_zeros=True)
    outcome: _Outcome = solved(lax.stop_gradient(initial), *traced.consts)
    return outcome


def _is_float(array: jax.Array) -> bool:
    return jnp.issubdtype(array.dtype, jnp.inexact)


def _implicit_tangents(
    function: Callable[..., list[jax.Array]], solution: jax.Array, data: list[Any], by: list[Any]
) -> list[jax.Array]:
    """Tangents of the solution and of what stands behind the equations in ``function``."""
    _, linear = jax.linearize(function, solution, data)
    still = jax.tree.map(jnp.zeros_like, data)
    around = jax.vmap(lambda move: linear(move, still))(
        jnp.eye(len(solution), dtype=solution.dtype)
    )
    along = linear(jnp.zeros_like(solution), by)
    moved = -inverse(around[0].T) @ along[0]
    return [
        moved,
        *(a + jnp.tensordot(moved, b, 1) for a, b in zip(along[1:], around[1:], strict=True)),
    ]
