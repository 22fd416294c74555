"""Trajectories of a law for the rate, with an error estimate, and refused where that is large."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.hybrid.records import check_times
from lisdd_jax.hybrid.runge_kutta import Rate
from lisdd_jax.hybrid.switching import Switch, step_over
from lisdd_jax.status import Status, first_failure, status_if

Solver = Callable[[Rate, Any, jax.Array], tuple[Any, jax.Array]]


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """A simulated trajectory.

    Attributes:
      states: ``(n, ...)`` for every leaf of the state; NaN from the first failure on.
      error: as ``states``, the error estimates of all steps so far, added up: about that of the
        state where the law does not amplify differences. None under a solver of one's own.
      status: int32; ``DIVERGED`` where the state left the range of floating-point numbers, and
        ``INACCURATE`` where a step missed the tolerance or the solver gave up.
    """

    states: Any
    error: Any
    status: jax.Array


class _Course(NamedTuple):
    """After some steps: the state, its error and largest size, and whether all were accurate."""

    state: Any
    error: Any
    size: Any
    accurate: jax.Array


def _all(flags: Any) -> jax.Array:
    return jnp.all(jnp.stack([jnp.all(leaf) for leaf in jax.tree.leaves(flags)]))


def _after(course: _Course, state: Any, error: Any, tolerance: jax.Array) -> _Course:
    """The course after one more step that ends at a state."""
    size = jax.tree.map(lambda size, end: jnp.maximum(size, jnp.abs(end)), course.size, state)

    def small(error: jax.Array, size: jax.Array) -> jax.Array:
        # Infinite errors pass where no limit is wanted; NaN never does.
        limit = tolerance.astype(size.dtype)
        return (error <= limit * size) | (jnp.isinf(limit) & ~jnp.isnan(error))

    accurate = course.accurate & _all(jax.tree.map(small, error, size))
    return _Course(state, jax.tree.map(jnp.add, course.error, error), size, accurate)


def _own_steps(
    rate: Rate,
    initial: Any,
    times: jax.Array,
    num_substeps: int,
    switch: Switch | None,
    tolerance: jax.Array,
) -> tuple[Any, Any, jax.Array]:
    """States and errors at all times, and ``(n,)`` whether all steps up to them were accurate."""

    def step(course: _Course, span: tuple[jax.Array, jax.Array]) -> tuple[_Course, None]:
        state, error = step_over(rate, switch, span[0], course.state, span[1])
        return _after(course, state, lax.stop_gradient(error), tolerance), None

    def advance(course: _Course, ends: tuple[jax.Array, jax.Array]) -> tuple[_Course, Any]:
        start, stop = ends
        length = (stop - start) / num_substeps
        begins = start + length * jnp.arange(num_substeps, dtype=times.dtype)
        course, _ = lax.scan(step, course, (begins, jnp.broadcast_to(length, begins.shape)))
        return course, (course.state, course.error, course.accurate)

    nothing = jax.tree.map(jnp.zeros_like, initial)
    sizes = jax.tree.map(lambda leaf: lax.stop_gradient(jnp.abs(leaf)), initial)
    course = _Course(initial, nothing, sizes, jnp.ones((), bool))
    _, later = lax.scan(advance, course, (times[:-1], times[1:]))
    first = (initial, nothing, course.accurate)
    joined: tuple[Any, Any, jax.Array] = jax.tree.map(
        lambda first, rest: jnp.concatenate([first[None], rest]), first, later
    )
    return joined


def _solved(solver: Solver, rate: Rate, initial: Any, times: jax.Array) -> tuple[Any, jax.Array]:
    """What a solver gives, of the shape that is required."""
    states, succeeded = solver(rate, initial, times)
    shapes = [
        jax.tree.map(lambda leaf, lead=lead: (*lead, *jnp.shape(leaf)), tree)
        for tree, lead in ((initial, times.shape), (states, ()))
    ]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"solver must give states of shape {shapes[0]}, one per time, got {shapes[1]}"
        )
    return states, jnp.asarray(succeeded, bool)


@jax.jit
def _judge(states: Any, error: Any, accurate: jax.Array) -> Rollout:
    """Show states up to the first that is not known, and say why.

    Args:
      states, error: trees of arrays ``(n, ...)``; ``error`` None from a solver, which has none.
      accurate: ``(n,)`` bool.
    """

    def finite(leaf: jax.Array) -> jax.Array:
        return jnp.all(jnp.isfinite(leaf.reshape(len(accurate), -1)), axis=1)

    sound = jnp.all(jnp.stack([finite(leaf) for leaf in jax.tree.leaves(states)]), axis=0)
    known = lax.cumsum((~(sound & accurate)).astype(jnp.int32)) == 0

    def shown(leaf: jax.Array) -> jax.Array:
        return jnp.where(known.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, jnp.nan)

    causes = [(Status.DIVERGED, sound), (Status.INACCURATE, accurate)]
    # A solver that gives up leaves infinite states.
    causes = causes if error is not None else causes[::-1]
    return Rollout(
        states=jax.tree.map(shown, states),
        error=jax.tree.map(shown, error),
        status=first_failure(*(status_if(~jnp.all(held), cause) for cause, held in causes)),
    )


def rollout(
    rate: Rate,
    initial: Any,
    times: Any,
    *,
    num_substeps: int = 1,
    switch: Switch | None = None,
    tolerance: Any = 1e-3,
    solver: Solver | None = None,
) -> Rollout:
    """Integrate ``state' = rate(time, state)`` by the classical Runge-Kutta method.

    Every step has an error estimate, the distance to an embedded solution of order three. Where it
    passes the tolerance, as with steps too long for a stiff law, the trajectory ends in NaN, and so
    does a loss that uses it. A jump of the rate inside a step shows in the estimate, which then is
    at least twice the error. With ``switch`` steps end where the rate jumps, and keep their order.

    Differentiable in what ``rate`` and ``switch`` close over, the initial state and the times; the
    time of a crossing moves with them.

    Args:
      rate: traceable; close over parameters and forcing (``jnp.interp`` for a measured one).
      initial: state at the first time, a pytree of arrays.
      times: ``(n,)`` increasing.
      num_substeps: steps between neighbouring times (static).
      switch: ``switch(time, state)``, numbers of any shape that change their sign where the rate
        jumps, such as the axis less each end of a region. One crossing is hit in every step.
      tolerance: largest error of one step, as a share of the largest size that the component has
        had so far; infinite for no limit, which leaves ``error`` to look at. Traced.
      solver: another method, such as ``adaptive.adaptive_solver`` for stiff laws, in place of all
        that: ``solver(rate, initial, times)`` gives the states ``(n, ...)`` and a bool, whether it
        succeeded.

    Returns:
      A ``Rollout``; the first state is ``initial``.

    Raises:
      ValueError, TypeError: times do not increase or are not finite, or an argument does not fit.

    Example:
      >>> import jax.numpy as jnp
      >>> found = rollout(lambda time, state: -state, jnp.ones(()), jnp.linspace(0.0, 1.0, 11))
      >>> round(float(found.states[-1]), 4), int(found.status)
      (0.3679, 0)
    """
    times = check_times(times)
    validation.check_count("num_substeps", num_substeps, 1)
    validation.check_number("tolerance", tolerance, np.finfo(float).tiny, np.inf)
    initial = jax.tree.map(lambda leaf: validation.float_array("initial", leaf), initial)
    if solver is None:
        limit = jnp.asarray(tolerance, times.dtype)
        states, error, accurate = _own_steps(rate, initial, times, num_substeps, switch, limit)
    else:
        if switch is not None or num_substeps != 1:
            raise ValueError("switch and num_substeps must be left out where a solver is given")
        states, succeeded = _solved(solver, rate, initial, times)
        error, accurate = None, jnp.broadcast_to(succeeded, times.shape)

    return _judge(states, error, accurate)
