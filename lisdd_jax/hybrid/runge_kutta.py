"""One step of the classical Runge-Kutta method, with an estimate of its error."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Rate = Callable[[jax.Array, Any], Any]

# By stage: node, and weights of the stages before.
_STAGES = (
    (0.0, ()),
    (1 / 2, (1 / 2,)),
    (1 / 2, (0.0, 1 / 2)),
    (1.0, (0.0, 0.0, 1.0)),
    (3 / 4, (5 / 32, 7 / 32, 13 / 32, -1 / 32)),
)
_SOLUTION = (1 / 6, 1 / 3, 1 / 3, 1 / 6)
_LESS_EMBEDDED = (2 / 3, -2.0, -2.0, -2.0, 16 / 3)


class Step(NamedTuple):
    """A step.

    Attributes:
      end: the state after it.
      error: as the state, absolute distance to the embedded solution of order three.
      visited: times and states at which the rate was evaluated, and the end.
    """

    end: Any
    error: Any
    visited: list[tuple[jax.Array, Any]]


def _moved(state: Any, weights: tuple[float, ...], slopes: list[Any], length: jax.Array) -> Any:
    """The state plus a weighted sum of slopes, times a length of time."""
    used = [(weight, slopes[i]) for i, weight in enumerate(weights) if weight]

    def total(value: jax.Array, *leaves: jax.Array) -> jax.Array:
        for (weight, _), leaf in zip(used, leaves, strict=True):
            value = value + length * weight * leaf
        return value

    return jax.tree.map(total, state, *(slope for _, slope in used))


def take_step(rate: Rate, time: jax.Array, state: Any, length: jax.Array) -> Step:
    """The classical step of order four, whose stages also give a solution of order three.

    Where the rate jumps by ``J`` at some time inside the step, the end is wrong by at most ``J
    length / 3``, and the distance is at least ``2 J length / 3``: it covers what a jump does.

    Args:
      rate: of the state, ``rate(time, state)``.
      time, state: at the beginning.
      length: of the step.

    Returns:
      A ``Step``.

    References:
      Hairer, Nørsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.4
      (the pair of Zonneveld).
    """
    slopes: list[Any] = []
    visited = []
    for node, weights in _STAGES:
        here = (time + node * length, _moved(state, weights, slopes, length))
        visited.append(here)
        slopes.append(rate(*here))
    end = _moved(state, _SOLUTION, slopes, length)
    nothing = jax.tree.map(jnp.zeros_like, state)
    error = jax.tree.map(jnp.abs, _moved(nothing, _LESS_EMBEDDED, slopes, length))
    return Step(end, error, [*visited, (time + length, end)])
