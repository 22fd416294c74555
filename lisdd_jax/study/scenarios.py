"""Data sets with known truth, as traced functions of a key and numbers.

Each scenario is a pure function ``simulate(key, **numbers) -> Sample``; the number of rows and the
library fix shapes and are bound first. One's own scenario is any function of that form.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax.library import Library

_CORE = ("x1^2", "x1^3", "x2^2", "x2^3", "x1*x2", "sin(x1)")

LIBRARIES = {
    "six": Library.from_expressions(_CORE),
    "eight_second_variable": Library.from_expressions((*_CORE, "sin(x2)", "cos(x2)")),
    "eight_linear_cosine": Library.from_expressions((*_CORE, "x1", "cos(x1)")),
    "eight_saturation_sign": Library.from_expressions((*_CORE, "tanh(x1)", "sign(x1)")),
    "eight_odd_powers": Library.from_expressions((*_CORE, "x1*abs(x1)", "x1^5")),
    "ten": Library.from_expressions(
        (*_CORE, "x1*abs(x1)", "x1^5", "tanh(x1)", "sign(x1)"),
    ),
}
"""Candidate terms of the oscillator: the core set, and sets enlarged by distractors."""

PHYSICS = (1.0, 0.3)
"""Stiffness and damping of the oscillator."""

HALF_WIDTH = 3.3
"""The oscillator's domain is ``|x1|, |x2| <= HALF_WIDTH``."""


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A simulated data set and what generated it.

    Attributes:
      design, response, axis, features: as for ``diagnose``.
      discrepancy: ``(n,)`` the true missing term, 0 outside its region.
      coefficients: ``(p,)`` the true physics.
      lower, upper: ``(M,)`` the true discrepant intervals of the axis.
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
    support: jax.Array


def _support(library: Library, *names: str) -> jax.Array:
    return jnp.array([[name == term for name in library.names] for term in names])


def oscillator(
    num_rows: int, library: str = "six", *, noise: Callable[..., jax.Array] | None = None
) -> Callable[..., Sample]:
    """The paper's testbed: a linear oscillator with cubic stiffening in a band.

    ``response = -k x1 - c x2 + beta x1^3 1[lower < |x1| < upper] + scale noise``

    Args:
      num_rows: rows (fixes shapes).
      library: a name in ``LIBRARIES``.
      noise: function of a key and a shape that draws unit noise; standard normal where None.

    Returns:
      ``simulate(key, *, beta, lower, upper, scale) -> Sample``.
    """
    terms = LIBRARIES[library]
    draw = jax.random.normal if noise is None else noise

    def simulate(
        key: jax.Array,
        *,
        beta: jax.Array | float = 0.2,
        lower: jax.Array | float = 1.7,
        upper: jax.Array | float = 2.7,
        scale: jax.Array | float = 0.3,
    ) -> Sample:
        key_state, key_noise = jax.random.split(key)
        state = HALF_WIDTH * jax.random.uniform(key_state, (2, num_rows), minval=-1.0, maxval=1.0)
        position, velocity = state
        inside = (jnp.abs(position) > lower) & (jnp.abs(position) < upper)
        discrepancy = jnp.where(inside, beta * position**3, 0.0)
        physics = jnp.asarray(PHYSICS, position.dtype)
        design = -state.T
        response = design @ physics + discrepancy + scale * draw(key_noise, (num_rows,))
        ends = jnp.stack([jnp.asarray(lower, position.dtype), jnp.asarray(upper, position.dtype)])
        return Sample(
            design=design,
            response=response,
            axis=position,
            features=terms.evaluate({"x1": position, "x2": velocity}),
            discrepancy=discrepancy,
            coefficients=physics,
            lower=jnp.stack([-ends[1], ends[0]]),
            upper=jnp.stack([-ends[0], ends[1]]),
            support=_support(terms, "x1^3", "x1^3"),
        )

    return simulate


CANDIDATE_REGIONS = ((0.0, 1.0), (1.3, 2.1), (2.4, 3.2), (3.5, 4.3))
"""The candidate regions of the several-region scenario."""


def several_regions(num_rows: int, library: str = "six") -> Callable[..., Sample]:
    """Two different terms in two of four candidate regions of ``x1`` on ``[0, 4.5]``.

    The second region misses ``cubic x1^3``, the fourth ``bilinear x1 x2``.

    Args:
      num_rows: rows (fixes shapes).
      library: a name in ``LIBRARIES``.

    Returns:
      ``simulate(key, *, cubic, bilinear, scale) -> Sample``.
    """
    terms = LIBRARIES[library]
    (_, second, _, fourth) = CANDIDATE_REGIONS

    def simulate(
        key: jax.Array,
        *,
        cubic: jax.Array | float = 0.2,
        bilinear: jax.Array | float = 0.4,
        scale: jax.Array | float = 0.3,
    ) -> Sample:
        key_position, key_velocity, key_noise = jax.random.split(key, 3)
        position = jax.random.uniform(key_position, (num_rows,), maxval=4.5)
        velocity = HALF_WIDTH * jax.random.uniform(key_velocity, (num_rows,), minval=-1.0)
        in_second = (position >= second[0]) & (position < second[1])
        in_fourth = (position >= fourth[0]) & (position < fourth[1])
        discrepancy = jnp.where(in_second, cubic * position**3, 0.0)
        discrepancy += jnp.where(in_fourth, bilinear * position * velocity, 0.0)
        physics = jnp.asarray(PHYSICS, position.dtype)
        design = -jnp.stack([position, velocity], axis=1)
        response = design @ physics + discrepancy
        response += scale * jax.random.normal(key_noise, (num_rows,))
        return Sample(
            design=design,
            response=response,
            axis=position,
            features=terms.evaluate({"x1": position, "x2": velocity}),
            discrepancy=discrepancy,
            coefficients=physics,
            lower=jnp.array([second[0], fourth[0]], position.dtype),
            upper=jnp.array([second[1], fourth[1]], position.dtype),
            support=_support(terms, "x1^3", "x1*x2"),
        )

    return simulate
