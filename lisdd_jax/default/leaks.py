"""Rows beside an end that deviate as those beyond it do (docs/method.md, section 3.7).

An end is where most of a discrepancy begins. One that sets in softly leaks across it, into the rows
of the law.
"""

import jax
import jax.numpy as jnp

from lisdd_jax.default.ends import Spans, inside
from lisdd_jax.numerics import extremes

_LEAK = 8.0
"""Variances that the level of the rows up to an end must be off by, of the run where it is most: of
sharp ends one in twenty shows so much, and loses some rows."""

_MOST = 0.5
"""Largest share of the law's rows that such a run may hold."""


def leaking_rows(
    residual: jax.Array, law: jax.Array, spans: Spans, position: jax.Array, variance: jax.Array
) -> jax.Array:
    """Rows of the law, up to an end, whose level differs from that of the others.

    Args:
      residual: ``(n,)`` of the law.
      law: ``(n,)`` bool, its rows.
      spans: the regions; how far their ends may move is how far rows are looked at.
      position: ``(2, R)`` int32, starts and stops.
      variance: of the mean of rows, times their number.

    Returns:
      ``(n,)`` bool; not all are in ``law``.
    """
    num, num_regions = len(law), position.shape[1]
    count = extremes.running_sum(jnp.where(law, 1.0, 0.0).astype(residual.dtype))
    total = extremes.running_sum(jnp.where(law, residual, 0.0))
    whole = jnp.maximum(count[-1], 1)
    total = total - count * (total[-1] / whole)

    place = jnp.arange(num + 1, dtype=jnp.int32)[None]
    start, stop = position[0][:, None], position[1][:, None]
    before = (place >= spans.low[:, None]) & (place < start)
    after = (place > stop) & (place <= spans.high[:, None])
    own = jnp.concatenate([before, after]) & jnp.tile(spans.present, 2)[:, None]
    group = jnp.where(jnp.any(own, 0), jnp.argmax(own, 0), 2 * num_regions).astype(jnp.int32)
    end = jnp.append(position.ravel(), 0)[group]

    rows = jnp.abs(count[end] - count)
    level = (total[end] - total) ** 2 / jnp.maximum(rows * (1 - rows / whole), 1) / variance
    level = jnp.where((group < 2 * num_regions) & (rows <= _MOST * whole), level, -jnp.inf)
    best = extremes.first_max_of_groups(level, group, 2 * num_regions)
    leaks = level[best] > _LEAK
    reach = jnp.where(leaks, best, position.ravel()).reshape(2, num_regions)
    return jnp.any(
        inside(spans, reach[0], position[0], num) | inside(spans, position[1], reach[1], num), 0
    )
