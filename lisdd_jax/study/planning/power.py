r"""Power planning: how many rows a study needs to find a missing term.

With a term of root mean square :math:`s \sigma` inside a region that holds a share :math:`\pi` of
the rows, the certificate on :math:`m = n / 2` held-out rows is a noncentral F test,

.. math:: F \sim F_{q,\, m - p - q}(\lambda), \qquad \lambda = m \pi s^2 (1 - a),

where ``a`` is the share of the term's energy that the physics columns absorb. Before that the
region has to be noticed on the other half: a cell with :math:`m \pi / c` rows of the region is
flagged when a noncentral chi-square variable with as many degrees of freedom, and noncentrality
:math:`m \pi s^2 / c`, passes its critical value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from lisdd_jax import validation
from lisdd_jax.numerics.noncentral import ncf_sf

_MOST_ROWS = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A missing term, and the test that is to find it.

    Attributes:
      size: root mean square of the term inside its region over the noise's standard deviation.
      share: share of the rows inside the region.
      num_terms: terms tested, ``q``.
      num_physics: physics coefficients, ``p``.
      absorbed: share of the term's sum of squares that physics columns on all rows explain.
      alpha: level of the certificate.
      alpha_cell: level of the test of a cell.
      cells_in_region: cells that the region covers, ``c``.
    """

    size: float
    share: float
    num_terms: int = 1
    num_physics: int = 2
    absorbed: float = 0.0
    alpha: float = 0.05
    alpha_cell: float = 1e-3
    cells_in_region: int = 1

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check("size", self.size, 0.0, math.inf, open_low=True)
        _check("share", self.share, 0.0, 1.0, open_low=True)
        _check("absorbed", self.absorbed, 0.0, 1.0, open_high=True)
        _check("alpha", self.alpha, 0.0, 1.0, open_low=True, open_high=True)
        _check("alpha_cell", self.alpha_cell, 0.0, 1.0, open_low=True, open_high=True)
        for name in ("num_terms", "num_physics", "cells_in_region"):
            validation.check_count(name, getattr(self, name), 1)


def _check(
    name: str, value: Any, low: float, high: float, open_low: bool = False, open_high: bool = False
) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value):
        above = value > low if open_low else value >= low
        below = value < high if open_high else value <= high
        if above and below:
            return
    left, right = "(" if open_low else "[", ")" if open_high or high == math.inf else "]"
    raise ValueError(f"{name} must lie in {left}{low:g}, {high:g}{right}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class PowerPlan:
    """How many rows an effect needs.

    Attributes:
      effect: what is to be found.
      power: the power asked for.
      num_rows: rows, both halves together, with which the region is noticed on one half and
        certified on the other with that power.
      num_rows_known_region: rows with which the certificate alone has that power, for a region and
        form that are right.
      certificate: power of the certificate at ``num_rows``.
      localization: probability at ``num_rows`` that a cell of the region is flagged.
    """

    effect: Effect
    power: float
    num_rows: int
    num_rows_known_region: int
    certificate: float
    localization: float


def certificate_power(effect: Effect, num_rows: int) -> float:
    """Power of the held-out F-test given the right region and form.

    ``P(F' > f)`` with ``f`` the critical value of the central F, and noncentrality
    ``(n / 2) share size^2 (1 - absorbed)``.

    Args:
      effect: what is to be found.
      num_rows: rows of both halves together.

    Returns:
      The power; 0 where there are not enough rows for the test.

    Example:
      >>> round(certificate_power(Effect(size=0.5, share=0.2), 600), 2)
      0.97
    """
    held_out = num_rows // 2
    df_den = held_out - effect.num_physics - effect.num_terms
    if df_den < 1:
        return 0.0
    # The quantile by way of the beta variable d2 / (d2 + d1 F).
    beta = float(special.betaincinv(df_den / 2, effect.num_terms / 2, effect.alpha))
    critical = df_den / effect.num_terms * (1 / beta - 1)
    noncentrality = held_out * effect.share * effect.size**2 * (1 - effect.absorbed)
    return float(ncf_sf(critical, effect.num_terms, df_den, noncentrality))


def localization_power(effect: Effect, num_rows: int) -> float:
    """Probability that the energy test flags one cell which the region covers, on one half.

    The noise scale and the physics are taken as known, so this is the power of the test at its
    best; an inflated scale lowers it. It counts a single cell: with several the chance that any is
    flagged is larger.

    Args:
      effect: what is to be found.
      num_rows: rows of both halves together.

    Returns:
      The probability; 0 where the cell would be empty.
    """
    count = int(num_rows // 2 * effect.share / effect.cells_in_region)
    if count < 1:
        return 0.0
    critical = float(special.chdtri(count, effect.alpha_cell)) / count
    # With infinitely many degrees of freedom below, F times those above is chi-square.
    return float(ncf_sf(critical, count, math.inf, count * effect.size**2))


def plan_rows(effect: Effect, *, power: float = 0.8) -> PowerPlan:
    """The least number of rows that finds an effect with a given power.

    A term counts as found when a cell of its region is flagged on one half of the rows, and the
    other half certifies it. The halves are independent, so the two probabilities multiply.

    Args:
      effect: what is to be found.
      power: between ``alpha`` and 1.

    Returns:
      A ``PowerPlan``.

    Raises:
      ValueError: an argument is out of range, or no number of rows up to 2^30 suffices.

    Example:
      >>> plan = plan_rows(Effect(size=0.5, share=0.2), power=0.9)
      >>> plan.num_rows_known_region, plan.num_rows > plan.num_rows_known_region
      (426, True)

    References:
      Cohen (1988), Statistical Power Analysis for the Behavioral Sciences, chapter 9.
    """
    _check("power", power, effect.alpha, 1.0, open_low=True, open_high=True)

    def whole(num_rows: int) -> float:
        return certificate_power(effect, num_rows) * localization_power(effect, num_rows)

    num_rows = _smallest(whole, power)
    return PowerPlan(
        effect=effect,
        power=power,
        num_rows=num_rows,
        num_rows_known_region=_smallest(lambda n: certificate_power(effect, n), power),
        certificate=certificate_power(effect, num_rows),
        localization=localization_power(effect, num_rows),
    )


def power_curve(effect: Effect, num_rows: Any) -> dict[str, np.ndarray]:
    """Power at several numbers of rows.

    Args:
      effect: what is to be found.
      num_rows: ``(k,)`` whole numbers.

    Returns:
      ``num_rows``, ``certificate``, ``localization`` and ``whole`` (their product), each ``(k,)``.
    """
    rows = np.atleast_1d(np.asarray(num_rows, np.int64))
    certificate = np.array([certificate_power(effect, int(n)) for n in rows])
    localization = np.array([localization_power(effect, int(n)) for n in rows])
    return {
        "num_rows": rows,
        "certificate": certificate,
        "localization": localization,
        "whole": certificate * localization,
    }


def _smallest(curve: Callable[[int], float], power: float) -> int:
    """The least even number at which a rising curve reaches a power, by bisection.

    Whole rows per cell make the curve rise in small steps; beyond the least such number it can
    fall short by as much as one step.
    """
    low, high = 0, 8
    while curve(high) < power:
        low, high = high, 2 * high
        if high > _MOST_ROWS:
            raise ValueError(
                f"the effect must be large enough to be found with power {power:g} in at most"
                f" {_MOST_ROWS} rows"
            )
    while high - low > 2:
        middle = (low + high) // 4 * 2
        low, high = (low, middle) if curve(middle) >= power else (middle, high)
    return high
