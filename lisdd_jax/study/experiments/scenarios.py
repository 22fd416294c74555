"""Data sets with known truth, as traced functions of a key and numbers.

Each scenario is a pure function ``simulate(key, **numbers) -> Sample``; the number of rows and the
library fix shapes and are bound first. One's own scenario is any function of that form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax.library import Library
from lisdd_jax.results import in_interval

_CORE = ("x1^2", "x1^3", "x2^2", "x2^3", "x1*x2", "sin(x1)")

LIBRARIES = {
    "six": Library.from_expressions(_CORE),
    "eight_second_variable": Library.from_expressions((*_CORE, "sin(x2)", "cos(x2)")),
    "eight_linear_cosine": Library.from_expressions((*_CORE, "x1", "cos(x1)")),
    "eight_saturation_sign": Library.from_expressions((*_CORE, "tanh(x1)", "sign(x1)")),
    "eight_odd_powers": Library.from_expressions((*_CORE, "x1*abs(x1)", "x1^5")),
    "ten": Library.from_expressions((*_CORE, "x1*abs(x1)", "x1^5", "tanh(x1)", "sign(x1)")),
}
LIBRARIES["all"] = Library(
    tuple(dict.fromkeys(term for library in LIBRARIES.values() for term in library))
)
"""Candidate terms of the oscillator: the core set, and sets enlarged by distractors."""

PHYSICS = (1.0, 0.3)
"""Stiffness and damping of the oscillator."""

HALF_WIDTH = 3.3
"""The oscillator's domain is ``|x1|, |x2| <= HALF_WIDTH``."""

CANDIDATE_REGIONS = ((0.0, 1.0), (1.3, 2.1), (2.4, 3.2), (3.5, 4.3))
"""The candidate regions of the several-region scenario."""

