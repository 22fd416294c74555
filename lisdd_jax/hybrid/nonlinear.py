"""The diagnosis of a model that is non-linear in its parameters, by Gauss-Newton steps.

Near parameters ``theta`` the model is ``m(theta) + J (theta' - theta)``, which is linear in
``theta'``. Its diagnosis gives new parameters, and at the fixed point the regions, tests and
verdicts are those of the model linearised at the solution.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.tree_util import register_dataclass

from lisdd_jax import cell_fits, clean_regime, diagnosis, trimmed_search, validation
from lisdd_jax.config import Config
from lisdd_jax.numerics import implicit, order, scaling
from lisdd_jax.numerics.frame import whiten
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.prepared import prepare
from lisdd_jax.results import Diagnosis, Verdict
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if

Model = Callable[[Any, Any], jax.Array]
_MAX_HALVINGS = 12
_LEAST_DECREASE = 1e-3


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class NonlinearDiagnosis:
    """The diagnosis at the fixed point.

    Attributes:
      theta: parameters of the physics, in the structure of the initial ones; NaN under a failure.
      diagnosis: of the model linearised there; its coefficients are ``theta`` as one vector. It
        asserts nothing under ``NOT_CONVERGED``.
      num_iterations: diagnoses made on the way.
      status: int32; ``NOT_CONVERGED`` where the parameters still moved.
    """

    theta: Any
    diagnosis: Diagnosis
    num_iterations: jax.Array
    status: jax.Array


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


@dataclass(frozen=True)
class _Problem:
    """The data, and the model as a function of its parameters in one vector."""

    predicted: Callable[[jax.Array], jax.Array]
    response: jax.Array
    axis: jax.Array
    features: jax.Array
    edges: jax.Array
    mask: jax.Array
    config: Config

    def residual(self, theta: jax.Array) -> jax.Array:
        """Residuals ``(n,)``, zero in rows out of use."""
        return jnp.where(self.mask, self.response - self.predicted(theta), 0.0)

    def linear_model(self, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Design and response of the model linearised at ``theta``."""
        design = jax.jacfwd(self.predicted)(theta)
        return design, self.residual(theta) + design @ theta

    def diagnose(self, key: jax.Array, theta: jax.Array) -> Diagnosis:
        """The diagnosis of the model linearised at ``theta``."""
        design, target = self.linear_model(theta)
        return diagnosis.run(
            key, design, target, self.axis, self.features, self.edges, self.mask, self.config
        )

    def refit_on_clean_cells(self, theta: jax.Array) -> jax.Array:
        """The published refit, which bears the curvature that is left of a start far away."""
        linear = self.linear_model(theta)
        data, status = prepare(*linear, self.axis, self.features, self.edges, self.mask)
        initial = data.frame.solution(theta)
        num_cells = len(self.edges) - 1
        rows = cell_fits.make_rows(
            data.basis, data.centered, data.mask, data.cell, initial, num_cells, data.level
        )
        found = clean_regime.search(rows, self.config.alpha_cell, self.config.max_iterations)
        refitted = clean_regime.summarize(data.frame, initial, rows, found, status)
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


def _robust_start(
    key: jax.Array, problem: _Problem, theta: jax.Array, max_iterations: int
) -> jax.Array:
    """Damped Gauss-Newton steps on the least trimmed squares of the model itself."""
    config, mask = problem.config, problem.mask
    num = order.num_kept(jnp.sum(mask, dtype=jnp.int32), config.trim, theta.dtype)

    def objective(theta: jax.Array) -> jax.Array:
        squares = jnp.where(mask, problem.residual(theta) ** 2, jnp.inf)
        squares = jnp.where(jnp.isnan(squares), jnp.inf, squares)
        weights, _ = order.smallest_weights(squares, num)
        return jnp.sum(jnp.where(weights > 0, weights * squares, 0.0))

    def step(state: _Descent) -> _Descent:
        design, left = jax.jacfwd(problem.predicted)(state.theta), problem.residual(state.theta)
        frame = whiten(design, left, mask)
        linearised = trimmed_search.Problem(
            key, frame.to_basis(design), frame.center_response(design, left), mask
        )
        solution = trimmed_search.search(
            linearised,
            config.trim,
            num_starts=config.num_starts,
            num_candidates=min(10, config.num_starts),
        ).solution
        direction = frame.coefficients(solution)
        theta, value = _halved(objective, state.theta, direction, state.objective)
        enough = value < (1 - _LEAST_DECREASE) * state.objective
        return _Descent(theta, value, ~enough, state.num_steps + 1)

    def going_on(state: _Descent) -> jax.Array:
        return ~state.settled & (state.num_steps < max_iterations)

    start = _Descent(theta, objective(theta), jnp.zeros((), bool), jnp.int32(0))
    return lax.while_loop(going_on, step, start).theta


