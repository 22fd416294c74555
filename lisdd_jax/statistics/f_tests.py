"""F ratios, their tails, and the partial F-test of added terms (docs/method.md, equation 12).

Every F ratio of the library is made by ``f_ratio`` and referred to its distribution by
``log_p_values``.
"""

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.numerics import least_squares, scaling, tails, tolerances
from lisdd_jax.numerics.frame import whiten
from lisdd_jax.numerics.hosted import namespace
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if


class FRatio(NamedTuple):
    """F ratios ``(...)`` before their tails, with their degrees of freedom.

    Attributes:
      statistic: the ratio; of no meaning where it is undefined.
      df_num, df_den: degrees of freedom; one of them is not positive where a ratio is undefined.
    """

    statistic: jax.Array
    df_num: jax.Array
    df_den: jax.Array

    @property
    def defined(self) -> jax.Array:
        """Whether both degrees of freedom are positive."""
        return (self.df_num > 0) & (self.df_den > 0)

    def score(self) -> jax.Array:
        """Approximate normal score: enough to rank ratios, and cheaper than a tail.

        References:
          Paulson (1942), An approximate normalization of the analysis of variance distribution,
          Annals of Mathematical Statistics 13.
        """
        df_num, df_den = jnp.maximum(self.df_num, 1), jnp.maximum(self.df_den, 1)
        root = jnp.cbrt(jnp.maximum(self.statistic, 0.0))
        first, second = 2 / (9 * df_num), 2 / (9 * df_den)
        return ((1 - second) * root - (1 - first)) / jnp.sqrt(second * root**2 + first)


def f_ratio(
    gain: jax.Array,
    df_num: jax.Array,
    df_den: jax.Array,
    *,
    variance: jax.Array | float = 1.0,
) -> FRatio:
    """``F = (gain / df_num) / variance``.

    Args:
      gain: ``(...)`` drop of a residual sum of squares; or a Wald form, with ``variance`` 1.
      df_num: ``(...)`` directions that it lies in.
      df_den: ``(...)`` degrees of freedom of the variance.
      variance: ``(...)`` estimate of the noise variance.

    Returns:
      An ``FRatio`` of the floating-point type of ``gain``.
    """
    xp = namespace(gain)
    df_num, df_den = (xp.asarray(df).astype(gain.dtype) for df in (df_num, df_den))
    return FRatio(gain / xp.maximum(df_num, 1) / variance, df_num, df_den)


