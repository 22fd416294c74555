"""A robust start for a model that is non-linear in its parameters: several descents, the best wins.

The objective is that of least trimmed squares, of the model itself. It has many minima: those of
the curvature, which lead to other parameters, and those of the choice of rows. So descents start
from parameters spread about the given ones, and the end of the best goes on by steps that search
the regime anew in the model linearised there.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.hybrid import descent
from lisdd_jax.hybrid.descent import Descent
from lisdd_jax.hybrid.linearization import LinearizedModel
from lisdd_jax.numerics import order, scaling, tolerances
from lisdd_jax.numerics.frame import to_frame
from lisdd_jax.statistics.trimmed.search import search_one

_MAX_HALVINGS = 12
_LEAST_DECREASE = 1e-3
# Shares of the unit of a parameter over which starts spread, by turns.
_SPREADS = (0.3, 1.0, 3.0, 10.0)
# Objectives of minima that differ in the choice of rows lie within a few per cent of each other.
_SAME_LEVEL = 1.1
# How many times as high the next minimum must be where most descents agree, where the given one or
# two others do, and where a single one does. Wrong laws have many minima of about one height.
_APART_FOR_MOST, _APART_FOR_SOME, _APART_FOR_ONE = 1.5, 3.0, 100.0


class RobustStart(NamedTuple):
    """Parameters from which the diagnosis may begin.

    Attributes:
      theta: ``(p,)`` the best end.
      objective: trimmed sum of squares there.
      num_agreeing: int32, descents from different starts that ended as low, within a tenth.
      trusted: bool, the next minimum is so much higher that this is not one of many.
    """

    theta: jax.Array
    objective: jax.Array
    num_agreeing: jax.Array
    trusted: jax.Array


class _TrimmedSquares:
    """Least trimmed squares of the model: the residuals and how they are weighed."""

    def __init__(self, problem: LinearizedModel) -> None:
        self.problem = problem
        count = jnp.sum(problem.mask, dtype=jnp.int32)
        self.num = order.num_kept(count, problem.start.trim, problem.arrays["response"].dtype)

    def weigh(self, left: jax.Array) -> jax.Array:
        squares = jnp.where(self.problem.mask & ~jnp.isnan(left), left**2, jnp.inf)
        weights, _ = order.smallest_weights(squares, self.num)
        return weights

    def objective(self, theta: jax.Array) -> jax.Array:
        return descent.objective(self.problem.residual, self.weigh, theta)


def spread(
    key: jax.Array, problem: LinearizedModel, theta: jax.Array, num_starts: int
) -> jax.Array:
    """Starts ``(num_starts, p)``, the given one first and the others normal about it.

    The unit of a parameter is by turns its own size and the change that moves the predictions by as
    much as the response varies; where one is zero or not finite, the other.
    """
    design, response = jax.jacfwd(problem.predicted)(theta), problem.arrays["response"]
    response = jnp.where(problem.mask, response, 0.0)
    effect = scaling.root(jnp.sum(design**2, axis=0))
    by_effect = scaling.root(jnp.sum(response**2)) / jnp.where(effect > 0, effect, jnp.inf)
    sizes = jnp.stack([jnp.abs(theta), by_effect])
    sizes = jnp.where(jnp.isfinite(sizes) & (sizes > 0), sizes, 0.0)
    sizes = jnp.where(sizes > 0, sizes, sizes[::-1])
    sizes = jnp.where(sizes > 0, sizes, 1.0)
    turn = jnp.arange(num_starts - 1)
    shares = jnp.asarray(_SPREADS, theta.dtype)[turn // 2 % len(_SPREADS)]
    normal = jax.random.normal(key, (num_starts - 1, theta.shape[0]), theta.dtype)
    others = theta[None] + shares[:, None] * sizes[turn % 2] * normal
    return jnp.concatenate([theta[None], others])


class _Search(NamedTuple):
    theta: jax.Array
    objective: jax.Array
    settled: jax.Array
    num_steps: jax.Array


def _halved(
    squares: _TrimmedSquares, theta: jax.Array, direction: jax.Array, before: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The step, halved until the objective falls; the parameters stay where it does not."""

    def going_on(trial: tuple[jax.Array, jax.Array]) -> jax.Array:
        share, value = trial
        return ~(value < before) & (share > 0.5**_MAX_HALVINGS)

    def halve(trial: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        share = trial[0] / 2
        return share, squares.objective(theta + share * direction)

    whole = jnp.ones((), theta.dtype)
    share, value = lax.while_loop(going_on, halve, (whole, squares.objective(theta + direction)))
    better = value < before
    moved = jnp.where(better, theta + share * direction, theta)
    return moved, jnp.where(better, value, before)


def _search_anew(
    key: jax.Array, squares: _TrimmedSquares, theta: jax.Array, max_iterations: int
) -> Descent:
    """Damped steps to the least trimmed squares of the linearised model, whose search is global."""
    problem = squares.problem

    def step(state: _Search) -> _Search:
        design, left = jax.jacfwd(problem.predicted)(state.theta), problem.residual(state.theta)
        frame, basis, centered = to_frame(design, left, problem.mask)
        solution = search_one(
            key,
            (basis, centered, problem.mask),
            problem.start.trim,
            num_starts=problem.start.num_starts,
            num_candidates=10,
        ).solution
        direction = frame.coefficients(solution)
        theta, value = _halved(squares, state.theta, direction, state.objective)
        enough = value < (1 - _LEAST_DECREASE) * state.objective
        return _Search(theta, value, ~enough, state.num_steps + 1)

    def going_on(state: _Search) -> jax.Array:
        return ~state.settled & (state.num_steps < max_iterations)

    start = _Search(theta, squares.objective(theta), jnp.zeros((), bool), jnp.int32(0))
    final = lax.while_loop(going_on, step, start)
    return Descent(final.theta, final.objective, final.settled)


def robust_start(
    key: jax.Array,
    problem: LinearizedModel,
    theta: jax.Array,
    num_starts: int,
    max_iterations: int,
) -> RobustStart:
    """The best of several descents.

    Args:
      key: of the spread and the searches.
      problem: the model and the data.
      theta: ``(p,)`` given parameters.
      num_starts: descents, that from the given parameters included (static).
      max_iterations: most steps of each (static).

    Returns:
      A ``RobustStart``.
    """
    key_spread, key_search = jax.random.split(key)
    squares = _TrimmedSquares(problem)
    starts = spread(key_spread, problem, theta, num_starts)

    def down(start: jax.Array) -> Descent:
        return descent.descend(problem.residual, squares.weigh, start, max_iterations)

    def anew(start: jax.Array) -> Descent:
        return _search_anew(key_search, squares, start, max_iterations)

    ends = lax.map(down, starts)
    best = ends.unknown[jnp.argmin(ends.objective)]
    # The search also leads away from minima that are due to the choice of rows.
    searched = lax.map(anew, jnp.stack([theta, best]))
    chosen = jnp.argmin(searched.objective)
    agreeing, trusted = _agreement(problem, ends, searched.objective)
    return RobustStart(searched.unknown[chosen], searched.objective[chosen], agreeing, trusted)


def _agreement(
    problem: LinearizedModel, ends: Descent, searched: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """How many descents ended at the lowest objective, and whether that tells it from a local one.

    Args:
      problem: the data, for the rounding of their squares.
      ends: of ``num_starts`` descents, that of the given parameters first.
      searched: ``(2,)`` of the searches from the given parameters and from the best end.
    """
    response = jnp.where(problem.mask, problem.arrays["response"], 0.0)
    rounding = tolerances.NOISE_FLOOR(response.dtype) ** 2 * jnp.sum(response**2)
    lowest = jnp.min(searched)
    level = _SAME_LEVEL * lowest + rounding
    own = jnp.minimum(ends.objective[0], searched[0]) <= level
    others = jnp.sum(ends.objective[1:] <= level, dtype=jnp.int32)
    agreeing = others + own.astype(jnp.int32)
    # A descent that was broken off near the lowest level may be on its way there.
    near = ends.objective <= _APART_FOR_SOME * level
    rivals = jnp.where((ends.objective > level) & (ends.settled | ~near), ends.objective, jnp.inf)
    apart = jnp.min(rivals) / jnp.where(level > 0, level, 1.0)
    trusted = (
        (apart >= _APART_FOR_ONE)
        | ((apart >= _APART_FOR_SOME) & (own | (others > 1)))
        | ((apart >= _APART_FOR_MOST) & (2 * agreeing > rivals.shape[0]))
    )
    return agreeing, trusted & jnp.isfinite(lowest)
