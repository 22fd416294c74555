"""Stage 4, whether: the partial F-test of added terms."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.numerics import least_squares, tails
from lisdd_jax.numerics.frame import whiten
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class PartialF:
    """A partial F-test; every number is NaN under a failure.

    Attributes:
      statistic, df_num, df_den: the ratio and its degrees of freedom.
      p_value, log_p_value: upper tail.
      status: int32; ``EXACT_FIT`` where the larger model leaves no residual (statistic inf).
    """

    statistic: jax.Array
    df_num: jax.Array
    df_den: jax.Array
    p_value: jax.Array
    log_p_value: jax.Array
    status: jax.Array


def _residual_sum(columns: jax.Array, fit: least_squares.Orthogonal, num: int) -> jax.Array:
    """Residual sum of the first ``num`` columns; its derivative is that at fixed coefficients."""
    triangle, coordinates = fit.triangle[:num, :num], fit.coordinates[:num]
    fixed = least_squares.back_substitute(triangle, coordinates, fit.independent[:num])[:, 0]
    return jnp.sum((columns[:, -1] - columns[:, :num] @ fixed) ** 2)


@full_precision
def partial_f(basis: jax.Array, extra: jax.Array, response: jax.Array, mask: jax.Array) -> PartialF:
    """The partial F-test in a well-conditioned frame; the traced core of ``f_test``.

    Args:
      basis, response: the physics columns ``(n, p)`` in a frame and the response ``(n,)`` less its
        offset there (see ``numerics.frame``).
      extra: ``(n, q)`` added columns.
      mask: ``(n,)`` bool, rows to use.

    Returns:
      A ``PartialF``.
    """
    size = basis.shape[1]
    columns = jnp.where(mask[:, None], jnp.column_stack([basis, extra, response]), 0.0)
    nonfinite = ~jnp.all(jnp.isfinite(columns))
    factor = least_squares.compress(jax.lax.stop_gradient(columns))
    target = factor[:, -1]
    fit = least_squares.orthogonalize(factor[:, :-1], target[:, None])
    smaller, larger = (_residual_sum(columns, fit, num) for num in (size, columns.shape[1] - 1))
    # Orthogonal coordinates give the drop in the residual sum without a difference of two sums.
    gain = least_squares.attach(jnp.sum(fit.coordinates[size:] ** 2), smaller - larger)
    residual_sum = least_squares.attach(fit.residual_sums[0], larger)
    df_num = jnp.sum(fit.independent[size:])
    df_den = jnp.sum(mask) - jnp.sum(fit.independent)
    total = jnp.sum(target**2)
    negligible = (1e2 * jnp.finfo(target.dtype).eps) ** 2 * total
    exact = residual_sum <= negligible
    status = first_failure(
        status_if(nonfinite, Status.NONFINITE_INPUT),
        status_if(df_num == 0, Status.NO_USABLE_TERMS),
        status_if(df_den < 1, Status.TOO_FEW_TEST_ROWS),
        status_if(exact & (gain <= negligible), Status.ZERO_SCALE),
        status_if(exact, Status.EXACT_FIT),
        status_if(jnp.any(~fit.independent[size:]), Status.RANK_DEFICIENT_TERMS),
    )
    numerator = gain / jnp.maximum(df_num, 1)
    denominator = residual_sum / jnp.maximum(df_den, 1)
    ratio = numerator / jnp.where(exact, 1.0, denominator)
    statistic = jnp.where(exact, jnp.inf, ratio)
    failed = is_failure(status)
    df_num = jnp.where(failed, jnp.nan, df_num.astype(target.dtype))
    df_den = jnp.where(failed, jnp.nan, df_den.astype(target.dtype))
    safe_num, safe_den = jnp.where(failed, 1.0, df_num), jnp.where(failed, 1.0, df_den)
    log_p = tails.f_logsf(jnp.where(failed, 1.0, statistic), safe_num, safe_den)
    log_p = jnp.where(failed, jnp.nan, log_p)
    return PartialF(
        statistic=jnp.where(failed, jnp.nan, statistic),
        df_num=df_num,
        df_den=df_den,
        p_value=jnp.exp(log_p),
        log_p_value=log_p,
        status=status,
    )


@jax.jit
@full_precision
def _f_test(design: jax.Array, extra: jax.Array, response: jax.Array, mask: jax.Array) -> PartialF:
    frame = whiten(design, response, mask)
    centered = frame.center_response(design, response)
    test = partial_f(frame.to_basis(design), extra, centered, mask)
    finite = jnp.isfinite(response) & jnp.all(jnp.isfinite(design), axis=1)
    status = first_failure(
        status_if(jnp.any(mask & ~finite), Status.NONFINITE_INPUT),
        status_if(~jnp.any(mask), Status.TOO_FEW_TEST_ROWS),
        status_if(~jnp.all(frame.independent), Status.RANK_DEFICIENT_DESIGN),
        test.status,
    )
    failed = is_failure(status)
    numbers = {
        name: nan_where(failed, getattr(test, name))
        for name in ("statistic", "df_num", "df_den", "p_value", "log_p_value")
    }
    return PartialF(**numbers, status=status)


def f_test(design: Any, extra: Any, response: Any, *, mask: Any = None) -> PartialF:
    """Test whether added columns explain anything beyond the design.

    ``F = ((RSS0 - RSS1) / q) / (RSS1 / (m - p - q))`` for ``m`` rows, ``p`` columns of the design
    and ``q`` added ones. For independent Gaussian noise of one variance, and columns fixed before
    the rows were seen, ``F`` has the F distribution with ``q`` and ``m - p - q`` degrees of freedom
    exactly. Added columns in the span of those before them do not count in ``q``.

    Differentiable in all three arrays.

    Args:
      design: ``(n, p)``.
      extra: ``(n, q)`` added columns.
      response: ``(n,)``.
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``PartialF``; NaN under ``NO_USABLE_TERMS`` (no added column is independent),
      ``RANK_DEFICIENT_DESIGN``, ``TOO_FEW_TEST_ROWS`` and ``ZERO_SCALE``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> import jax.numpy as jnp
      >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
      >>> test = f_test(jnp.ones((4, 1)), x[:, None], jnp.array([0.0, 1.0, 2.0, 4.0]))
      >>> round(float(test.statistic), 4), float(test.df_num), float(test.df_den)
      (56.3333, 1.0, 2.0)

    References:
      Wang, Localized and identifiable discovery of model discrepancy, equation (ftest).
    """
    design = validation.float_array("design", design)
    extra = validation.float_array("extra", extra)
    response = validation.float_array("response", response)
    shapes = validation.Shapes()
    shapes.check("design", design.shape, ("n", "p"))
    shapes.check("extra", extra.shape, ("n", "q"))
    shapes.check("response", response.shape, ("n",))
    validation.common_dtype(design=design, extra=extra, response=response)
    mask = validation.mask_array(mask, design.shape[0])
    for name, value in (("design", design), ("extra", extra), ("response", response)):
        validation.check_finite(name, value, mask)
    return _f_test(design, extra, response, mask)
