"""Steps over a switch, where the law for the rate changes from one side to the other.

A step that uses rates of both sides is of order one only. So a step that would is divided: it
approaches the switch by stretches that lie on one side with all their stages, crosses it in a hop
about as short as the rest of the way, and goes on from there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.hybrid.runge_kutta import Rate, Step, take_step

Switch = Callable[[jax.Array, Any], jax.Array]

# Every approach leaves about the cube of the share of the step that the last one left.
_APPROACHES = 2
_BISECTIONS = 24


class _Course(NamedTuple):
    """Where a divided step has come to: time, state, and the errors so far."""

    time: jax.Array
    state: Any
    error: Any

    def after(self, step: Step, length: jax.Array) -> "_Course":
        return _Course(self.time + length, step.end, jax.tree.map(jnp.add, self.error, step.error))


def _values(switch: Switch, time: jax.Array, state: Any) -> jax.Array:
    return jnp.ravel(switch(time, state))


def _one_sided(switch: Switch, step: Step) -> jax.Array:
    """Whether all that a step visits lies on the side of its beginning."""
    sides = jnp.stack([_values(switch, *here) >= 0 for here in step.visited])
    return jnp.all(sides == sides[:1])


def _approach(
    rate: Rate, switch: Switch, course: _Course, left: jax.Array
) -> tuple[_Course, jax.Array]:
    """The longest stretch of what is left that lies on one side, by bisection."""
    fixed = lax.stop_gradient(course)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        clean = _one_sided(switch, take_step(rate, fixed.time, fixed.state, middle))
        return jnp.where(clean, middle, low), jnp.where(clean, high, middle)

    length, _ = lax.fori_loop(0, _BISECTIONS, halve, (jnp.zeros_like(left), left))
    return course, lax.stop_gradient(length)


def _hop(rate: Rate, switch: Switch, course: _Course, left: jax.Array) -> tuple[_Course, jax.Array]:
    """Across the switch; before it, a move of length zero that carries the derivative of its time.

    The time of the crossing solves ``switch = 0``, so ``dt = -d(switch) / (switch)'``.
    """
    slope = rate(course.time, course.state)
    values, speeds = jax.jvp(
        lambda time, state: _values(switch, time, state),
        (course.time, course.state),
        (jnp.ones_like(course.time), slope),
    )
    moving = speeds != 0
    ahead = -values / jnp.where(moving, speeds, 1.0)
    ahead = jnp.where(moving & (ahead >= 0), ahead, jnp.inf)
    first = jnp.argmin(lax.stop_gradient(ahead))
    near = jnp.isfinite(ahead[first])
    distance = jnp.where(near, ahead[first], 0.0)
    shift = distance - lax.stop_gradient(distance)
    shifted = jax.tree.map(lambda value, by: value + shift * by, course.state, slope)
    course = course._replace(time=course.time + shift, state=shifted)
    resolution = left / 2**_BISECTIONS
    return course, lax.stop_gradient(jnp.minimum(2 * jnp.maximum(distance, resolution), left))


def step_over(
    rate: Rate, switch: Switch | None, time: jax.Array, state: Any, length: jax.Array
) -> tuple[Any, Any]:
    """A step that is divided where it would cross a switch.

    Args:
      rate, time, state, length: as for ``take_step``.
      switch: ``switch(time, state)``, any shape, each number signed by the side; None where the law
        has no switch.

    Returns:
      The state at the end and the absolute error estimate, which covers one crossing that is hit
      and any other that is not. Derivatives include that of the time of the crossing.
    """
    whole = take_step(rate, time, state, length)
    if switch is None:
        return whole.end, whole.error
    stop = time + length

    def go(course: _Course, length: jax.Array) -> _Course:
        return course.after(take_step(rate, course.time, course.state, length), length)

    # Copies of the rate are most of what is compiled, so that all approaches share theirs.
    def approach(course: _Course, _: None) -> tuple[_Course, None]:
        return go(*_approach(rate, switch, course, stop - course.time)), None

    def divided() -> tuple[Any, Any]:
        course = _Course(time, state, jax.tree.map(jnp.zeros_like, state))
        course, _ = lax.scan(approach, course, length=_APPROACHES)
        course = go(*_hop(rate, switch, course, stop - course.time))
        course = go(course, stop - course.time)
        return course.state, course.error

    clean = _one_sided(switch, whole)
    result: tuple[Any, Any] = lax.cond(clean, lambda: (whole.end, whole.error), divided)
    return result
