"""Least trimmed squares: the physics fit that ignores the rows it explains worst.

References:
  docs/method.md, equations 4 and 5.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.numerics import least_squares, normal_equations, order, scaling, tolerances
from lisdd_jax.numerics.compiler_passes import without_slow_passes
from lisdd_jax.numerics.frame import to_frame
from lisdd_jax.numerics.hosted import is_known
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.statistics.trimmed.search import search_one
from lisdd_jax.status import Status, first_failure, is_failure, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class TrimmedFit:
    """A least-trimmed-squares fit.

    Attributes:
      coefficients: ``(p,)``; NaN under a failure.
      objective: sum of the ``h`` smallest squared residuals.
      kept: ``(n,)`` bool, exactly ``h`` rows.
      scale: root mean square of the kept residuals, corrected for the trimming at the normal;
        0 under ``EXACT_FIT``.
      status: int32.
    """

    coefficients: jax.Array
    objective: jax.Array
    kept: jax.Array
    scale: jax.Array
    status: jax.Array


def _normal_consistency(share: jax.Array) -> jax.Array:
    """Standard deviation of a normal over that of its central ``share`` (Croux and Rousseeuw)."""
    share = jnp.clip(share, 1e-6, 1.0)
    whole = share >= 1.0
    bound = jsp.special.ndtri(0.5 * (1 + jnp.where(whole, 0.5, share)))
    truncated = 1 - 2 * bound * jsp.stats.norm.pdf(bound) / share
    return jnp.where(whole, 1.0, 1 / jnp.sqrt(truncated))


def _with_derivatives(
    basis: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    num: jax.Array,
    squares: jax.Array,
    solution: jax.Array,
    objective: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Solution and objective with the derivatives of least squares on the rows kept."""
    weights = jnp.where(mask, order.smallest_weights(squares, num)[0], 0.0)
    fixed = lax.stop_gradient(basis)
    gram = fixed.T @ (fixed * weights[:, None])
    inverse = normal_equations.sweep(gram, solution).inverse
    left = jnp.where(mask, response - basis @ solution, 0.0)
    step = inverse @ (basis.T @ (weights * left))
    return (
        least_squares.attach(solution, solution + step),
        least_squares.attach(objective, jnp.sum(weights * left**2)),
    )


@full_precision
def _fit(
    key: jax.Array,
    design: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    trim: jax.Array,
    num_starts: int,
    full_search_rows: int,
) -> TrimmedFit:
    finite = jnp.isfinite(response) & jnp.all(jnp.isfinite(design), axis=1)
    nonfinite = jnp.any(mask & ~finite)
    mask = mask & finite
    frame, basis, centered = to_frame(design, response, mask)
    # A power of two: squares of tiny responses leave the range of floats, those in it do not.
    unit = scaling.binary_unit(jnp.max(jnp.abs(centered)))
    centered = centered / unit
    sample = (lax.stop_gradient(basis), lax.stop_gradient(centered), mask)
    found, lowest, search_status = lax.stop_gradient(
        search_one(key, sample, trim, num_starts=num_starts, full_search_rows=full_search_rows)
    )
    count = jnp.sum(mask, dtype=jnp.int32)
    num = order.num_kept(count, trim, design.dtype)
    squares = jnp.where(mask, lax.stop_gradient(centered - basis @ found) ** 2, jnp.inf)
    solution, objective = _with_derivatives(basis, centered, mask, num, squares, found, lowest)
    size = design.shape[1]
    num_rows, num_fitted = (jnp.maximum(n, 1).astype(design.dtype) for n in (count, num))
    size_of_response = jnp.sqrt(jnp.sum(centered**2) / num_rows)
    size_of_response = jnp.maximum(size_of_response, jnp.abs(frame.response_center) / unit)
    root = scaling.root(objective / num_fitted)
    exact = root <= tolerances.RESIDUAL(root.dtype) * size_of_response
    status = first_failure(
        status_if(nonfinite, Status.NONFINITE_INPUT),
        status_if(num <= size, Status.TOO_FEW_ROWS),
        status_if(~jnp.all(frame.independent), Status.RANK_DEFICIENT_DESIGN),
        search_status,
        status_if(exact, Status.EXACT_FIT),
    )
    failed = is_failure(status)
    scale = jnp.where(exact, 0.0, root * _normal_consistency(num.astype(root.dtype) / num_rows))
    return TrimmedFit(
        coefficients=jnp.where(failed, jnp.nan, frame.coefficients(unit * solution)),
        objective=jnp.where(failed, jnp.nan, objective * unit * unit),
        kept=order.smallest_mask(squares, num) & mask & ~failed,
        scale=jnp.where(failed, jnp.nan, unit * scale),
        status=status,
    )


