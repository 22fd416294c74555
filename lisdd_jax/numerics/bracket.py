"""Closing in on an order statistic by counting the values at or below thresholds.

A bracket is narrowed by interpolation between its counts, and by halving in the order of floats
where interpolation does not help: tied or very skewed values.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.numerics.float_order import (
    from_integer,
    greatest,
    integer_type,
    least,
    to_integer,
)

# Beyond these the data are tied or very skewed, and snapping to data values is faster.
_MAX_INTERPOLATIONS = 12
_FEW = 3


class Reach(NamedTuple):
    """How far thresholds lie on either side of the place that the counts of a bracket suggest.

    Attributes:
      deviations: in standard deviations of the count.
      coarse_passes: first passes in which it is at least a tenth of the bracket, where the density
        is not as even as the interpolation takes it to be.
    """

    deviations: float
    coarse_passes: int


TIGHT = Reach(deviations=1.0, coarse_passes=3)
"""Takes the fewest passes to a single value."""
WIDE = Reach(deviations=1.5, coarse_passes=4)
"""Takes the fewest passes to near a value, on which rough choices of many samples end."""


class Bracket(NamedTuple):
    """``count(x <= lower) < k <= count(x <= upper)`` holds throughout."""

    lower: jax.Array
    upper: jax.Array
    count_lower: jax.Array
    count_upper: jax.Array
    num_passes: jax.Array


def _pack(bracket: Bracket) -> jax.Array:
    """A bracket as integers of the width of its floats, which hold them bit by bit."""
    kind = integer_type(bracket.lower.dtype)
    ends = (lax.bitcast_convert_type(end, kind) for end in (bracket.lower, bracket.upper))
    counts = (part.astype(kind) for part in bracket[2:])
    return jnp.stack([*ends, *counts])


def _unpack(packed: jax.Array, dtype: jnp.dtype) -> Bracket:
    lower, upper = (lax.bitcast_convert_type(end, dtype) for end in packed[:2])
    return Bracket(lower, upper, *(count.astype(jnp.int32) for count in packed[2:]))


def narrow_while(
    goes_on: Callable[[Bracket], jax.Array], narrow: Callable[[Bracket], Bracket], start: Bracket
) -> Bracket:
    """``lax.while_loop`` over a bracket.

    It is one array there: on CPU a pass over some thousand values costs no more than the kernels
    that every part of a bracket would have of its own.
    """
    dtype = start.lower.dtype
    packed = lax.while_loop(
        lambda packed: goes_on(_unpack(packed, dtype)),
        lambda packed: _pack(narrow(_unpack(packed, dtype))),
        _pack(start),
    )
    return _unpack(packed, dtype)


def count_pair(
    first: jax.Array, second: jax.Array, dtype: jnp.dtype
) -> tuple[jax.Array, jax.Array]:
    """How many are True in each of two masks; packed in one integer they cost one pass.

    Integers as wide as the floats of type ``dtype`` that were compared keep the loop vectorised.
    """
    kind = integer_type(dtype)
    shift = 15 if kind.itemsize == 4 else 31
    if first.shape[0] >= 1 << shift:
        return jnp.sum(first, dtype=jnp.int32), jnp.sum(second, dtype=jnp.int32)
    none, one, other = (jnp.asarray(value, kind) for value in (0, 1, 1 << shift))
    packed = jnp.sum(jnp.where(first, one, none) + jnp.where(second, other, none), dtype=kind)
    count = packed & (other - 1), packed >> shift
    return count[0].astype(jnp.int32), count[1].astype(jnp.int32)


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
    first, second = lax.optimization_barrier(jnp.stack([first, second]))
    masks = values <= first, values <= second
    count_first, count_second = count_pair(*masks, values.dtype)
    bracket = _narrow(bracket, k, first, count_first)
    bracket = _narrow(bracket, k, second, count_second)
    return bracket._replace(num_passes=bracket.num_passes + 1)


def adjacent(bracket: Bracket) -> jax.Array:
    """Whether no float lies between the ends, so that all values above the lower one are equal."""
    return to_integer(bracket.upper) - 1 <= to_integer(bracket.lower)


def unfinished(bracket: Bracket, k: jax.Array) -> jax.Array:
    """Whether the counts do not yet isolate the value of rank ``k``."""
    isolated = (bracket.count_upper == k) | (bracket.count_lower == k - 1)
    return ~(isolated | adjacent(bracket))


def worth_interpolating(bracket: Bracket) -> jax.Array:
    """Whether the counts still say more than the order of floats does."""
    many = bracket.count_upper - bracket.count_lower > _FEW
    return many & (bracket.num_passes < _MAX_INTERPOLATIONS)


def around(bracket: Bracket, k: jax.Array, reach: Reach = TIGHT) -> tuple[jax.Array, jax.Array]:
    """Two thresholds on either side of the place that the counts suggest.

    Above the lower end of an open bracket the counts are taken to grow less than in proportion.
    """
    lower, count_lower = bracket.lower, bracket.count_lower.astype(bracket.lower.dtype)
    width = (bracket.count_upper - bracket.count_lower).astype(lower.dtype)
    rank = k.astype(lower.dtype)
    share = (rank - count_lower) / width
    # A margin makes both ends close in.
    least_margin = jnp.where(bracket.num_passes < reach.coarse_passes, 0.1, 0.0)
    margin = jnp.maximum(reach.deviations * jnp.sqrt(share * (1 - share) / width), least_margin)
    # With nothing counted below, the bulk may lie anywhere.
    below = jnp.where(bracket.count_lower == 0, 0.2 * share, share - margin)
    span = bracket.upper - lower
    open_above = bracket.upper == jnp.inf
    growth = (rank / jnp.maximum(count_lower, 1) - 1) * lower
    return (
        lower + jnp.where(open_above, 1.5 * growth, below * span),
        lower + jnp.where(open_above, 5 * growth, (share + margin) * span),
    )


def halfway(bracket: Bracket) -> jax.Array:
    """The middle in the order of floats: as many halvings as a float has bits leave nothing."""
    lower, upper = to_integer(bracket.lower), to_integer(bracket.upper)
    middle = (lower >> 1) + (upper >> 1) + (lower & upper & 1)
    return from_integer(middle, bracket.lower.dtype)


def snap(values: jax.Array, k: jax.Array, bracket: Bracket) -> Bracket:
    """Thresholds at the smallest value left, which passes a whole group of ties, and halfway."""
    smallest = least(values, values > bracket.lower)
    # Where subnormals are told from 0, the float below one of them may lie below the lower end.
    lower = jnp.maximum(bracket.lower, from_integer(to_integer(smallest) - 1, values.dtype))
    bracket = bracket._replace(lower=lower)
    return narrow_two(bracket, values, k, smallest, halfway(bracket))


def whole_bracket(values: jax.Array) -> tuple[Bracket, jax.Array]:
    """The range of the finite values, with their count; and whether no value is NaN."""
    n = values.shape[0]
    num_finite, num_infinite = count_pair(values < jnp.inf, values == jnp.inf, values.dtype)
    below = from_integer(to_integer(least(values)) - 1, values.dtype)
    largest = greatest(values, values < jnp.inf)
    bracket = Bracket(below, largest, jnp.int32(0), num_finite, jnp.int32(0))
    return bracket, num_finite + num_infinite == n


def open_bracket(values: jax.Array) -> Bracket:
    """For any values: open below and above, and without a pass over them."""
    end = jnp.full((), jnp.inf, values.dtype)
    return Bracket(-end, end, jnp.int32(0), jnp.int32(values.shape[0]), jnp.int32(0))


def positive_bracket(values: jax.Array) -> Bracket:
    """For values that are not negative: open above, and without a pass over them."""
    below = from_integer(jnp.int32(-1), values.dtype)
    above = jnp.full((), jnp.inf, values.dtype)
    return Bracket(below, above, jnp.int32(0), jnp.int32(values.shape[0]), jnp.int32(0))


def typical(values: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and mean absolute deviation of the finite values."""
    finite = values < jnp.inf
    num = jnp.maximum(jnp.sum(finite, dtype=jnp.int32), 1).astype(values.dtype)
    mean = jnp.sum(jnp.where(finite, values, 0.0)) / num
    return mean, jnp.sum(jnp.where(finite, jnp.abs(values - mean), 0.0)) / num
