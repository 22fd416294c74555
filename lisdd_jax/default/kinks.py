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
    """

    is_kink: jax.Array
    place: jax.Array
    lower: jax.Array
    upper: jax.Array
    softness: jax.Array


def _noise_of(profiles: EndProfiles, inflation: jax.Array) -> jax.Array:
    """Variance ``(2, R)`` of what the better of a kink and a jump leaves."""
    best = jnp.minimum(jnp.min(profiles.hinges, (-2, -1)), jnp.min(profiles.jumps, -1))
    variance = best / jnp.maximum(profiles.num_rows - 5, 1) * inflation
    return jnp.maximum(variance, jnp.finfo(variance.dtype).tiny)


def _serves(profiles: EndProfiles, height: jax.Array, variance: jax.Array) -> jax.Array:
    """Whether a kink describes the rows beside an end best, ``(2, R)``."""
    price = variance * jnp.log(profiles.num_rows)
    further = jnp.where(height < _VANISHING, 1.0, jnp.where(height > _LEVEL, -1.0, 0.0))
    by_terms = profiles.corrected + further * _FURTHER * price
    # Schwarz: a jump has one parameter more, and a kink is what most laws end with.
    rival = jnp.minimum(jnp.min(profiles.jumps, -1), by_terms)
    return jnp.min(profiles.hinges, (-2, -1)) <= rival + price


def _interval(
    profiles: EndProfiles, variance: jax.Array, end: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Lower and upper limits ``(2, R)`` of the places, with the ``end`` of a correction that serves
    better."""
    profile = jnp.min(profiles.hinges, -1)
    best, jump = jnp.min(profile, -1), jnp.min(profiles.jumps, -1)

    def near(left: jax.Array, least: jax.Array, quantile: float) -> jax.Array:
        return left <= (least + quantile * variance)[..., None]

    jumps_better = jump + _DOUBT * variance < best
    also = near(profiles.jumps, jump, JUMP_95) & jumps_better[..., None]
    likely = near(profile, best, _KINK_95) | also
    places = profiles.place
    step = jnp.abs(places[..., 1] - places[..., 0])
    end = jnp.where(profiles.corrected + _DOUBT * variance < best, end, jnp.nan)
    lower = jnp.min(jnp.where(likely, places, jnp.inf), -1) - step
    upper = jnp.max(jnp.where(likely, places, -jnp.inf), -1) + step
    return jnp.fmin(lower, end), jnp.fmax(upper, end)


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
    variance = _noise_of(profiles, inflation)
    edge = jnp.stack([placed.start, placed.stop - 1])
    lower, upper = _interval(
        profiles, variance, rows.axis[jnp.clip(edge, 0, rows.axis.shape[0] - 1)]
    )
    profile = jnp.min(profiles.hinges, -1)
    chosen = jnp.argmin(profile, -1)
    soft = jnp.take_along_axis(profiles.hinges, chosen[..., None, None], axis=2)[..., 0, :]
    sharp = soft[..., 0] <= jnp.min(profile, -1) + _KINK_95 * variance
    which = jnp.where(sharp, 0, jnp.argmin(soft, -1))
    return Kinks(
        is_kink=_serves(profiles, height, variance) & spans.present[None],
        place=jnp.take_along_axis(profiles.place, chosen[..., None], -1)[..., 0],
        lower=lower,
        upper=upper,
        softness=jnp.take_along_axis(profiles.width, which[..., None], -1)[..., 0],
    )