def _withhold(found: Diagnosis, settled: jax.Array, status: jax.Array) -> Diagnosis:
    """Linearised elsewhere than at a solution, a diagnosis asserts nothing."""
    shown = partial(nan_where, ~settled)
    verdict = jnp.where(settled, found.verdict, jnp.int32(Verdict.INSUFFICIENT_DATA))
    test = dataclasses.replace(
        found.test,
        reject=found.test.reject & settled,
        p_value=shown(found.test.p_value),
        log_p_value=shown(found.test.log_p_value),
    )
    return dataclasses.replace(
        found,
        coefficients=shown(found.coefficients),
        covariance=shown(found.covariance),
        scale=shown(found.scale),
        cells=dataclasses.replace(found.cells, flagged=found.cells.flagged & settled),
        regions=dataclasses.replace(found.regions, present=found.regions.present & settled),
        form=dataclasses.replace(found.form, support=found.form.support & settled),
        test=test,
        verdict=verdict,
        status=status,
    )


@partial(jax.jit, static_argnames=("model", "max_iterations"))
@full_precision
def _diagnose_nonlinear(
    model: Model,
    initial: Any,
    inputs: Any,
    key: jax.Array,
    response: jax.Array,
    axis: jax.Array,
    features: jax.Array,
    edges: jax.Array,
    mask: jax.Array,
    config: Config,
    max_iterations: int,
) -> NonlinearDiagnosis:
    flat, unravel = ravel_pytree(initial)
    key_start, key_run = jax.random.split(key)

    def predicted(theta: jax.Array) -> jax.Array:
        return jnp.where(mask, model(unravel(theta), inputs), 0.0)

    problem = _Problem(predicted, response, axis, features, edges, mask, config)
    start = _robust_start(key_start, problem, lax.stop_gradient(flat), max_iterations)
    unit = problem.standard_errors(start)

    def refit(scaled: jax.Array) -> jax.Array:
        return problem.refit_on_clean_cells(scaled * unit) / unit

    def update(scaled: jax.Array) -> jax.Array:
        found = problem.diagnose(key_run, scaled * unit)
        return jnp.where(is_failure(found.status), scaled, found.coefficients / unit)

    near = implicit.fixed_point(refit, start / unit, max_iterations).solution
    fixed = implicit.fixed_point(update, near, max_iterations)
    found = problem.diagnose(key_run, fixed.solution * unit)
    status = first_failure(found.status, status_if(~fixed.converged, Status.NOT_CONVERGED))
    found = _withhold(found, fixed.converged, status)
    return NonlinearDiagnosis(
        theta=unravel(found.coefficients),
        diagnosis=found,
        num_iterations=fixed.num_iterations + 1,
        status=status,
    )


def diagnose_nonlinear(
    model: Model,
    theta: Any,
    inputs: Any,
    response: Any,
    axis: Any,
    features: Any,
    *,
    key: jax.Array,
    config: Config | None = None,
    edges: Any = None,
    mask: Any = None,
    max_iterations: int = 30,
) -> NonlinearDiagnosis:
    """Diagnose a model that is non-linear in its parameters.

    Damped Gauss-Newton steps on the least trimmed squares of the model lead from ``theta`` to the
    regime that most rows obey, and steps of the published clean-regime iteration near its solution.
    From there ``theta`` is replaced by the coefficients that ``diagnose`` gives for the model
    linearised at ``theta``, until it stays.

    Differentiable in what ``inputs`` holds, response, axis and features, not in the initial
    parameters: the derivative is that of the fixed point, by the implicit function theorem, and
    includes the curvature of the model.

    Args:
      model: ``model(theta, inputs)``, ``(n,)`` predictions, traceable. Pass the same function again
        and nothing is recompiled.
      theta: initial parameters, a pytree of floating-point arrays.
      inputs: operating variables, a pytree of arrays.
      response, axis, features, key, config, edges, mask: as for ``diagnose``.
      max_iterations: most steps of either kind (static).

    Returns:
      A ``NonlinearDiagnosis``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit, or the model is not finite
        at the initial parameters.

    References:
      Dennis and Schnabel (1996), Numerical Methods for Unconstrained Optimization and Nonlinear
      Equations, chapter 10 (Gauss-Newton).
    """
    validation.check_count("max_iterations", max_iterations, 1)
    response = validation.float_array("response", response)
    theta = jax.tree.map(
        lambda leaf: validation.float_array("theta", leaf).astype(response.dtype), theta
    )
    flat, unravel = ravel_pytree(theta)
    if not flat.size:
        raise ValueError("theta must hold at least one parameter, got none")

    def predicted(flat: jax.Array) -> jax.Array:
        return model(unravel(flat), inputs)

    shape = jax.eval_shape(predicted, flat).shape
    if shape != response.shape:
        raise ValueError(
            f"model must give one prediction per row, shape {response.shape}, got shape {shape}"
        )
    used = validation.mask_array(mask, shape[0])
    validation.check_finite("model at the initial theta", predicted(flat), used)
    design = jax.jacfwd(predicted)(flat)
    validation.check_finite("derivative of the model at the initial theta", design, used)
    arrays, edges, mask, config = diagnosis.check_arguments(
        jnp.where(used[:, None], design, 0.0).astype(response.dtype),
        response,
        axis,
        features,
        config=config,
        edges=edges,
        mask=mask,
    )
    return _diagnose_nonlinear(
        model,
        theta,
        inputs,
        validation.check_key(key),
        *arrays[1:],
        edges,
        mask,
        config,
        max_iterations=max_iterations,
    )