def log_p_values(*ratios: FRatio) -> tuple[jax.Array, ...]:
    """Log tail probabilities of several sets of ratios; NaN where undefined.

    One call evaluates them all, because the tail is slow to compile.
    """
    joined = [jnp.concatenate([jnp.ravel(x) for x in parts]) for parts in zip(*ratios, strict=True)]
    ratio = FRatio(*joined)
    safe = [jnp.where(ratio.defined, part, 1.0) for part in ratio]
    log_p = jnp.where(ratio.defined, tails.f_logsf(*safe), jnp.nan)
    ends = list(itertools.accumulate(ratio.statistic.size for ratio in ratios))
    pieces = jnp.split(log_p, ends[:-1])
    return tuple(
        piece.reshape(ratio.statistic.shape) for piece, ratio in zip(pieces, ratios, strict=True)
    )


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class FTest:
    """An F-test; every number is NaN under a failure.

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


def _withhold(test: FTest, status: jax.Array) -> FTest:
    """The test under a status that may be a failure."""
    shown = {
        name: nan_where(is_failure(status), value)
        for name, value in vars(test).items()
        if name != "status"
    }
    return FTest(**shown, status=status)


def _residual_sum(columns: jax.Array, fit: least_squares.Orthogonal, num: int) -> jax.Array:
    """Residual sum of the first ``num`` columns; its derivative is that at fixed coefficients."""
    triangle, coordinates = fit.triangle[:num, :num], fit.coordinates[:num]
    fixed = least_squares.back_substitute(triangle, coordinates, fit.independent[:num])[:, 0]
    return jnp.sum((columns[:, -1] - columns[:, :num] @ fixed) ** 2)


@full_precision
def partial_f(basis: jax.Array, extra: jax.Array, response: jax.Array, mask: jax.Array) -> FTest:
    """The partial F-test in a well-conditioned frame; the traced core of ``f_test``.

    Args:
      basis, response: the physics columns ``(n, p)`` in a frame and the response ``(n,)`` less its
        offset there (see ``numerics.frame``).
      extra: ``(n, q)`` added columns.
      mask: ``(n,)`` bool, rows to use.

    Returns:
      An ``FTest``.
    """
    size = basis.shape[1]
    columns = jnp.where(mask[:, None], jnp.column_stack([basis, extra, response]), 0.0)
    compressed = least_squares.compress_scaled(jax.lax.stop_gradient(columns))
    nonfinite = ~jnp.all(jnp.isfinite(compressed.largest))
    # No unit of the response changes the test, and squares in this one stay in range.
    unit = scaling.binary_unit(compressed.largest[-1])
    units = jnp.ones(columns.shape[1], columns.dtype).at[-1].set(unit)
    columns = columns / units[None]
    factor = compressed.factor * (compressed.units / units)[None]
    target = factor[:, -1]
    fit = least_squares.orthogonalize(factor[:, :-1], target[:, None])
    smaller, larger = (_residual_sum(columns, fit, num) for num in (size, columns.shape[1] - 1))
    # Orthogonal coordinates give the drop in the residual sum without a difference of two sums.
    gain = least_squares.attach(jnp.sum(fit.coordinates[size:] ** 2), smaller - larger)
    residual_sum = least_squares.attach(fit.residual_sums[0], larger)
    df_num = jnp.sum(fit.independent[size:])
    df_den = jnp.sum(mask) - jnp.sum(fit.independent)
    negligible = tolerances.EXACT_FIT(target.dtype) ** 2 * jnp.sum(target**2)
    exact = residual_sum <= negligible
    status = first_failure(
        status_if(nonfinite, Status.NONFINITE_INPUT),
        status_if(df_num == 0, Status.NO_USABLE_TERMS),
        status_if(df_den < 1, Status.TOO_FEW_TEST_ROWS),
        status_if(exact & (gain <= negligible), Status.ZERO_SCALE),
        status_if(exact, Status.EXACT_FIT),
        status_if(jnp.any(~fit.independent[size:]), Status.RANK_DEFICIENT_TERMS),
    )
    variance = residual_sum / jnp.maximum(df_den, 1).astype(target.dtype)
    ratio = f_ratio(gain, df_num, df_den, variance=jnp.where(exact, 1.0, variance))
    ratio = ratio._replace(statistic=jnp.where(exact, jnp.inf, ratio.statistic))
    (log_p,) = log_p_values(ratio)
    test = FTest(**ratio._asdict(), p_value=jnp.exp(log_p), log_p_value=log_p, status=status)
    return _withhold(test, status)


@jax.jit
@full_precision
def _f_test(design: jax.Array, extra: jax.Array, response: jax.Array, mask: jax.Array) -> FTest:
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
    return _withhold(test, status)


def f_test(design: Any, extra: Any, response: Any, *, mask: Any = None) -> FTest:
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
      An ``FTest``; NaN under ``NO_USABLE_TERMS`` (no added column is independent),
      ``RANK_DEFICIENT_DESIGN``, ``TOO_FEW_TEST_ROWS`` and ``ZERO_SCALE``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> import numpy as np
      >>> x = np.array([0.0, 1.0, 2.0, 3.0])
      >>> test = f_test(np.ones((4, 1)), x[:, None], np.array([0.0, 1.0, 2.0, 4.0]))
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
    validation.check_filled(design=design)
    validation.common_dtype(design=design, extra=extra, response=response)
    mask = validation.mask_array(mask, design.shape[0])
    for name, value in (("design", design), ("extra", extra), ("response", response)):
        validation.check_finite(name, value, mask)
    return _f_test(design, extra, response, mask)
