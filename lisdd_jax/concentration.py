"""The search for a least-trimmed-squares fit: random starts and concentration steps.

FAST-LTS (Rousseeuw and Van Driessen, 2006): many fits to a minimal random subset, a few
concentration steps each, the best ones to convergence. With many rows the starts are ranked on a
subsample, the best ones make two steps on all rows, and the two that lead then go on there.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax import elemental
from lisdd_jax.numerics import normal_equations, order
from lisdd_jax.status import Status, first_failure, status_if

_MAX_CONCENTRATIONS = 500
_FIRST_STEPS = 2
# On a subsample steps are cheap, and each saves one on all rows.
_SUBSAMPLE_STEPS = 5
_NUM_LEADING = 2


class _Candidates(NamedTuple):
    solutions: jax.Array
    objectives: jax.Array


def _distances(rows: elemental.Rows, solutions: jax.Array) -> jax.Array:
    """Absolute residuals ``(S, m)``; infinite for rows out of use."""
    residuals = rows.response - solutions @ rows.basis.T
    return jnp.where(rows.usable, jnp.abs(residuals), jnp.inf)


def _weighted_fits(
    rows: elemental.Rows, solutions: jax.Array, distances: jax.Array, weights: jax.Array
) -> _Candidates:
    """Least squares with weights for all candidates, and their objectives before it."""
    squares = jnp.where(rows.usable, distances**2, 0.0)
    size = rows.basis.shape[1]
    # One matrix product gives the normal equations of all candidates.
    tables = elemental.unpack(weights @ rows.products, size + 1)
    fit = normal_equations.sweep(tables[:, :size, :size], tables[:, :size, size])
    determined = jnp.all(fit.independent, axis=-1, keepdims=True)
    objectives = jnp.einsum("sm,sm->s", weights, squares)
    return _Candidates(jnp.where(determined, fit.solution, solutions), objectives)


class _Picked(NamedTuple):
    """Weights ``(S, m)`` of the rows kept, threshold ``(S,)``, and rows missing ``(S,)``."""

    weights: jax.Array
    threshold: jax.Array
    missing: jax.Array


def _pick(distances: jax.Array, num: jax.Array) -> _Picked:
    weights, threshold = jax.vmap(order.smallest_weights, (0, None))(distances, num)
    return _Picked(weights, threshold, jnp.zeros(distances.shape[0], jnp.int32))


def _pick_roughly(distances: jax.Array, num: jax.Array) -> _Picked:
    kept, threshold, missing = jax.vmap(order.roughly_smallest, (0, None))(distances, num)
    return _Picked(kept.astype(distances.dtype), threshold, missing)


def _first_steps(
    rows: elemental.Rows,
    solutions: jax.Array,
    num: jax.Array,
    num_steps: int,
    pick: Callable[[jax.Array, jax.Array], _Picked],
) -> _Candidates:
    """So many concentration steps for all, and one more that gives the objectives of the last."""

    def step(_: int, state: tuple[jax.Array, _Candidates]) -> tuple[jax.Array, _Candidates]:
        solutions = state[0]
        distances = _distances(rows, solutions)
        picked = pick(distances, num)
        moved = _weighted_fits(rows, solutions, distances, picked.weights)
        # Rows too few or too many count with the residual at the threshold.
        objectives = moved.objectives + picked.missing * picked.threshold**2
        return moved.solutions, _Candidates(solutions, objectives)

    start = _Candidates(solutions, jnp.full(solutions.shape[0], jnp.inf, solutions.dtype))
    return lax.fori_loop(0, num_steps + 1, step, (solutions, start))[1]


class _Descent(NamedTuple):
    """Candidates on their way: best so far, next trial, threshold, who still improves, steps."""

    best: _Candidates
    trial: jax.Array
    threshold: jax.Array
    active: jax.Array
    step: jax.Array


def _advance(rows: elemental.Rows, state: _Descent, num: jax.Array, chosen: jax.Array) -> _Descent:
    """One exact step for the chosen candidates ``(b,)``."""
    trial = state.trial[chosen]
    distances = _distances(rows, trial)
    weights, threshold = jax.vmap(order.smallest_weights, (0, None, 0))(
        distances, num, state.threshold[chosen]
    )
    moved = _weighted_fits(rows, trial, distances, weights)
    # Who has stopped stays where it is, though the batch carries it along.
    better = (moved.objectives < state.best.objectives[chosen]) & state.active[chosen]
    solutions = jnp.where(better[:, None], trial, state.best.solutions[chosen])
    objectives = jnp.where(better, moved.objectives, state.best.objectives[chosen])
    best = _Candidates(
        state.best.solutions.at[chosen].set(solutions),
        state.best.objectives.at[chosen].set(objectives),
    )
    return _Descent(
        best,
        state.trial.at[chosen].set(moved.solutions),
        state.threshold.at[chosen].set(threshold),
        state.active.at[chosen].set(better),
        state.step + chosen.shape[0],
    )


def _converge(
    rows: elemental.Rows, solutions: jax.Array, num: jax.Array, num_active: jax.Array | int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Concentrate until no objective falls any more; it falls over finitely many subsets.

    The first ``num_active`` candidates move, the others are left out.

    On a CPU one candidate after the other: the rows' values of one stay in cache, and none waits
    for the slowest; else all at once.

    Returns:
      Solution and objective of the best, and whether some candidate was still moving.
    """
    count = solutions.shape[0]
    unknown = jnp.full(count, jnp.inf, solutions.dtype)
    start = _Descent(
        _Candidates(solutions, unknown),
        solutions,
        jnp.full(count, jnp.nan, solutions.dtype),
        jnp.arange(count) < num_active,
        jnp.int32(0),
    )

    def run(next_ones: Callable[[_Descent], jax.Array]) -> Callable[[_Descent], _Descent]:
        limit = _MAX_CONCENTRATIONS * count
        return lambda start: lax.while_loop(
            lambda state: jnp.any(state.active) & (state.step < limit),
            lambda state: _advance(rows, state, num, next_ones(state)),
            start,
        )

    end = lax.platform_dependent(
        start,
        cpu=run(lambda state: jnp.argmax(state.active)[None]),
        default=run(lambda _: jnp.arange(count)),
    )
    winner = jnp.argmin(end.best.objectives)
    return end.best.solutions[winner], end.best.objectives[winner], jnp.any(end.active)


