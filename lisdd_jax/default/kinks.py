"""Ends at which a correction grows from zero: kinks, sharp or soft (section 3.7).

The least residual sum of a hinge beside an end, over all but its place, is a profile of the place.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.ends import JUMP_95, Placed, Spans
from lisdd_jax.default.hinges import EndProfiles, EndRows, profile_ends

_KINK_95 = 3.84
"""95 % quantile of chi-square with one degree of freedom: a kink's place is a regular parameter."""

_DOUBT = 4.0
"""Variances by which two lines must be better for a jump to be possible (Akaike's two for the
coefficient that they have more, and two for the search for the place at which it serves best)."""

_LEVEL, _VANISHING = 0.9, 0.2
"""Shares of its root mean square that a correction has at an end up to which it is level, and at
one where it vanishes: a parabola from zero has less than that over its first third."""

_FURTHER = 3.0
"""Parameters at ``log n`` variances each (Schwarz). A kink has so many beyond a level correction: a
slope, its place on either side and its width for one level. And so many may a correction that
vanishes save: a curve that grows from zero describes its beginning no better than a hinge does,
and the rows far from there better."""


class Kinks(NamedTuple):
    """The ends as kinks, each ``(2, R)``: starts, then stops.

    Attributes:
      is_kink: bool, the correction grows from zero there.
      place: on the axis.
      lower, upper: 95 % confidence interval of the place; where two separate lines, or the
        correction, describe the rows better, though not by what a kink is granted, it holds the
        places of their jump, or the end of the correction, too.
      softness: half width over which the correction bends; 0 for a sharp kink.
      possible: ``(2, R, 2)`` what the interval of an end must hold as well, of a kink that the rows
        up to the middle of the region do not exclude, sharp or soft; NaN where they do.
    """

    is_kink: jax.Array
    place: jax.Array
    lower: jax.Array
    upper: jax.Array
    softness: jax.Array
    possible: jax.Array


def _noise_of(profiles: EndProfiles, inflation: jax.Array) -> jax.Array:
    """Variance ``(2, 2, R)`` of what the better of a kink and a jump leaves."""
    best = jnp.minimum(jnp.min(profiles.hinges, (-2, -1)), jnp.min(profiles.jumps, -1))
    variance = best / jnp.maximum(profiles.num_rows - 5, 1) * inflation
    return jnp.maximum(variance, jnp.finfo(variance.dtype).tiny)


def _serves(
    profiles: EndProfiles, height: jax.Array, variance: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Whether a kink describes the rows beside an end best, and whether those up to the middle of
    the region allow one, each ``(2, R)``."""
    price = variance * jnp.log(profiles.num_rows)
    further = jnp.where(height < _VANISHING, 1.0, jnp.where(height > _LEVEL, -1.0, 0.0))
    granted = further[None] * _FURTHER * price
    # Schwarz: a jump has one parameter more, and a kink is what most laws end with.
    least = jnp.min(profiles.hinges, (-2, -1)) - price
    jump, corrected = jnp.min(profiles.jumps, -1), profiles.corrected
    serves = least <= jnp.minimum(jump, corrected + granted)
    possible = least <= jnp.minimum(jump, corrected) + _KINK_95 * variance
    return serves[0], possible[1]


def _near(left: jax.Array, quantile: float, variance: jax.Array) -> jax.Array:
    """Places at which a profile is within a quantile of its least value."""
    return left <= jnp.min(left, -1, keepdims=True) + quantile * variance[..., None]


def _limits(likely: jax.Array, places: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first and the last of the ``likely`` places, and one step beyond."""
    step = jnp.abs(places[..., 1] - places[..., 0])
    lower = jnp.min(jnp.where(likely, places, jnp.inf), -1) - step
    return lower, jnp.max(jnp.where(likely, places, -jnp.inf), -1) + step


def _interval(
    profiles: EndProfiles, variance: jax.Array, end: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Lower and upper limits ``(2, R)`` of the places, with the ``end`` of a correction that serves
    better."""
    profile, jumps = jnp.min(profiles.hinges[0], -1), profiles.jumps[0]
    best, doubt = jnp.min(profile, -1), _DOUBT * variance
    jumps_better = jnp.min(jumps, -1) + doubt < best
    also = _near(jumps, JUMP_95, variance) & jumps_better[..., None]
    lower, upper = _limits(_near(profile, _KINK_95, variance) | also, profiles.place)
    end = jnp.where(profiles.corrected[0] + doubt < best, end, jnp.nan)
    return jnp.fmin(lower, end), jnp.fmax(upper, end)


def _possible(profiles: EndProfiles, variance: jax.Array, allowed: jax.Array) -> jax.Array:
    """Limits ``(2, R, 2)`` of kinks, and of sharp ones alone: corrections have sharp ends."""
    hinges = profiles.hinges[1]
    ways = jnp.min(hinges, -1), hinges[..., 0]
    soft, sharp = (_near(way, _KINK_95, variance) for way in ways)
    limits = jnp.stack(_limits(soft | sharp, profiles.place), -1)
    return jnp.where(allowed[..., None], limits, jnp.nan)


def fit_kinks(
    rows: EndRows, height: jax.Array, spans: Spans, placed: Placed, inflation: jax.Array
) -> Kinks:
    """Fit every end as a kink, sharp or soft, against a jump.

    Args:
      rows: sorted.
      height: ``(2, R)`` the corrections at their ends over their root mean squares.
      spans, placed: regions and their ends.
      inflation: rows that count as one.
    """
    profiles = profile_ends(rows, spans, placed)
    variance, nearer = _noise_of(profiles, inflation)
    edge = jnp.stack([placed.start, placed.stop - 1])
    end = rows.axis[jnp.clip(edge, 0, rows.axis.shape[0] - 1)]
    lower, upper = _interval(profiles, variance, end)
    serves, allowed = _serves(profiles, height, jnp.stack([variance, nearer]))
    hinges = profiles.hinges[0]
    profile = jnp.min(hinges, -1)
    chosen = jnp.argmin(profile, -1)
    soft = jnp.take_along_axis(hinges, chosen[..., None, None], axis=2)[..., 0, :]
    sharp = soft[..., 0] <= jnp.min(profile, -1) + _KINK_95 * variance
    which = jnp.where(sharp, 0, jnp.argmin(soft, -1))
    return Kinks(
        is_kink=serves & spans.present[None],
        place=jnp.take_along_axis(profiles.place, chosen[..., None], -1)[..., 0],
        lower=lower,
        upper=upper,
        softness=jnp.take_along_axis(profiles.width, which[..., None], -1)[..., 0],
        possible=_possible(profiles, nearer, allowed),
    )
