"""The search for a least-trimmed-squares fit: random starts and concentration steps.

FAST-LTS (Rousseeuw and Van Driessen, 2006): many fits to a minimal random subset, two concentration
steps each, the best ones to convergence. With many rows this happens on a subsample, and only the
ends that lead on all rows go on there.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import least_squares, order
from lisdd_jax.status import Status, first_failure, status_if

_MAX_REDRAWS = 50
_MAX_CONCENTRATIONS = 500
_FIRST_CONCENTRATIONS = 2


class _Rows(NamedTuple):
    """Rows in the basis: ``basis (m, p)``, ``response (m,)``, ``usable (m,)``, ``products``."""

    basis: jax.Array
    response: jax.Array
    usable: jax.Array
    products: jax.Array


class _Candidates(NamedTuple):
    solutions: jax.Array
    objectives: jax.Array


def _pairs(num: int) -> tuple[jax.Array, jax.Array]:
    pairs = list(itertools.combinations_with_replacement(range(num), 2))
    return jnp.array([i for i, _ in pairs]), jnp.array([j for _, j in pairs])


def _unpack(products: jax.Array, num: int) -> jax.Array:
    rows, others = _pairs(num)
    matrix = jnp.zeros((*products.shape[:-1], num, num), products.dtype)
    matrix = matrix.at[..., rows, others].set(products)
    return matrix.at[..., others, rows].set(products)


def _make_rows(basis: jax.Array, response: jax.Array, usable: jax.Array) -> _Rows:
    columns = jnp.where(usable[:, None], jnp.column_stack([basis, response]), 0.0)
    rows, others = _pairs(columns.shape[1])
    return _Rows(columns[:, :-1], columns[:, -1], usable, columns[:, rows] * columns[:, others])


def _squared_residuals(rows: _Rows, solutions: jax.Array) -> jax.Array:
    residuals = rows.response - solutions @ rows.basis.T
    return jnp.where(rows.usable, residuals**2, jnp.inf)


def _concentrate(rows: _Rows, solutions: jax.Array, num: jax.Array) -> _Candidates:
    """One concentration step for all candidates, and the objectives before it."""
    squares = _squared_residuals(rows, solutions)
    weights, objectives = jax.vmap(order.smallest_weights, (0, None))(squares, num)
    size = rows.basis.shape[1]
    # One matrix product gives the normal equations of all candidates.
    tables = _unpack(weights @ rows.products, size + 1)
    fit = least_squares.sweep(tables[:, :size, :size], tables[:, :size, size])
    determined = jnp.all(fit.independent, axis=-1, keepdims=True)
    return _Candidates(jnp.where(determined, fit.solution, solutions), objectives)


def _first_steps(rows: _Rows, solutions: jax.Array, num: jax.Array) -> _Candidates:
    """Two concentration steps; the third gives the objectives of the second."""

    def step(_: int, state: tuple[jax.Array, _Candidates]) -> tuple[jax.Array, _Candidates]:
        solutions = state[0]
        moved = _concentrate(rows, solutions, num)
        return moved.solutions, _Candidates(solutions, moved.objectives)

    start = _Candidates(solutions, jnp.full(solutions.shape[0], jnp.inf, solutions.dtype))
    return lax.fori_loop(0, _FIRST_CONCENTRATIONS + 1, step, (solutions, start))[1]


def _converge(rows: _Rows, solutions: jax.Array, num: jax.Array) -> tuple[_Candidates, jax.Array]:
    """Concentrate until no objective falls any more; it falls over finitely many subsets."""

    class State(NamedTuple):
        best: _Candidates
        trial: jax.Array
        active: jax.Array
        step: jax.Array

    def body(state: State) -> State:
        moved = _concentrate(rows, state.trial, num)
        better = moved.objectives < state.best.objectives
        best = _Candidates(
            jnp.where(better[:, None], state.trial, state.best.solutions),
            jnp.where(better, moved.objectives, state.best.objectives),
        )
        return State(best, moved.solutions, better, state.step + 1)

    num_candidates = solutions.shape[0]
    unknown = jnp.full(num_candidates, jnp.inf, solutions.dtype)
    start = State(
        _Candidates(solutions, unknown), solutions, jnp.ones(num_candidates, bool), jnp.int32(0)
    )
    end = lax.while_loop(lambda s: jnp.any(s.active) & (s.step < _MAX_CONCENTRATIONS), body, start)
    return end.best, jnp.any(end.active)


def _for_each(function: Callable[[jax.Array], Any], solutions: jax.Array) -> Any:
    """Apply a function of ``(1, p)`` to every candidate: in turn on a CPU, else all at once.

    In turn, the rows' values of one candidate stay in cache, and none waits for the slowest.
    """
    each = solutions[:, None, :]
    return lax.platform_dependent(
        each, cpu=lambda each: lax.map(function, each), default=jax.vmap(function)
    )


def _lead(rows: _Rows, solutions: jax.Array, num: jax.Array, num_kept: int) -> jax.Array:
    """The candidates with the lowest objectives on all rows, one step on."""
    moved = _for_each(lambda one: _concentrate(rows, one, num), solutions)
    candidates = _Candidates(moved.solutions[:, 0], moved.objectives[:, 0])
    return _best(candidates, jnp.ones(solutions.shape[0], bool), num_kept)


def _row_table(mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Positions of the rows in use, first; and their count."""
    positions = jnp.nonzero(mask, size=mask.shape[0], fill_value=0)[0]
    return positions, jnp.sum(mask, dtype=jnp.int32)