def _best(candidates: _Candidates, good: jax.Array, num: int) -> jax.Array:
    objectives = jnp.where(
        good & jnp.isfinite(candidates.objectives), candidates.objectives, jnp.inf
    )
    return candidates.solutions[lax.top_k(-objectives, num)[1]]


def _rank(
    rows: elemental.Rows,
    solutions: jax.Array,
    good: jax.Array,
    num: jax.Array,
    num_steps: int,
    num_best: int,
) -> jax.Array:
    """The best candidates after a few rough steps, in single precision, which is enough to rank."""
    largest = jnp.max(jnp.abs(rows.response))
    scale = jnp.where(largest > 0, largest, 1.0)
    columns = jnp.column_stack([rows.basis, (rows.response / scale)[:, None]]).astype(jnp.float32)
    single = elemental.make_rows(columns[:, :-1], columns[:, -1], rows.usable)
    start = (solutions / scale).astype(jnp.float32)
    moved = _first_steps(single, start, num, num_steps, _pick_roughly)
    return _best(moved, good, num_best).astype(rows.basis.dtype) * scale


def search(
    key: jax.Array,
    basis: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    trim: jax.Array | float,
    *,
    num_starts: int,
    num_candidates: int = 20,
    subsample_size: int = 300,
    full_search_rows: int = 600,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The search itself, in a well-conditioned basis.

    Args:
      key: typed key.
      basis: ``(n, p)``.
      response: ``(n,)``.
      mask: ``(n,)`` bool, rows in use.
      trim: share of rows left out.
      num_starts, num_candidates, subsample_size, full_search_rows: sizes of the search (static).

    Returns:
      Solution ``(p,)`` in the basis, objective, and status.
    """
    keys = jax.random.split(key, 1 + elemental.MAX_DRAWS)
    rows = elemental.make_rows(basis, response, mask)
    table, count = elemental.row_table(mask)
    num = order.num_kept(count, trim, basis.dtype)
    num_candidates = min(num_candidates, num_starts)
    if basis.shape[0] > full_search_rows:
        judge = elemental.subsample(keys[0], rows, table, count, subsample_size)
        everyone = jnp.arange(subsample_size, dtype=jnp.int32)
        judge_count = jnp.sum(judge.usable, dtype=jnp.int32)
        judge_num = order.num_kept(judge_count, trim, basis.dtype)
        solutions, good = elemental.draw_starts(keys[1:], judge, everyone, judge_count, num_starts)
        chosen = _rank(judge, solutions, good, judge_num, _SUBSAMPLE_STEPS, num_candidates)
        everyone_good = jnp.ones(num_candidates, bool)
        chosen = _rank(rows, chosen, everyone_good, num, _FIRST_STEPS, num_candidates)
        # Of few rows, padded to this shape, minima lie too close for a rough ranking.
        num_active = jnp.where(count <= full_search_rows, num_candidates, _NUM_LEADING)
    else:
        solutions, good = elemental.draw_starts(keys[1:], rows, table, count, num_starts)
        first = _first_steps(rows, solutions, num, _FIRST_STEPS, _pick)
        chosen, num_active = _best(first, good, num_candidates), jnp.int32(num_candidates)
    solution, objective, unfinished = _converge(rows, chosen, num, num_active)
    status = first_failure(
        status_if(~jnp.any(good), Status.DEGENERATE_STARTS),
        status_if(unfinished, Status.ITERATION_LIMIT),
    )
    return solution, objective, status
