"""A model that is non-linear in its parameters as a linear one near a point, and a robust start."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax import diagnosis
from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.dataset import prepare
from lisdd_jax.numerics import order, scaling
from lisdd_jax.numerics.frame import to_frame, whiten
from lisdd_jax.published.physics import fit_from
from lisdd_jax.results import Diagnosis
from lisdd_jax.statistics.trimmed.search import search_one
from lisdd_jax.status import is_failure

_MAX_HALVINGS = 12
_LEAST_DECREASE = 1e-3


@dataclass(frozen=True)
class LinearizedModel:
    """The model as a function of its parameters in one vector, and what it is compared with.

    Attributes:
      predicted: ``(n,)`` of parameters ``(p,)``.
      arrays: arguments of ``dataset.prepare`` by name, all but the design.
      config: settings of the diagnosis.
      start: settings of the robust start and of the refit near it.
    """

    predicted: Callable[[jax.Array], jax.Array]
    arrays: dict[str, Any]
    config: Config | PublishedConfig
    start: PublishedConfig

    @property
    def mask(self) -> jax.Array:
        """Rows in use, ``(n,)`` bool."""
        mask: jax.Array = self.arrays["mask"]
        return mask

    def residual(self, theta: jax.Array) -> jax.Array:
        """Residuals ``(n,)``, zero in rows out of use."""
        return jnp.where(self.mask, self.arrays["response"] - self.predicted(theta), 0.0)

    def linear_model(self, theta: jax.Array) -> dict[str, Any]:
        """Arguments of ``dataset.prepare`` for the model linearised at ``theta``."""
        design = jax.jacfwd(self.predicted)(theta)
        response = self.residual(theta) + design @ theta
        return {**self.arrays, "design": design, "response": response}

    def diagnose(self, key: jax.Array, theta: jax.Array) -> Diagnosis:
        """The diagnosis of the model linearised at ``theta``."""
        return diagnosis.run(key, self.linear_model(theta), self.config)

    def refit_on_clean_cells(self, theta: jax.Array) -> jax.Array:
        """The published refit, which bears the curvature that is left of a start far away."""
        data, status = prepare(**self.linear_model(theta))
        refitted = fit_from(data, data.frame.solution(theta), status, self.start).regime
        return jnp.where(is_failure(refitted.status), theta, refitted.coefficients)

    def standard_errors(self, theta: jax.Array) -> jax.Array:
        """Roughly those of the parameters: units in which small changes do not matter."""
        design, left = jax.jacfwd(self.predicted)(theta), self.residual(theta)
        count = jnp.maximum(jnp.sum(self.mask), 1).astype(left.dtype)
        frame = whiten(design, left, self.mask)
        inverse = frame.covariance(jnp.eye(len(theta), dtype=left.dtype) / count)
        scale = order.median_absolute_deviation(left, self.mask)
        spread = scaling.root(jnp.diagonal(inverse)) * scale
        return lax.stop_gradient(jnp.where(spread > 0, spread, 1.0))


class _Descent(NamedTuple):
    theta: jax.Array
    objective: jax.Array
    settled: jax.Array
    num_steps: jax.Array


def _halved(
    objective: Callable[[jax.Array], jax.Array],
    theta: jax.Array,
    direction: jax.Array,
    before: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The step, halved until the objective falls; the parameters stay where it does not."""

    def going_on(trial: tuple[jax.Array, jax.Array]) -> jax.Array:
        share, value = trial
        return ~(value < before) & (share > 0.5**_MAX_HALVINGS)

    def halve(trial: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        share = trial[0] / 2
        return share, objective(theta + share * direction)

    whole = jnp.ones((), theta.dtype)
    share, value = lax.while_loop(going_on, halve, (whole, objective(theta + direction)))
    better = value < before
    moved = jnp.where(better, theta + share * direction, theta)
    return moved, jnp.where(better, value, before)


def robust_start(
    key: jax.Array, problem: LinearizedModel, theta: jax.Array, max_iterations: int
) -> jax.Array:
    """Damped Gauss-Newton steps on the least trimmed squares of the model itself."""
    config, mask = problem.start, problem.mask
    num = order.num_kept(jnp.sum(mask, dtype=jnp.int32), config.trim, theta.dtype)

    def objective(theta: jax.Array) -> jax.Array:
        squares = jnp.where(mask, problem.residual(theta) ** 2, jnp.inf)
        squares = jnp.where(jnp.isnan(squares), jnp.inf, squares)
        weights, _ = order.smallest_weights(squares, num)
        return jnp.sum(jnp.where(weights > 0, weights * squares, 0.0))

    def step(state: _Descent) -> _Descent:
        design, left = jax.jacfwd(problem.predicted)(state.theta), problem.residual(state.theta)
        frame, basis, centered = to_frame(design, left, mask)
        solution = search_one(
            key,
            (basis, centered, mask),
            config.trim,
            num_starts=config.num_starts,
            num_candidates=10,
        ).solution
        direction = frame.coefficients(solution)
        theta, value = _halved(objective, state.theta, direction, state.objective)
        enough = value < (1 - _LEAST_DECREASE) * state.objective
        return _Descent(theta, value, ~enough, state.num_steps + 1)

    def going_on(state: _Descent) -> jax.Array:
        return ~state.settled & (state.num_steps < max_iterations)

    start = _Descent(theta, objective(theta), jnp.zeros((), bool), jnp.int32(0))
    return lax.while_loop(going_on, step, start).theta
