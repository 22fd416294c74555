"""Exact order statistics by counting, without a sort.

A k-th smallest value is found by narrowing a bracket: every pass counts the values at or below two
thresholds. Sorting on CPU costs 20 to 70 times as much under XLA, and a comparison sort of every
row of a batch is what makes naive trimmed fits slow.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics import tolerances
from lisdd_jax.numerics.bracket import (
    WIDE,
    Bracket,
    adjacent,
    around,
    count_pair,
    halfway,
    narrow_two,
    narrow_while,
    open_bracket,
    positive_bracket,
    snap,
    typical,
    unfinished,
    whole_bracket,
    worth_interpolating,
)
from lisdd_jax.numerics.float_order import least
from lisdd_jax.numerics.least_squares import attach

# Of a rough choice: passes by interpolation, and what share of the number it may miss by.
_ROUGH_PASSES = 6
_ROUGH_SHARE = 64


@jax.jit
def _select(values: jax.Array, k: jax.Array) -> jax.Array:
    whole, sound = whole_bracket(values)
    live = sound & (k <= whole.count_upper)
    # One deviation and a half apart the thresholds enclose the middle of most samples, and tell the
    # bulk from a far tail, on which interpolation would spend many passes.
    mean, deviation = typical(values)
    start = narrow_two(whole, values, k, mean - 0.75 * deviation, mean + 0.75 * deviation)
    found = jnp.where(live, _isolate(values, k, start, live, lambda b: around(b, k)), jnp.inf)
    return jnp.where(sound, found, jnp.nan)


@jax.jit
def _select_middle(values: jax.Array, k: jax.Array) -> jax.Array:
    """The value of rank ``k``, given that it is a median of the finite values, or infinite.

    A median lies within the mean absolute deviation of the mean, which spares the passes that find
    the range of the values. A NaN among them is for the caller to find.
    """
    live = k <= jnp.sum(values < jnp.inf, dtype=jnp.int32)
    mean, deviation = typical(values)
    near, far = 0.75 * deviation, deviation
    start = narrow_two(open_bracket(values), values, k, mean - near, mean + near)

    def propose(bracket: Bracket) -> tuple[jax.Array, jax.Array]:
        low, high = around(bracket, k)
        return (
            jnp.where(bracket.lower == -jnp.inf, mean - far, low),
            jnp.where(bracket.upper == jnp.inf, mean + far, high),
        )

    return jnp.where(live, _isolate(values, k, start, live, propose), jnp.inf)


_Propose = Callable[[Bracket], tuple[jax.Array, jax.Array]]
"""Two thresholds that are to narrow a bracket."""


def _close_in(
    values: jax.Array,
    k: jax.Array,
    start: Bracket,
    goes_on: Callable[[Bracket], jax.Array],
    propose: _Propose,
) -> Bracket:
    """Narrow a bracket until it need not go on; snapping halves the floats left, so it ends."""
    bracket = narrow_while(
        lambda b: goes_on(b) & worth_interpolating(b),
        lambda b: narrow_two(b, values, k, *propose(b)),
        start,
    )
    return narrow_while(goes_on, lambda b: snap(values, k, b), bracket)


def _isolate(
    values: jax.Array, k: jax.Array, start: Bracket, live: jax.Array, propose: _Propose
) -> jax.Array:
    """The value of rank ``k`` from a bracket of it."""
    bracket = _close_in(values, k, start, lambda b: unfinished(b, k) & live, propose)
    # Thresholds need not be data values; the finish returns the element that they isolate: the
    # first above the lower end, or the last up to the upper one, which is a minimum of negatives.
    from_below = bracket.count_lower == k - 1
    eligible = jnp.where(from_below, values > bracket.lower, values <= bracket.upper)
    nearest = least(jnp.where(from_below, values, -values), eligible)
    return jnp.where(from_below, nearest, -nearest)


def _element(found: jax.Array, values: jax.Array) -> jax.Array:
    """An element of ``values`` with its derivative, averaged over ties."""
    ties = values == found
    total = jnp.sum(jnp.where(ties, values, 0.0))
    num = jnp.maximum(jnp.sum(ties), 1).astype(values.dtype)
    return attach(lax.stop_gradient(found), total / num)


def kth_smallest(values: jax.Array, k: jax.Array | int) -> jax.Array:
    """The k-th smallest value, exactly.

    Differentiable in ``values``: the tangent of the selected value, averaged over ties.

    Args:
      values: ``(n,)`` finite floats, or ``inf``, which sorts last and can mark rows out of use.
      k: rank from 1 to n; may be traced.

    Returns:
      The value of rank ``k``, an element of ``values``. NaN where ``values`` holds a NaN.

    Example:
      >>> import jax.numpy as jnp
      >>> float(kth_smallest(jnp.array([3.0, 1.0, 2.0]), 2))
      2.0
    """
    found = _select(lax.stop_gradient(values), jnp.asarray(k, jnp.int32))
    return _element(found, values)


def _masked(values: jax.Array, mask: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    if mask is None:
        return values, jnp.int32(values.shape[0])
    return jnp.where(mask, values, jnp.inf), jnp.sum(mask, dtype=jnp.int32)


def median(values: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Median of the values in use, the mean of the two middle ones for an even count.

    Args:
      values: ``(n,)`` floats.
      mask: ``(n,)`` bool, values to use; all where None.

    Returns:
      The median; NaN where no value is in use.
    """
    values, count = _masked(values, mask)
    lower_rank = jnp.maximum((count + 1) // 2, 1)
    lower = _element(_select_middle(lax.stop_gradient(values), lower_rank), values)
    next_value = _element(least(values, values > lower), values)
    num_below, num_nan = count_pair(values <= lower, jnp.isnan(values), values.dtype)
    upper = jnp.where((count % 2 == 1) | (num_below > lower_rank), lower, next_value)
    middle = jnp.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)
    return jnp.where((count > 0) & (num_nan == 0), middle, jnp.nan)


