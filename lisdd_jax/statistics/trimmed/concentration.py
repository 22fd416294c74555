"""Concentration steps: fit, keep the rows that fit best, and again.

The sum of the smallest squared residuals falls with every step (Rousseeuw and Van Driessen, 2006;
docs/method.md, equation 5).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import bracket, normal_equations, order
from lisdd_jax.numerics.columns import combine
from lisdd_jax.statistics.trimmed.starts import Columns, unpack

_MAX_CONCENTRATIONS = 500


class Candidates(NamedTuple):
    """Solutions ``(S, p)``, and where they were last judged objectives and thresholds ``(S,)``."""

    solution: jax.Array
    objective: jax.Array
    threshold: jax.Array


class Picked(NamedTuple):
    """Weights ``(m,)`` of the rows kept, their threshold, and how many rows are missing."""

    weights: jax.Array
    threshold: jax.Array
    missing: jax.Array


def _distances(rows: Columns, solution: jax.Array) -> jax.Array:
    """Absolute residuals ``(m,)``; infinite for rows out of use."""
    return jnp.where(rows.usable, jnp.abs(rows.response - combine(solution, rows.basis)), jnp.inf)


def pick_exactly(distances: jax.Array, num: jax.Array, near: jax.Array) -> Picked:
    """The ``num`` smallest distances, given a guess of the threshold."""
    weights, threshold = order.smallest_weights(distances, num, near)
    return Picked(weights, threshold, jnp.int32(0))


def pick_roughly(distances: jax.Array, num: jax.Array, near: jax.Array) -> Picked:
    """About as many, which costs fewer passes."""
    kept, threshold, missing = order.roughly_smallest(distances, num, near)
    return Picked(kept.astype(distances.dtype), threshold, missing)


def _objective(distances: jax.Array, picked: Picked) -> jax.Array:
    """Sum of squares of the rows kept; missing rows count with the residual at the threshold."""
    kept = picked.weights > 0
    squares = jnp.where(kept, picked.weights * distances**2, 0.0)
    missing = picked.missing.astype(squares.dtype)
    return jnp.sum(squares) + missing * picked.threshold**2


def _refit(rows: Columns, solution: jax.Array, weights: jax.Array) -> jax.Array:
    """Least squares with weights; the old solution where they determine none."""
    size = rows.basis.shape[0]
    # Of several candidates at once this is one matrix product.
    table = unpack(rows.products @ weights, size + 1)
    fit = normal_equations.sweep(table[:size, :size], table[:size, size])
    return jnp.where(jnp.all(fit.independent), fit.solution, solution)


def first_steps(
    rows: Columns,
    start: Candidates,
    num: jax.Array,
    num_steps: int,
    pick: Callable[[jax.Array, jax.Array, jax.Array], Picked],
) -> Candidates:
    """So many concentration steps for all, and the objectives of the last."""

    @jax.vmap
    def move(solution: jax.Array, near: jax.Array) -> tuple[jax.Array, jax.Array]:
        picked = pick(_distances(rows, solution), num, near)
        return _refit(rows, solution, picked.weights), picked.threshold

    @jax.vmap
    def judge(solution: jax.Array, near: jax.Array) -> Candidates:
        distances = _distances(rows, solution)
        picked = pick(distances, num, near)
        return Candidates(solution, _objective(distances, picked), picked.threshold)

    moved = lax.fori_loop(
        0, num_steps, lambda _, state: move(*state), (start.solution, start.threshold)
    )
    return judge(*moved)


@partial(jax.vmap, in_axes=(None, 0))
def unjudged(rows: Columns, solution: jax.Array) -> Candidates:
    """Candidates with a first guess of their thresholds, the mean distance."""
    typical, _ = bracket.typical(_distances(rows, solution))
    return Candidates(solution, jnp.full_like(typical, jnp.inf), typical)


class _Descent(NamedTuple):
    """A candidate on its way: best so far, next trial, whether it still improves, steps."""

    best: Candidates
    trial: jax.Array
    active: jax.Array
    step: jax.Array


def _descend(
    rows: Columns, start: Candidates, num: jax.Array, active: jax.Array, end: jax.Array
) -> _Descent:
    """Concentrate until the objective falls no more; it falls over finitely many subsets.

    What follows from a solution depends on it alone: one that is its own refit, or the ``end (p,)``
    of another descent, is not judged again.
    """

    def advance(state: _Descent) -> _Descent:
        best, trial = state.best, state.trial
        distances = _distances(rows, trial)
        picked = pick_exactly(distances, num, best.threshold)
        judged = Candidates(trial, _objective(distances, picked), picked.threshold)
        better = judged.objective < best.objective
        moved = _refit(rows, trial, picked.weights)
        known = jnp.all(moved == trial) | jnp.all(moved == end)
        return _Descent(
            jax.tree.map(partial(jnp.where, better), judged, best),
            moved,
            better & ~known,
            state.step + 1,
        )

    unknown = jnp.full_like(start.objective, jnp.inf)
    return lax.while_loop(
        lambda state: state.active & (state.step < _MAX_CONCENTRATIONS),
        advance,
        _Descent(start._replace(objective=unknown), start.solution, active, jnp.int32(0)),
    )


def converge(
    rows: Columns, leading: Candidates, num: jax.Array, num_active: jax.Array | int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Concentrate the first ``num_active`` candidates; the others are left out.

    On a CPU one candidate after the other: the rows' values of one stay in cache, and none waits
    for the slowest; else all at once.

    Returns:
      Solution and objective of the best, and whether some candidate was still moving.
    """
    count = leading.objective.shape[0]
    yes = jnp.ones((), bool)

    def in_turn(leading: Candidates, num_active: jax.Array) -> tuple[Candidates, jax.Array]:
        def take(i: jax.Array, state: tuple[Candidates, jax.Array]) -> Any:
            best, unfinished = state
            start = jax.tree.map(lambda part: part[i], leading)
            end = _descend(rows, start, num, yes, best.solution)
            better = end.best.objective < best.objective
            best = jax.tree.map(partial(jnp.where, better), end.best, best)
            return best, unfinished | end.active

        first = jax.tree.map(lambda part: part[0], leading)
        start = first._replace(objective=jnp.full_like(first.objective, jnp.inf))
        return lax.fori_loop(0, num_active, take, (start, ~yes))

    def at_once(leading: Candidates, num_active: jax.Array) -> tuple[Candidates, jax.Array]:
        chosen = jnp.arange(count, dtype=jnp.int32) < num_active
        unknown = jnp.full_like(leading.solution[0], jnp.inf)
        descend = jax.vmap(lambda start, active: _descend(rows, start, num, active, unknown))
        end = descend(leading, chosen)
        winner = jnp.argmin(end.best.objective)
        return jax.tree.map(lambda part: part[winner], end.best), jnp.any(end.active)

    best, unfinished = lax.platform_dependent(
        leading, jnp.asarray(num_active, jnp.int32), cpu=in_turn, default=at_once
    )
    return best.solution, best.objective, unfinished


def best_of(candidates: Candidates, good: jax.Array | bool, num: int) -> Candidates:
    """Those with the lowest objectives, first the ones that are good."""
    objectives = jnp.where(good & jnp.isfinite(candidates.objective), candidates.objective, jnp.inf)
    chosen = lax.top_k(-objectives, num)[1]
    return jax.tree.map(lambda part: part[chosen], candidates)
