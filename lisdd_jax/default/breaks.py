"""Does the law change altogether at one place? Two laws at every bound between cells (3.5).

Small changes of many coefficients show in no single direction. With ``S`` weighted residual sums of
the law, of all cells and of the ``c`` first and the other ones,

    F = (S - S_c - S'_c) / rank / (w' S_c / (n_c - rank) + w S'_c / (n - n_c - rank)),

``w`` and ``w'`` the shares of either side in the weights: each side has a noise of its own.

References:
  Chow (1960), Tests of equality between sets of coefficients in two linear regressions,
  Econometrica 28. Andrews (1993), Tests for parameter instability and structural change with
  unknown change point, Econometrica 61. Brown and Forsythe (1974), The small sample behavior of
  some statistics which test the equality of several means, Technometrics 16.
  docs/method.md, equation 26b.
"""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.numerics import hosted, small_systems, tolerances
from lisdd_jax.numerics.hosted import namespace, running_sums


class Breaks(NamedTuple):
    """Changes of the whole law at the bounds between cells, each ``(K - 1,)``.

    Attributes:
      gain: weighted sum of squares that two laws save.
      df_num, df_den: degrees of freedom; 0 where a side does not show a law and its noise.
      variance: of weighted residuals, of both sides for the difference of their laws.
      theta: ``(2, K - 1, p)`` laws before and after.
      whole: ``(p,)`` the law of all cells.
    """

    gain: Any
    df_num: Any
    df_den: Any
    variance: Any
    theta: Any
    whole: Any


class _Side(NamedTuple):
    left: Any
    rank: Any
    theta: Any
    determined: Any


def _fit_side(gram: Any, num_rows: Any) -> _Side:
    """Laws of sets of cells, from sums of products ``(..., p + 1, p + 1)``, the response last."""
    xp = namespace(gram)
    fit = small_systems.solve(gram[..., :-1, :-1], gram[..., :-1, -1], tolerances.gram(gram.dtype))
    left = gram[..., -1, -1] - xp.sum(fit.solution * gram[..., :-1, -1], -1)
    return _Side(xp.maximum(left, 0.0), fit.rank, fit.solution, num_rows > fit.rank + 1)


def _noise_of_difference(sides: Any, share: Any) -> tuple[Any, Any]:
    """Variance of weighted residuals for the difference of two laws, and its degrees of freedom.

    Weights of cells are not known exactly, and the shorter side's law has most of the error.

    Args:
      sides: both, each with its rows ``(K - 1,)``.
      share: ``(K - 1,)`` of the first in the weights of all.
    """
    xp = namespace(share)
    freedom = [xp.maximum(rows - side.rank, 1) for side, rows in sides]
    parts = [
        other * side.left / degrees
        for (side, _), degrees, other in zip(sides, freedom, (1 - share, share), strict=True)
    ]
    variance = parts[0] + parts[1]
    safe = xp.where(variance > 0, variance, 1.0)
    first, second = ((part / safe) ** 2 for part in parts)
    unequal = first / freedom[0] + second / freedom[1]
    some = unequal > 0
    welch = 1 / xp.where(some, unequal, 1.0)
    return variance, xp.where(some, welch, freedom[0] + freedom[1])


def fit_breaks(gram: Any, num_rows: Any, weight: Any, physics: slice) -> Breaks:
    """Fit two laws at every bound between cells; the law's columns are ``physics``.

    Args:
      gram: ``(K, m, m)`` of all columns, the response last.
      num_rows: ``(K,)``.
      weight: ``(K,)`` one over the noise variance.
      physics: columns of the law.
    """
    xp = namespace(gram)
    kept = np.append(np.arange(gram.shape[-1])[physics], -1)
    weighted = (gram * weight[:, None, None])[:, kept][:, :, kept]
    running = xp.moveaxis(running_sums(xp.moveaxis(weighted, 0, -1))[..., 1:], -1, 0)
    rows = running_sums(num_rows)[1:]
    # All cells, then the first ones and the others at every bound.
    sums = xp.concatenate([running[-1:], running[:-1], running[-1:] - running[:-1]])
    sides = _fit_side(sums, xp.concatenate([rows[-1:], rows[:-1], rows[-1:] - rows[:-1]]))
    parts = (slice(0, 1), slice(1, len(rows)), slice(len(rows), None))
    whole, first, second = (_Side(*(value[part] for value in sides)) for part in parts)
    shown = first.determined & second.determined
    rounding = tolerances.CANCELLATION(gram.dtype) * running[-1, -1, -1]
    both = ((first, rows[:-1]), (second, rows[-1:] - rows[:-1]))
    size = running_sums(num_rows * weight)[1:]
    variance, df_den = _noise_of_difference(both, size[:-1] / xp.where(size[-1:] > 0, size[-1:], 1))
    return Breaks(
        gain=xp.maximum(whole.left - first.left - second.left - rounding, 0.0),
        df_num=xp.where(shown, first.rank + second.rank - whole.rank, 0.0),
        df_den=xp.where(shown, df_den, 0.0),
        variance=variance + rounding,
        theta=xp.stack([first.theta, second.theta]),
        whole=whole.theta[0],
    )


def log_upper_f(ratio: Any, df_num: Any, df_den: Any) -> Any:
    """Log of the upper tail of the F distribution, by the cube root that makes it nearly normal.

    References:
      Paulson (1942), An approximate normalization of the analysis of variance distribution, Annals
      of Mathematical Statistics 13.
    """
    xp = namespace(ratio)
    root = xp.maximum(ratio, float(np.finfo(np.float32).tiny)) ** (1 / 3)
    small_num, small_den = 2 / (9 * df_num), 2 / (9 * df_den)
    spread = hosted.safe_root(small_den * root**2 + small_num)
    return hosted.log_ndtr(-((1 - small_den) * root - (1 - small_num)) / spread)