def median_absolute_deviation(
    values: jax.Array, mask: jax.Array | None = None, *, factor: float = 1.4826
) -> jax.Array:
    """Scaled median absolute deviation about the median.

    Args:
      values: ``(n,)`` floats.
      mask: ``(n,)`` bool, values to use; all where None.
      factor: 1.4826 makes it consistent for the standard deviation of Gaussian values.

    Returns:
      The deviation; NaN where no value is in use.
    """

    def about_median(state: tuple[jax.Array, jax.Array], _: None) -> tuple[Any, None]:
        center = median(state[0], mask)
        return (jnp.abs(state[0] - center), center), None

    # A scan of two steps compiles the selection once.
    start = (values, jnp.zeros((), values.dtype))
    (_, deviation), _ = lax.scan(about_median, start, length=2)
    return factor * deviation


def num_kept(count: jax.Array | int, trim: jax.Array | float, dtype: jnp.dtype) -> jax.Array:
    """``ceil((1 - trim) count)``, where a product that is an integer up to rounding counts as one.

    Without the allowance ``(1 - 0.36) * 6000`` is 3840 in float64 but 3841 in float32.
    """
    exact = (1 - jnp.asarray(trim, dtype)) * jnp.asarray(count, dtype)
    slack = jnp.minimum(tolerances.COUNT_SLACK(dtype) * jnp.asarray(count, dtype), 0.25)
    return jnp.ceil(exact - slack).astype(jnp.int32)


def smallest_weights(
    values: jax.Array, num: jax.Array | int, near: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Weights that pick the ``num`` smallest values, ties at the threshold sharing the rest.

    The weights sum to ``num`` and do not depend on the order of the values.

    Args:
      values: ``(n,)`` floats that are not negative, nor NaN; ``inf`` sorts last.
      num: how many to pick; may be traced.
      near: a guess of the threshold, which saves passes where it is good.

    Returns:
      Weights ``(n,)`` in [0, 1], and a threshold, from the largest value picked to below the next.
    """
    values, num = lax.stop_gradient(values), jnp.asarray(num, jnp.int32)
    near = typical(values)[0] if near is None else near
    margin = 2 * jnp.abs(near) / values.shape[0] ** 0.5
    start = narrow_two(positive_bracket(values), values, num, near - margin, near + margin)

    def goes_on(bracket: Bracket) -> jax.Array:
        exactly = (bracket.count_upper == num) & (bracket.upper < jnp.inf)
        return ~(exactly | adjacent(bracket))

    found = _close_in(values, num, start, goes_on, lambda b: around(b, num))
    # What is left above the lower end is one value, or belongs to the number picked.
    left = (found.count_upper - found.count_lower).astype(values.dtype)
    share = (num - found.count_lower).astype(values.dtype) / jnp.maximum(left, 1)
    weights = jnp.where(values <= found.upper, share, 0.0)
    return jnp.where(values <= found.lower, 1.0, weights).astype(values.dtype), found.upper


def roughly_smallest(
    values: jax.Array, num: jax.Array | int, near: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """About the ``num`` smallest values: up to two per cent more or less, unless they are tied.

    Args:
      values: ``(n,)`` floats that are not negative, nor NaN; ``inf`` sorts last.
      num: how many to pick, at least 2; may be traced.
      near: a guess of the threshold: where it is good one pass is enough.

    Returns:
      Mask ``(n,)`` of the values up to a threshold, the threshold, and how many are missing from
      ``num`` (negative: too many).
    """
    num = jnp.asarray(num, jnp.int32)
    margin = jnp.abs(near) / (2 * _ROUGH_SHARE)
    start = narrow_two(positive_bracket(values), values, num, near - margin, near + margin)

    def missing(bracket: Bracket) -> tuple[jax.Array, jax.Array]:
        short = jnp.where(bracket.count_lower > 0, num - bracket.count_lower, values.shape[0])
        over = jnp.where(bracket.upper < jnp.inf, bracket.count_upper - num, values.shape[0])
        return short, over

    def goes_on(bracket: Bracket) -> jax.Array:
        far = jnp.minimum(*missing(bracket)) > jnp.maximum(num // _ROUGH_SHARE, 1)
        return far & ~adjacent(bracket)

    def narrow(bracket: Bracket) -> Bracket:
        low, high = around(bracket, num, WIDE)
        halves = bracket.num_passes > _ROUGH_PASSES
        middle = halfway(bracket)
        low, high = jnp.where(halves, middle, low), jnp.where(halves, middle, high)
        return narrow_two(bracket, values, num, low, high)

    bracket = narrow_while(goes_on, narrow, start)
    short, over = missing(bracket)
    at_lower = short < over
    threshold = jnp.where(at_lower, bracket.lower, bracket.upper)
    return values <= threshold, threshold, jnp.where(at_lower, short, -over)


def smallest_mask(values: jax.Array, num: jax.Array | int) -> jax.Array:
    """Mask of exactly ``num`` smallest values; of tied ones the first in order are kept.

    Args:
      values: ``(n,)`` floats without NaN.
      num: how many to pick, 0 to n; may be traced.

    Returns:
      ``(n,)`` bool with ``num`` entries True.
    """
    threshold = kth_smallest(values, jnp.maximum(num, 1))
    below = values < threshold
    tied = values == threshold
    room = num - jnp.sum(below, dtype=jnp.int32)
    return below | (tied & (jnp.cumsum(tied, dtype=jnp.int32) <= room))
