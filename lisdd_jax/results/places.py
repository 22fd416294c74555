"""Where: the map of the cells, the discrepant intervals, and what lies in them."""

from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import register_dataclass


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The map over the operating axis, one entry per cell.

    Attributes:
      lower, upper: ``(R,)`` cell edges in units of the axis; cells are half-open, the last closed.
      count: ``(R,)`` rows in use per cell.
      mean, rms: ``(R,)`` mean and root mean square of the residual of the trusted physics.
      statistic: ``(R,)`` test statistic of the evidence in use; NaN where a cell is not testable.
      p_value, log_p_value: ``(R,)`` its upper tail.
      flagged: ``(R,)`` bool, the cells called discrepant.
      noisier: ``(R,)`` bool, cells with larger noise but no wrong mean (default).
    """

    lower: jax.Array
    upper: jax.Array
    count: jax.Array
    mean: jax.Array
    rms: jax.Array
    statistic: jax.Array
    p_value: jax.Array
    log_p_value: jax.Array
    flagged: jax.Array
    noisier: jax.Array


def in_interval(
    axis: Any, lower: Any, upper: Any, open_below: Any = False, open_above: Any = False
) -> Any:
    """Whether values of the axis lie in an interval: the one rule for membership.

    An interval is half-open, ``[lower, upper)``. On a side where it reaches the end of the axis it
    is open, and goes on beyond.

    Args:
      axis, lower, upper, open_below, open_above: numbers or arrays, of NumPy or JAX, of shapes that
        broadcast.

    Returns:
      Their common shape, bool; False for a NaN, which lies nowhere.
    """
    # A NaN is not equal to itself, on the host and under a trace alike.
    known = axis == axis
    return ((axis >= lower) | open_below) & ((axis < upper) | open_above) & known


def reaches_ends(
    lower: jax.Array, upper: jax.Array, edges: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Whether intervals ``(K,)`` reach the first and the last of the edges ``(R + 1,)``."""
    return lower <= edges[0], upper >= edges[-1]


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Regions:
    """The discrepant intervals in ``K`` slots; ``present`` says which slots are in use.

    Attributes:
      lower, upper: ``(K,)`` interval ends in units of the axis, NaN where absent.
      open_below, open_above: ``(K,)`` bool, the interval reaches that end of the axis, and goes on
        beyond it.
      present: ``(K,)`` bool.
      count: ``(K,)`` rows inside.
      support: ``(K, L)`` bool, terms active in the interval.
      coefficients, stderr: ``(K, L)`` term coefficients and their standard errors, 0 and NaN off
        the support.
      equivalent: ``(K, S)`` bool, supports as good as the chosen one.
      statistic, p_value, log_p_value: ``(K,)`` evidence for the interval. Published: the residual
        energy of its cells, on the rows that flagged them, so that the p-value does not pay for
        their choice and is too small (see ``same_rows``). Default: twice the nats that the interval
        gains beside the others, and a bound, the search paid for.
      same_rows: bool, the rows that gave this evidence also chose the intervals.
      lower_interval, upper_interval: ``(K, 2)`` 95 % confidence intervals of the ends (default).
      adjusted_p_value: ``(K,)`` that bound times the number of regions (default).
      shared: bool, the regions share one mechanism; False where there is but one (default).
      softness: ``(K, 2)`` half width over which the correction grows from zero at either end; 0
        where it does at once, NaN where it jumps (default).
      lacking: ``(K,)`` bool, no support predicts nearly as well as a change of the law's own
        coefficients in the interval: the library lacks the term (default).
    """

    lower: jax.Array
    upper: jax.Array
    open_below: jax.Array
    open_above: jax.Array
    present: jax.Array
    count: jax.Array
    support: jax.Array
    coefficients: jax.Array
    stderr: jax.Array
    equivalent: jax.Array
    statistic: jax.Array
    p_value: jax.Array
    log_p_value: jax.Array
    same_rows: jax.Array
    lower_interval: jax.Array
    upper_interval: jax.Array
    adjusted_p_value: jax.Array
    shared: jax.Array
    softness: jax.Array
    lacking: jax.Array

    def contains(self, axis: jax.Array) -> jax.Array:
        """Whether rows lie in the regions, by ``in_interval``.

        Args:
          axis: ``(n,)``.

        Returns:
          ``(K, n)`` bool; False in slots out of use, and where the axis is NaN.
        """
        ends = (self.lower, self.upper, self.open_below, self.open_above)
        inside = in_interval(axis[None], *(end[:, None] for end in ends))
        found: jax.Array = inside & self.present[:, None]
        return found
