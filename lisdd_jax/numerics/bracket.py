"""Closing in on an order statistic by counting the values at or below thresholds.

A bracket is narrowed by interpolation between its counts, and by halving in the order of floats
where interpolation does not help: tied or very skewed values.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

# Beyond these the data are tied or very skewed, and snapping to data values is faster.
_MAX_INTERPOLATIONS = 12
_FEW = 3
_COARSE_PASSES = 4


class Bracket(NamedTuple):
    """``count(x <= lower) < k <= count(x <= upper)`` holds throughout."""

    lower: jax.Array
    upper: jax.Array
    count_lower: jax.Array
    count_upper: jax.Array
    num_passes: jax.Array


def _smallest_normal(dtype: jnp.dtype) -> jax.Array:
    integer = jnp.int32 if dtype == jnp.float32 else jnp.int64
    return lax.bitcast_convert_type(jnp.finfo(dtype).tiny, integer)


def _key(values: jax.Array) -> jax.Array:
    """Integers in the order of floats; subnormals share the key of 0, as XLA compares them."""
    integer = jnp.int32 if values.dtype == jnp.float32 else jnp.int64
    magnitude = lax.bitcast_convert_type(jnp.abs(values), integer)
    magnitude = jnp.maximum(magnitude - _smallest_normal(values.dtype) + 1, 0)
    return jnp.where(values < 0, -magnitude, magnitude)


def _from_key(key: jax.Array, dtype: jnp.dtype) -> jax.Array:
    magnitude = lax.bitcast_convert_type(jnp.abs(key) + _smallest_normal(dtype) - 1, dtype)
    return jnp.where(key == 0, 0.0, jnp.where(key < 0, -magnitude, magnitude)).astype(dtype)


def count_pair(first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How many are True in each of two masks; packed in one integer they cost one pass."""
    if first.shape[0] >= 1 << 15:
        return jnp.sum(first, dtype=jnp.int32), jnp.sum(second, dtype=jnp.int32)
    packed = jnp.sum(jnp.where(first, 1, 0) + jnp.where(second, 1 << 15, 0), dtype=jnp.int32)
    return packed & ((1 << 15) - 1), packed >> 15


def _narrow(bracket: Bracket, k: jax.Array, threshold: jax.Array, count: jax.Array) -> Bracket:
    inside = (threshold > bracket.lower) & (threshold < bracket.upper)
    raises = inside & (count < k)
    lowers = inside & (count >= k)
    return bracket._replace(
        lower=jnp.where(raises, threshold, bracket.lower),
        upper=jnp.where(lowers, threshold, bracket.upper),
        count_lower=jnp.where(raises, count, bracket.count_lower),
        count_upper=jnp.where(lowers, count, bracket.count_upper),
    )


def narrow_two(
    bracket: Bracket, values: jax.Array, k: jax.Array, first: jax.Array, second: jax.Array
) -> Bracket:
    """Close in by the counts at two thresholds, in one pass over the values."""
    count_first, count_second = count_pair(values <= first, values <= second)
    bracket = _narrow(bracket, k, first, count_first)
    bracket = _narrow(bracket, k, second, count_second)
    return bracket._replace(num_passes=bracket.num_passes + 1)


def unfinished(bracket: Bracket, k: jax.Array) -> jax.Array:
    """Whether the counts do not yet isolate the value of rank ``k``."""
    isolated = (bracket.count_upper == k) | (bracket.count_lower == k - 1)
    adjacent = _key(bracket.upper) - 1 <= _key(bracket.lower)
    return ~(isolated | adjacent)


def worth_interpolating(bracket: Bracket) -> jax.Array:
    """Whether the counts still say more than the order of floats does."""
    many = bracket.count_upper - bracket.count_lower > _FEW
    return many & (bracket.num_passes < _MAX_INTERPOLATIONS)


def around(bracket: Bracket, k: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two thresholds on either side of the place that the counts suggest."""
    width = (bracket.count_upper - bracket.count_lower).astype(bracket.lower.dtype)
    share = (k - bracket.count_lower).astype(bracket.lower.dtype) / width
    # A margin of 1.5 standard deviations of the count makes both ends close in; more at first,
    # where the density is not as even as the interpolation takes it to be.
    even = jnp.where(bracket.num_passes < _COARSE_PASSES, 0.1, 0.0)
    margin = jnp.maximum(1.5 * jnp.sqrt(share * (1 - share) / width), even)
    span = bracket.upper - bracket.lower
    return bracket.lower + (share - margin) * span, bracket.lower + (share + margin) * span


def halfway(bracket: Bracket) -> jax.Array:
    """The middle in the order of floats: as many halvings as a float has bits leave nothing."""
    lower, upper = _key(bracket.lower), _key(bracket.upper)
    middle = (lower >> 1) + (upper >> 1) + (lower & upper & 1)
    return _from_key(middle, bracket.lower.dtype)


def interpolate(values: jax.Array, k: jax.Array, bracket: Bracket) -> Bracket:
    """Close in by ``around``."""
    return narrow_two(bracket, values, k, *around(bracket, k))


def snap(values: jax.Array, k: jax.Array, bracket: Bracket) -> Bracket:
    """Thresholds at the smallest value left, which passes a whole group of ties, and halfway."""
    smallest = jnp.min(jnp.where(values > bracket.lower, values, jnp.inf))
    bracket = bracket._replace(lower=_from_key(_key(smallest) - 1, values.dtype))
    return narrow_two(bracket, values, k, smallest, halfway(bracket))


def whole_bracket(values: jax.Array) -> tuple[Bracket, jax.Array]:
    """The range of the finite values, with their count; and whether no value is NaN."""
    n = values.shape[0]
    num_finite, num_infinite = count_pair(values < jnp.inf, values == jnp.inf)
    below = _from_key(_key(jnp.min(values)) - 1, values.dtype)
    largest = jnp.max(jnp.where(values < jnp.inf, values, -jnp.inf))
    bracket = Bracket(below, largest, jnp.int32(0), num_finite, jnp.int32(0))
    return bracket, num_finite + num_infinite == n


def guess(values: jax.Array, near: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two thresholds about ``near``, or where that is NaN about the mean of the finite values.

    One absolute deviation and a half apart they enclose the middle of most samples, and tell the
    bulk from a far tail, on which interpolation would spend many passes.
    """
    finite = values < jnp.inf
    num = jnp.sum(finite).astype(values.dtype)
    mean = jnp.sum(jnp.where(finite, values, 0.0)) / num
    deviation = jnp.sum(jnp.where(finite, jnp.abs(values - mean), 0.0)) / num
    margin = jnp.where(jnp.isnan(near), 0.75 * deviation, 2 * jnp.abs(near) / num**0.5)
    center = jnp.where(jnp.isnan(near), mean, near)
    return center - margin, center + margin
