"""Edges of regions: the interval on which the missing terms gain most.

With a correction ``f`` of residuals ``r``, the gain of a row is ``r^2 - (r - f)^2``, and the best
region is the interval with the largest sum of gains: a difference of two values of the cumulated
gain. For terms with coefficients ``w`` it is ``w' (2 c - G w)``, with ``G`` and ``c`` the cumulated
products of the terms with themselves and with ``r``, so moving an edge needs no sum over rows. The
same steps serve edges at blocks of rows and at single rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.runs import Spans
from lisdd_jax.numerics import extremes, normal_equations, tolerances

_CUT_95 = 7.35
"""95 % quantile of the likelihood ratio of a change point, ``(1 - exp(-x / 2))^2 = 0.95``."""


class Terms(NamedTuple):
    """Up to ``m`` terms of each of ``K`` regions: positions in the library, and which are in use.

    Positions out of use repeat the first.
    """

    place: jax.Array
    used: jax.Array


class Fit(NamedTuple):
    """Coefficients ``(..., m)``, inverse Gram matrix ``(..., m, m)``, and whether they exist."""

    coefficients: jax.Array
    inverse: jax.Array
    determined: jax.Array


def solve_terms(gram: jax.Array, cross: jax.Array, used: jax.Array) -> Fit:
    """Least squares of the terms in use from their sums of products."""
    identity = jnp.eye(cross.shape[-1], dtype=gram.dtype)
    gram = jnp.where(used[..., :, None] & used[..., None, :], gram, identity)
    tolerance = tolerances.gram(gram.dtype)
    fit = normal_equations.sweep(gram, jnp.where(used, cross, 0.0), tolerance)
    coefficients = jnp.where(used, fit.solution, 0.0)
    return Fit(coefficients, fit.inverse, jnp.all(fit.independent, axis=-1))


def pool(values: jax.Array, shared: jax.Array) -> jax.Array:
    """Each region's sums ``(K, ...)``, or where a mechanism is shared their total."""
    return jnp.where(shared, jnp.sum(values, axis=0, keepdims=True), values)


class RowSpan(NamedTuple):
    """Rows of the regions as half-open spans of positions, each ``(K,)``."""

    start: jax.Array
    stop: jax.Array

    def inside(self, num_rows: int, present: jax.Array) -> jax.Array:
        """``(K, num_rows)`` bool."""
        position = jnp.arange(num_rows)
        inside = (position >= self.start[:, None]) & (position < self.stop[:, None])
        return inside & present[:, None]


class Sums(NamedTuple):
    """Cumulated products at positions ``0 .. M``; ``G = K``, or 1 where regions have equal terms.

    Attributes:
      gram: ``(G, m, m, M + 1)`` of the terms.
      cross: ``(G, m, M + 1)`` of terms and residual.
    """

    gram: jax.Array
    cross: jax.Array

    def over(self, region: RowSpan) -> tuple[jax.Array, jax.Array]:
        """Products ``(K, m, m)`` and ``(K, m)`` over each region."""
        slot = jnp.arange(region.start.shape[0]) % self.gram.shape[0]

        def difference(sums: jax.Array) -> jax.Array:
            return sums[slot, ..., region.stop] - sums[slot, ..., region.start]

        return difference(self.gram), difference(self.cross)

    def gain(self, coefficients: jax.Array) -> jax.Array:
        """Cumulated gain ``(K, M + 1)`` of coefficients ``(K, m)``."""
        squares = coefficients[:, :, None] * coefficients[:, None, :]
        quadratic = jnp.sum(squares[..., None] * self.gram, axis=(1, 2))
        return jnp.sum(2 * coefficients[..., None] * self.cross, axis=1) - quadratic