def _elemental_starts(key: jax.Array, rows: _Rows, num_starts: int) -> tuple[jax.Array, jax.Array]:
    """Exact fits through ``p`` random rows; subsets that do not determine a fit are redrawn."""
    table, count = _row_table(rows.usable)
    size = rows.basis.shape[1]

    def fit(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        ranks = jax.random.randint(key, (num_starts, size), 0, jnp.maximum(count, 1))
        chosen = table[ranks]
        basis, response = rows.basis[chosen], rows.response[chosen]
        gram = jnp.einsum("sri,srj->sij", basis, basis)
        moment = jnp.einsum("sri,sr->si", basis, response)
        swept = least_squares.sweep(gram, moment, tolerance=float(jnp.finfo(gram.dtype).eps) ** 0.5)
        return swept.solution, jnp.all(swept.independent, axis=-1)

    def redraw(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        solutions, good, attempt = state
        fresh, fresh_good = fit(jax.random.fold_in(key, attempt))
        return jnp.where(good[:, None], solutions, fresh), good | fresh_good, attempt + 1

    nothing = jnp.zeros((num_starts, size), rows.basis.dtype)
    start = (nothing, jnp.zeros(num_starts, bool), jnp.int32(0))
    solutions, good, _ = lax.while_loop(
        lambda s: ~jnp.all(s[1]) & (s[2] < _MAX_REDRAWS), redraw, start
    )
    return solutions, good


def _subsample(key: jax.Array, rows: _Rows, size: int) -> _Rows:
    """One random row from each of ``size`` equal stretches of the record, so none comes twice."""
    table, count = _row_table(rows.usable)
    offsets = jnp.arange(size) + jax.random.uniform(key, (size,), rows.response.dtype)
    ranks = jnp.floor(offsets * (count / size)).astype(jnp.int32)
    chosen = table[jnp.clip(ranks, 0, jnp.maximum(count - 1, 0))]
    return _make_rows(rows.basis[chosen], rows.response[chosen], rows.usable[chosen])


def _best(candidates: _Candidates, good: jax.Array, num: int) -> jax.Array:
    objectives = jnp.where(
        good & jnp.isfinite(candidates.objectives), candidates.objectives, jnp.inf
    )
    return candidates.solutions[lax.top_k(-objectives, num)[1]]


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
    key_starts, key_subsample = jax.random.split(key)
    rows = _make_rows(basis, response, mask)
    count = jnp.sum(mask, dtype=jnp.int32)
    num = order.num_kept(count, trim, basis.dtype)
    nested = basis.shape[0] > full_search_rows
    judge = _subsample(key_subsample, rows, subsample_size) if nested else rows
    judge_num = order.num_kept(jnp.sum(judge.usable, dtype=jnp.int32), trim, basis.dtype)
    solutions, good = _elemental_starts(key_starts, judge, num_starts)
    first = _first_steps(judge, solutions, judge_num)
    chosen = _best(first, good, min(num_candidates, num_starts))
    if nested:
        settled, _ = _converge(judge, chosen, judge_num)
        chosen = _lead(rows, settled.solutions, num, -(-chosen.shape[0] // 3))
    candidates, unfinished = _for_each(lambda one: _converge(rows, one, num), chosen)
    winner = jnp.argmin(candidates.objectives[:, 0])
    status = first_failure(
        status_if(~jnp.any(good), Status.DEGENERATE_STARTS),
        status_if(jnp.any(unfinished), Status.ITERATION_LIMIT),
    )
    return candidates.solutions[winner, 0], candidates.objectives[winner, 0], status
