"""The diagnosis of a model that is non-linear in its parameters, by Gauss-Newton steps.

Near parameters ``theta`` the model is ``m(theta) + J (theta' - theta)``, which is linear in
``theta'``. Its diagnosis gives new parameters, and at the fixed point the regions, tests and
verdicts are those of the model linearised at the solution.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.config import Config, PublishedConfig, check_config
from lisdd_jax.dataset import check_call
from lisdd_jax.hybrid.linearization import LinearizedModel
from lisdd_jax.hybrid.padding import in_use
from lisdd_jax.hybrid.starts import RobustStart, robust_start
from lisdd_jax.numerics import implicit, tolerances
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.results import Diagnosis, Verdict
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if

Model = Callable[[Any, Any], jax.Array]


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class NonlinearDiagnosis:
    """The diagnosis at the fixed point.

    Attributes:
      theta: parameters of the physics, in the structure of the initial ones; NaN under a failure.
      diagnosis: of the model linearised there; its coefficients are ``theta`` as one vector. It
        asserts nothing under ``NOT_CONVERGED``.
      objective: trimmed sum of squares of the best start.
      num_agreeing: int32, starts that led to one as low, within a tenth.
      num_iterations: diagnoses made on the way.
      status: int32; ``NOT_CONVERGED`` where the parameters still moved, where the model has no
        finite value at the end, and where the starts do not tell the answer from a local one.
    """

    theta: Any
    diagnosis: Diagnosis
    objective: jax.Array
    num_agreeing: jax.Array
    num_iterations: jax.Array
    status: jax.Array


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


def _data_are_finite(problem: LinearizedModel) -> jax.Array:
    """Whether the rows in use are, whatever the model gives for them."""
    parts = [problem.arrays[name] for name in ("response", "axis", "features")]
    rows = [jnp.all(jnp.isfinite(part.reshape(len(part), -1)), axis=1) for part in parts]
    return jnp.all(jnp.all(jnp.stack(rows), axis=0) | ~problem.mask)


def _digits_are_lost(problem: LinearizedModel, theta: jax.Array) -> jax.Array:
    """Whether half of the digits of the response are, beside the linearised one."""
    linear, response = (
        jnp.max(jnp.where(problem.mask, jnp.abs(part), 0.0))
        for part in (problem.linear_model(theta)["response"], problem.arrays["response"])
    )
    return (response > 0) & ~(tolerances.DESCENT(linear.dtype) * linear <= response)


def _outcome(
    problem: LinearizedModel,
    theta: jax.Array,
    found: jax.Array,
    start: RobustStart,
    moving: jax.Array,
) -> jax.Array:
    """Status of the whole: a failure that comes from where the model was linearised is the start's.

    Args:
      problem, theta: the model and where.
      found: status of its diagnosis.
      start: from which it came.
      moving: whether the parameters still moved.
    """
    nonfinite = found == Status.NONFINITE_INPUT
    of_the_data = (nonfinite & ~_data_are_finite(problem)) | (found == Status.TOO_FEW_ROWS)
    astray = nonfinite | ((found == Status.ZERO_SCALE) & _digits_are_lost(problem, theta))
    unsettled = status_if(moving, Status.NOT_CONVERGED)
    return jnp.where(
        (astray | ~start.trusted) & ~of_the_data,
        jnp.int32(Status.NOT_CONVERGED),
        first_failure(found, unsettled),
    )


@partial(jax.jit, static_argnames=("model", "num_starts", "max_iterations"))
@full_precision
def _diagnose_nonlinear(
    model: Model,
    initial: Any,
    inputs: Any,
    key: jax.Array,
    arrays: dict[str, Any],
    config: Config | PublishedConfig,
    start_config: PublishedConfig,
    num_starts: int,
    max_iterations: int,
) -> NonlinearDiagnosis:
    flat, unravel = ravel_pytree(initial)
    key_start, key_run = jax.random.split(key)

    def linearized(inputs: Any, arrays: dict[str, Any]) -> LinearizedModel:
        def predicted(theta: jax.Array) -> jax.Array:
            return jnp.where(arrays["mask"], model(unravel(theta), inputs), 0.0)

        return LinearizedModel(predicted, arrays, config, start_config)

    problem = linearized(inputs, arrays)
    # What leads to a start carries no derivative.
    frozen = linearized(*lax.stop_gradient((inputs, arrays)))
    start = robust_start(key_start, frozen, lax.stop_gradient(flat), num_starts, max_iterations)
    unit = frozen.standard_errors(start.theta)

    def refit(scaled: jax.Array) -> tuple[jax.Array, None]:
        return frozen.refit_on_clean_cells(scaled * unit) / unit, None

    def update(scaled: jax.Array) -> tuple[jax.Array, Diagnosis]:
        found = problem.diagnose(key_run, scaled * unit)
        return jnp.where(is_failure(found.status), scaled, found.coefficients / unit), found

    near = implicit.fixed_point(refit, start.theta / unit, max_iterations)[0].solution
    fixed, found = implicit.fixed_point(update, near, max_iterations)
    status = _outcome(problem, fixed.solution * unit, found.status, start, ~fixed.converged)
    found = _withhold(found, status != Status.NOT_CONVERGED, status)
    return NonlinearDiagnosis(
        theta=unravel(found.coefficients),
        diagnosis=found,
        objective=start.objective,
        num_agreeing=start.num_agreeing,
        num_iterations=fixed.num_iterations,
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
    config: Config | PublishedConfig | None = None,
    edges: Any = None,
    mask: Any = None,
    num_starts: int = 16,
    max_iterations: int = 30,
) -> NonlinearDiagnosis:
    """Diagnose a model that is non-linear in its parameters.

    Levenberg-Marquardt steps on the least trimmed squares of the model lead from ``theta``, and
    from starts spread about it, to the regime that most rows obey; the lowest end wins, goes on by
    damped steps to the least trimmed squares of the linearised model, and by steps of the published
    clean-regime iteration near its solution. From there ``theta`` is replaced by the coefficients
    that ``diagnose`` gives for the model linearised at ``theta``, until it stays.

    No search of finite length finds the lowest minimum of every model. An answer stands if it is
    not one of many that are about as good: if the next minimum is 1.5 times as high and most starts
    agree on the lowest, or 3 times and the given one or two others do, or 100 times. Else it is
    ``NOT_CONVERGED``, and so is one at which the model has no finite value: a nearer ``theta`` is
    needed, or more starts.

    Differentiable in what ``inputs`` holds, response, axis and features, not in the initial
    parameters: the derivative is that of the fixed point, by the implicit function theorem, and
    includes the curvature of the model.

    Args:
      model: ``model(theta, inputs)``, ``(n,)`` predictions, traceable. Pass the same function again
        and nothing is recompiled.
      theta: initial parameters, a pytree of floating-point arrays.
      inputs: operating variables, a pytree of arrays.
      response, axis, features, key, config, edges, mask: as for ``diagnose``.
      num_starts: parameters to descend from, ``theta`` and others drawn about it by the key, over
        shares of its size and of the changes that move the predictions; 1 for ``theta`` alone
        (static).
      max_iterations: most steps of any kind (static).

    Returns:
      A ``NonlinearDiagnosis``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit, or the model is not finite
        at the initial parameters.

    Example:
      >>> t = jnp.linspace(0.0, 1.0, 60)
      >>> y = jnp.exp(2 * t) + jnp.where(t >= 0.75, 3.0, 0.0) + 0.1 * jnp.sin(997 * t**2)
      >>> found = diagnose_nonlinear(
      ...     lambda rate, t: jnp.exp(rate * t), 1.5, t, y, t, jnp.ones((60, 1)),
      ...     key=jax.random.key(0), config=PublishedConfig(num_cells=4, num_starts=10),
      ... )
      >>> round(float(found.theta), 1)
      2.0

    References:
      Dennis and Schnabel (1996), Numerical Methods for Unconstrained Optimization and Nonlinear
      Equations, chapter 10 (Gauss-Newton).
    """
    validation.check_count("num_starts", num_starts, 1)
    validation.check_count("max_iterations", max_iterations, 1)
    response = validation.float_array("response", response)
    theta = jax.tree.map(
        lambda leaf: validation.float_array("theta", leaf).astype(response.dtype), theta
    )
    inputs, _ = in_use(inputs, mask)
    design = _initial_design(model, theta, inputs, response, mask)
    key, arrays, config = check_call(
        key, check_config(config), design, response, axis, features, edges=edges, mask=mask
    )
    del arrays["design"]
    # The start is that of the published method whatever the method that follows.
    published = isinstance(config, PublishedConfig)
    start = config if published else PublishedConfig(alpha_cell=config.alpha_cell)
    limits = {"num_starts": num_starts, "max_iterations": max_iterations}
    return _diagnose_nonlinear(
        model, theta, inputs, key, arrays, config, start.checked(response.dtype), **limits
    )


def _initial_design(
    model: Model, theta: Any, inputs: Any, response: jax.Array, mask: Any
) -> jax.Array:
    """Derivatives ``(n, p)`` of the model at the initial parameters, zero in rows out of use.

    Raises:
      ValueError, TypeError: the model has no parameters, another number of rows, or a value or a
        derivative that is not finite in a row in use.
    """
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
    return jnp.where(used[:, None], design, 0.0).astype(response.dtype)
