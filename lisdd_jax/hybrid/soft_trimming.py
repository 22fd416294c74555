"""The trimmed fit as a smooth function of the data."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.hybrid import gates
from lisdd_jax.numerics import implicit, order
from lisdd_jax.numerics.frame import to_frame
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.statistics.trimmed.fit import TrimmedFit, fit_trimmed
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothTrimmedFit:
    """A trimmed fit under smooth weights; NaN under a failure.

    Attributes:
      coefficients: ``(p,)``.
      objective: weighted sum of squared residuals.
      weights: ``(n,)`` in [0, 1]; they sum to the number of rows kept.
      status: int32.
    """

    coefficients: jax.Array
    objective: jax.Array
    weights: jax.Array
    status: jax.Array


@jax.jit
@full_precision
def _solve(
    design: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    trim: jax.Array,
    temperature: jax.Array,
    hard: TrimmedFit,
) -> SmoothTrimmedFit:
    failed = is_failure(hard.status)
    frame, basis, centered = to_frame(design, response, mask)
    about = frame.solution(jnp.where(failed, 0.0, hard.coefficients))
    residual = centered - basis @ about
    count = jnp.sum(mask, dtype=jnp.int32)
    num = order.num_kept(count, trim, design.dtype)
    kept = jnp.maximum(num, 1).astype(design.dtype)
    unit = lax.stop_gradient(jnp.sqrt(jnp.where(failed, 1.0, hard.objective) / kept))
    unit = jnp.where(unit > 0, unit, 1.0)
    squares = jnp.where(mask, lax.stop_gradient(residual / unit) ** 2, jnp.inf)
    threshold = order.kth_smallest(squares, jnp.maximum(num, 1))

    def weigh(unknown: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Residuals in units of ``unit``, and weights."""
        left = residual / unit - basis @ unknown[:-2]
        ratio = left**2 / jnp.exp(unknown[-1])
        gate = (1 + gates.smooth_sign(unknown[-2] - ratio, temperature)) / 2
        return left, jnp.where(mask, gate, 0.0)

    def equations(unknown: jax.Array) -> jax.Array:
        left, weights = weigh(unknown)
        balance = basis.T @ (weights * left) / kept
        spread = jnp.sum(weights * left**2) / kept / jnp.exp(unknown[-1]) - 1
        return jnp.concatenate([balance, jnp.stack([jnp.sum(weights) / kept - 1, spread])])

    start = jnp.zeros(basis.shape[1] + 2, basis.dtype).at[-2].set(threshold)
    root = implicit.find_root(equations, jnp.where(jnp.isfinite(start), start, 0.0))
    left, weights = weigh(root.solution)
    status = first_failure(hard.status, status_if(~root.converged, Status.NOT_CONVERGED))
    shown = partial(nan_where, is_failure(status))
    return SmoothTrimmedFit(
        coefficients=shown(frame.coefficients(about + unit * root.solution[:-2])),
        objective=shown(jnp.sum(weights * (unit * left) ** 2)),
        weights=shown(weights),
        status=status,
    )


def smooth_fit_trimmed(
    design: Any,
    response: Any,
    *,
    key: jax.Array,
    trim: Any,
    temperature: Any = 0.05,
    num_starts: int = 3000,
    mask: Any = None,
) -> SmoothTrimmedFit:
    """Least trimmed squares with a smooth weight in place of the choice of rows.

    A row's weight is ``(1 + v / sqrt(v^2 + T^2)) / 2`` with ``v = q - r^2 / s^2``. Coefficients,
    ``q`` and ``s^2`` solve the weighted normal equations, ``sum w = h`` and ``sum w r^2 = h s^2``,
    near the hard fit, to which all tends as ``T`` falls to zero.

    Differentiable to any order in design, response and temperature, by the implicit function
    theorem.

    Args:
      design, response, key, num_starts, mask: as for ``fit_trimmed``.
      trim: share of rows left out, above 0: at least one row must go.
      temperature: in ``[LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE]``; traced.

    Returns:
      A ``SmoothTrimmedFit``; NaN, with derivative zero, under a failure of the hard fit and under
      ``NOT_CONVERGED``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> t = jnp.linspace(0.0, 1.0, 60)
      >>> y = 2 * t + jnp.where(t >= 0.75, 1.0, 0.0)  + 0.1 * jnp.sin(997 * t**2)
      >>> found = smooth_fit_trimmed(
      ...     t[:, None], y, key=jax.random.key(0), trim=0.3, temperature=0.05, num_starts=10
      ... )
      >>> found.coefficients.round(1).tolist()
      [2.0]

    References:
      Rousseeuw and Leroy (1987), Robust Regression and Outlier Detection, chapter 4 (least trimmed
      squares).
    """
    design = validation.float_array("design", design)
    response = validation.float_array("response", response)
    temperature = gates.check_temperature(temperature, design.dtype)
    hard = fit_trimmed(
        lax.stop_gradient(design),
        lax.stop_gradient(response),
        key=key,
        trim=trim,
        num_starts=num_starts,
        mask=mask,
    )
    mask = validation.mask_array(mask, design.shape[0])
    if all(map(validation.is_concrete, (trim, mask))):
        left_out = float(trim) * int(jnp.sum(mask))
        if left_out < 1:
            raise ValueError(f"trim must leave out at least one row, got {left_out:g} rows")
    trim = jnp.asarray(trim, design.dtype)
    return _solve(design, response, mask, trim, temperature, hard)