SEVERAL_END = 4.5
"""The several-region scenario has ``x1`` in ``[0, SEVERAL_END]``."""


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A simulated data set and what generated it.

    Attributes:
      design, response, axis, features: as for ``diagnose``.
      discrepancy: ``(n,)`` the true missing term, 0 outside its region.
      coefficients: ``(p,)`` the true physics.
      lower, upper: ``(M,)`` the true discrepant intervals of the axis.
      present: ``(M,)`` bool, False where the term of an interval has coefficient zero.
      support: ``(M, L)`` bool, the true terms of each interval.
    """

    design: jax.Array
    response: jax.Array
    axis: jax.Array
    features: jax.Array
    discrepancy: jax.Array
    coefficients: jax.Array
    lower: jax.Array
    upper: jax.Array
    present: jax.Array
    support: jax.Array


def _support(library: Library, present: jax.Array, *names: str) -> jax.Array:
    table = jnp.array([[name == term for name in library.names] for term in names])
    return table & present[:, None]


def find_library(name: str) -> Library:
    """A library of ``LIBRARIES`` by name.

    Raises:
      ValueError: there is none of that name.
    """
    if name not in LIBRARIES:
        raise ValueError(f"library must be one of {sorted(LIBRARIES)}, got {name!r}")
    return LIBRARIES[name]


@lru_cache
def oscillator(
    num_rows: int, library: str = "six", *, noise: Callable[..., jax.Array] = jax.random.normal
) -> Callable[..., Sample]:
    """The published testbed: a linear oscillator with cubic stiffening in a band.

    ``response = -k x1 - c x2 + beta x1^3 1[lower < |x1| < lower + width] + scale noise``

    ``beta = 0`` is the null. Equal arguments give the same function, so that studies share its
    compiled programs.

    Args:
      num_rows: rows (fixes shapes).
      library: a name in ``LIBRARIES``.
      noise: ``noise(key, shape)`` draws unit noise.

    Returns:
      ``simulate(key, *, beta, width, lower, scale) -> Sample``.

    Raises:
      ValueError: there is no such library.

    Example:
      >>> sample = jax.jit(oscillator(100))(jax.random.key(0), beta=0.2)
      >>> sample.design.shape, sample.features.shape, sample.lower.tolist()
      ((100, 2), (100, 6), [-2.7, 1.7])
    """
    terms = find_library(library)

    def simulate(
        key: jax.Array,
        *,
        beta: jax.Array | float = 0.2,
        width: jax.Array | float = 1.0,
        lower: jax.Array | float = 1.7,
        scale: jax.Array | float = 0.3,
    ) -> Sample:
        key_state, key_noise = jax.random.split(key)
        state = HALF_WIDTH * jax.random.uniform(key_state, (2, num_rows), minval=-1.0, maxval=1.0)
        position, velocity = state
        low = jnp.asarray(lower, position.dtype)
        high = low + width
        inside = in_interval(jnp.abs(position), low, high)
        discrepancy = jnp.where(inside, beta * position**3, 0.0)
        physics = jnp.asarray(PHYSICS, position.dtype)
        design = -state.T
        response = design @ physics + discrepancy + scale * noise(key_noise, (num_rows,))
        present = jnp.broadcast_to(jnp.asarray(beta) != 0, (2,))
        return Sample(
            design=design,
            response=response,
            axis=position,
            features=terms.evaluate({"x1": position, "x2": velocity}),
            discrepancy=discrepancy,
            coefficients=physics,
            lower=jnp.stack([-high, low]),
            upper=jnp.stack([-low, high]),
            present=present,
            support=_support(terms, present, "x1^3", "x1^3"),
        )

    return simulate


@lru_cache
def several_regions(num_rows: int, library: str = "six") -> Callable[..., Sample]:
    """Two different terms in two of four candidate regions of ``x1`` on ``[0, 4.5]``.

    The second region misses ``cubic x1^3``, the fourth ``bilinear x1 x2``.

    Args:
      num_rows: rows (fixes shapes).
      library: a name in ``LIBRARIES``.

    Returns:
      ``simulate(key, *, cubic, bilinear, scale) -> Sample``.

    Raises:
      ValueError: there is no such library.

    Example:
      >>> sample = jax.jit(several_regions(100))(jax.random.key(0))
      >>> sample.upper.tolist(), sample.support.sum(axis=1).tolist()
      ([2.1, 4.3], [1, 1])
    """
    terms = find_library(library)
    (_, second, _, fourth) = CANDIDATE_REGIONS

    def simulate(
        key: jax.Array,
        *,
        cubic: jax.Array | float = 0.2,
        bilinear: jax.Array | float = 0.4,
        scale: jax.Array | float = 0.3,
    ) -> Sample:
        key_position, key_velocity, key_noise = jax.random.split(key, 3)
        position = SEVERAL_END * jax.random.uniform(key_position, (num_rows,))
        velocity = HALF_WIDTH * jax.random.uniform(key_velocity, (num_rows,), minval=-1.0)
        in_second, in_fourth = (in_interval(position, *ends) for ends in (second, fourth))
        discrepancy = jnp.where(in_second, cubic * position**3, 0.0)
        discrepancy += jnp.where(in_fourth, bilinear * position * velocity, 0.0)
        physics = jnp.asarray(PHYSICS, position.dtype)
        design = -jnp.stack([position, velocity], axis=1)
        response = design @ physics + discrepancy
        response += scale * jax.random.normal(key_noise, (num_rows,))
        present = jnp.stack([jnp.asarray(cubic) != 0, jnp.asarray(bilinear) != 0])
        return Sample(
            design=design,
            response=response,
            axis=position,
            features=terms.evaluate({"x1": position, "x2": velocity}),
            discrepancy=discrepancy,
            coefficients=physics,
            lower=jnp.array([second[0], fourth[0]], position.dtype),
            upper=jnp.array([second[1], fourth[1]], position.dtype),
            present=present,
            support=_support(terms, present, "x1^3", "x1*x2"),
        )

    return simulate