_compile = functools.partial(jax.jit, static_argnames=("num_starts", "full_search_rows"))
_fit_traced = _compile(_fit)


@functools.cache
def _fit_known(dtype: np.dtype) -> Any:
    """The fit compiled for known values; on the first call, since asking for the device settles it.

    Under a trace the outer program is compiled as its owner says.
    """
    if jax.default_backend() != "cpu":
        return _fit_traced
    return _compile(_fit, compiler_options=without_slow_passes(dtype, many_at_once=False))


def fit_trimmed(
    design: Any,
    response: Any,
    *,
    key: jax.Array,
    trim: Any,
    num_starts: int = 3000,
    full_search_rows: int = 2000,
    mask: Any = None,
) -> TrimmedFit:
    """Least-trimmed-squares fit: least squares on the ``h`` rows that can be fitted best.

    Minimises the sum of the ``h = ceil((1 - trim) n)`` smallest squared residuals. The search is
    random; with enough starts its result does not depend on the key. Up to ``full_search_rows``
    rows every start is judged on all rows, and the twenty best are concentrated to convergence;
    beyond them starts are judged on a random subsample of 300, the twenty best make two steps on
    all rows, and the two that lead are concentrated to convergence.

    Coefficients, objective and scale have the derivatives of least squares on the rows in ``kept``,
    which are those of the fit itself away from the points where another row is kept.

    Args:
      design: ``(n, p)`` regressors; an intercept is a column of ones.
      response: ``(n,)``.
      key: typed key of the random starts.
      trim: share of rows left out, from 0 to 0.5.
      num_starts: random starts (static).
      full_search_rows: see above (static).
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``TrimmedFit``. Everything is NaN (``kept`` all False) under ``TOO_FEW_ROWS``,
      ``RANK_DEFICIENT_DESIGN``, ``DEGENERATE_STARTS`` and ``NONFINITE_INPUT``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> import jax, numpy as np
      >>> x = np.arange(1.0, 21.0)
      >>> y = 2 + 3 * x + np.where(x > 14, 20.0, 0.0)
      >>> design = np.column_stack([np.ones(20), x])
      >>> fit = fit_trimmed(design, y, key=jax.random.key(0), trim=0.3)
      >>> [round(float(c), 3) for c in fit.coefficients], float(fit.scale)
      ([2.0, 3.0], 0.0)

    References:
      Rousseeuw (1984), Least median of squares regression, JASA 79.
      Rousseeuw and Van Driessen (2006), Computing LTS regression for large data sets, DMKD 12.
    """
    design = validation.float_array("design", design)
    response = validation.float_array("response", response)
    shapes = validation.Shapes()
    shapes.check("design", design.shape, ("n", "p"))
    shapes.check("response", response.shape, ("n",))
    validation.common_dtype(design=design, response=response)
    validation.check_filled(design=design)
    mask = validation.mask_array(mask, design.shape[0])
    validation.check_finite("design", design, mask)
    validation.check_finite("response", response, mask)
    validation.check_number("trim", trim, 0.0, 0.5)
    validation.check_count("num_starts", num_starts, 1)
    validation.check_count("full_search_rows", full_search_rows, 1)
    key = validation.check_key(key)
    trim = jnp.asarray(trim, design.dtype)
    arguments = (key, design, response, mask, trim)
    program = _fit_known(design.dtype) if is_known(arguments) else _fit_traced
    fit: TrimmedFit = program(*arguments, num_starts, full_search_rows)
    return fit
