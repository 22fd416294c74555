"""Physics, ends of regions and terms fitted together, as smooth functions of the data.

A hard diagnosis moves the end of a region from one row to the next, so it has no derivative in the
response. With ends that fade over a width they are parameters like the others, and least squares
makes all of them smooth functions of the data.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.hybrid import descent
from lisdd_jax.hybrid.layer import CorrectedModel, Parameters
from lisdd_jax.numerics import implicit, scaling, tolerances
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.status import Status, nan_where, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Refit:
    """A least-squares fit of a corrected model.

    Attributes:
      parameters: of the layer; NaN under a failure.
      residual_sum: sum of squared residuals.
      status: int32; ``NOT_CONVERGED`` where no minimum was found.
    """

    parameters: Parameters
    residual_sum: jax.Array
    status: jax.Array


def _size(residuals: jax.Array, response: jax.Array) -> jax.Array:
    """The norm of residuals; less than the rounding of the response is no residual."""
    residuals, response = lax.stop_gradient((residuals, response))
    size = scaling.root(jnp.sum(residuals**2))
    floor = tolerances.NOISE_FLOOR(response.dtype) * scaling.root(jnp.sum(response**2))
    size = jnp.maximum(size, floor)
    return jnp.where(size > 0, size, 1.0)


@partial(jax.jit, static_argnums=(0, 1))
@full_precision
def _refit(
    model: CorrectedModel,
    max_iterations: int,
    parameters: Parameters,
    inputs: Any,
    response: jax.Array,
    mask: jax.Array,
) -> Refit:
    free = {"physics": parameters.physics, "weights": parameters.weights}
    free |= {"lower": parameters.lower, "upper": parameters.upper}
    flat, unravel = ravel_pytree(free)
    width = parameters.log_width

    def with_numbers(flat: jax.Array) -> Parameters:
        return Parameters(**unravel(flat), log_width=width)

    def left(flat: jax.Array) -> jax.Array:
        return jnp.where(mask, response, 0.0) - model.apply(with_numbers(flat), inputs, mask=mask)

    fixed = lax.stop_gradient(flat)
    norms = scaling.column_norms(jax.jacfwd(left)(fixed))
    size = _size(left(fixed), jnp.where(mask, response, 0.0))
    unit = size / norms

    def residuals(unknown: jax.Array) -> jax.Array:
        return left(fixed + unit * unknown) / size

    def gradient(unknown: jax.Array) -> jax.Array:
        return jax.grad(lambda unknown: 0.5 * jnp.sum(residuals(unknown) ** 2))(unknown)

    start = descent.descend(
        residuals, descent.equal_weights, jnp.zeros_like(fixed), max_iterations
    ).unknown
    root = implicit.find_root(gradient, start, max_iterations)
    # What no row tells, such as the end of an open region, stays as it was.
    found = fixed + unit * root.solution
    sums = [jnp.sum(residuals(unknown) ** 2) for unknown in (start, root.solution)]
    # A stationary point above the end of the descent is a saddle, and no fit.
    rounding = tolerances.DESCENT(response.dtype)
    failed = ~root.converged | (sums[1] > (1 + rounding) * sums[0] + rounding**2)
    shown = partial(nan_where, failed)
    return Refit(
        parameters=jax.tree.map(shown, with_numbers(found)),
        residual_sum=shown(jnp.sum(left(found) ** 2)),
        status=status_if(failed, Status.NOT_CONVERGED),
    )


def refit(
    model: CorrectedModel,
    parameters: Parameters,
    inputs: Any,
    response: Any,
    *,
    mask: Any = None,
    max_iterations: int = 100,
) -> Refit:
    """Least squares for all numbers of a corrected model but its widths.

    Levenberg-Marquardt steps from ``parameters``, and Newton steps on the gradient at their end.
    Differentiable to any order in response, inputs and widths, by the implicit function theorem at
    the stationary point. The physics learns from all rows here, those of the regions included; keep
    to ``Diagnosis.coefficients`` where it must not.

    Args:
      model: the layer.
      parameters: where to begin, such as those of ``from_diagnosis``.
      inputs: operating variables, as the functions of the layer take them.
      response: ``(n,)``.
      mask: ``(n,)`` bool, rows to use; all where None.
      max_iterations: most steps of either kind (static).

    Returns:
      A ``Refit``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> import jax, numpy as np
      >>> model = CorrectedModel(
      ...     physics=lambda theta, t: theta * t,
      ...     axis=lambda t: t,
      ...     features=lambda t: t[:, None] ** 2,
      ...     support=((True,),), open_below=(False,), open_above=(True,),
      ... )
      >>> t = jax.device_put(np.linspace(0.0, 4.0, 60))
      >>> true = model.init(1.0, [2.0], [np.inf], width=0.2, weights=[[3.0]])
      >>> start = model.init(1.2, [2.1], [np.inf], width=0.2, weights=[[2.5]])
      >>> found = refit(model, start, t, jax.jit(model.apply)(true, t))
      >>> found.parameters.lower.round(3).tolist(), found.parameters.weights.round(3).tolist()
      ([2.0], [[3.0]])

    References:
      Moré (1978), The Levenberg-Marquardt algorithm: implementation and theory, Numerical Analysis
      (Lecture Notes in Mathematics 630).
    """
    response = validation.float_array("response", response)
    validation.check_count("max_iterations", max_iterations, 1)
    mask = validation.mask_array(mask, response.shape[0])
    validation.check_finite("response", response, mask)
    shape = jax.eval_shape(model.apply, parameters, inputs).shape
    if shape != response.shape:
        raise ValueError(
            f"model must give one prediction per row, shape {response.shape}, got shape {shape}"
        )
    return _refit(model, max_iterations, parameters, inputs, response, mask)