def fit_terms(sums: Sums, region: RowSpan, used: jax.Array, shared: jax.Array) -> Fit:
    """Least squares of the terms on the rows of their regions.

    Args:
      sums: cumulated products.
      region: ``(K,)`` positions.
      used: ``(..., m)`` bool.
      shared: bool, one mechanism for all regions.

    Returns:
      A ``Fit`` with leading axis K.
    """
    gram, cross = sums.over(region)
    return solve_terms(pool(gram, shared), pool(cross, shared), used)


def alternate(
    sums: Sums,
    used: jax.Array,
    shared: jax.Array,
    spans: Spans,
    begin: RowSpan,
    bonus: jax.Array,
    allowed: jax.Array | bool,
    num_steps: int,
) -> RowSpan:
    """Alternate between fitting the terms and moving the edges, each to the best position.

    Args:
      sums, used, shared: as for ``fit_terms``.
      spans: windows for the edges.
      begin: regions to begin with.
      bonus: gain granted to a region that goes on to the end of the axis.
      allowed: ``(M + 1,)`` bool, positions where an edge may lie.
      num_steps: alternations (static).

    Returns:
      A ``RowSpan``.
    """
    position = jnp.arange(sums.cross.shape[-1], dtype=begin.start.dtype)
    low, high = spans.low[:, None], spans.high[:, None]
    inside = (position >= low) & (position <= high) & allowed
    at_start = jnp.where((position == low) & spans.at_first[:, None], bonus, 0.0)
    at_stop = jnp.where((position == high) & spans.at_last[:, None], bonus, 0.0)

    def step(region: RowSpan, _: None) -> tuple[RowSpan, None]:
        gain = sums.gain(fit_terms(sums, region, used, shared).coefficients)
        above = inside & (position > region.start[:, None])
        stop = extremes.first_max(jnp.where(above, gain + at_stop, -jnp.inf))
        below = inside & (position < stop[:, None])
        start = extremes.first_max(jnp.where(below, at_start - gain, -jnp.inf))
        moved = RowSpan(jnp.where(spans.present, start, 0), jnp.where(spans.present, stop, 0))
        return RowSpan(*(end.astype(position.dtype) for end in moved)), None

    return jax.lax.scan(step, begin, None, length=num_steps)[0]


def without_overlap(region: RowSpan, present: jax.Array) -> RowSpan:
    """Neighbours that have grown into each other meet at the end of the first."""
    before = jnp.where(present[:-1], region.stop[:-1], 0)
    start = jnp.maximum(region.start, jnp.concatenate([jnp.zeros_like(before[:1]), before]))
    return RowSpan(start, jnp.maximum(region.stop, start))


def row_sums(terms: jax.Array, residual: jax.Array, mask: jax.Array) -> Sums:
    """Cumulated products over single rows; terms ``(K, m, n)``, residual and mask ``(n,)``."""
    masked = jnp.where(mask, terms, 0.0)
    return Sums(
        extremes.running_sum(masked[:, :, None, :] * terms[:, None, :, :]),
        extremes.running_sum(masked * residual),
    )


def intervals(
    gain: jax.Array, region: RowSpan, spans: Spans, variance: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """95 % confidence intervals of the ends, as positions ``(K, 2)``.

    An interval holds all positions whose cumulated gain is within the 95 % quantile of its
    likelihood ratio from the best.

    References:
      Hansen (2000), Sample splitting and threshold estimation, Econometrica 68, equation 6.
    """
    position = jnp.arange(gain.shape[1])
    cut = _CUT_95 * variance
    at_start, at_stop = (jnp.take_along_axis(gain, ends[:, None], axis=1) for ends in region)
    inside = (position >= spans.low[:, None]) & (position <= spans.high[:, None])
    starts = inside & (position <= region.stop[:, None]) & (gain <= at_start + cut)
    stops = inside & (position >= region.start[:, None]) & (gain >= at_stop - cut)

    def bounds(possible: jax.Array) -> jax.Array:
        last = gain.shape[1] - 1 - jnp.argmax(possible[:, ::-1], axis=1)
        return jnp.stack([jnp.argmax(possible, axis=1), last], axis=1)

    return bounds(starts), bounds(stops)
