"""How right a diagnosis is, against the truth of a simulated sample."""

import jax
import jax.numpy as jnp

from lisdd_jax.results import Diagnosis, Regions
from lisdd_jax.study.scenarios import Sample


def f1_score(flagged: jax.Array, truth: jax.Array, use: jax.Array | None = None) -> jax.Array:
    """Harmonic mean of precision and recall; 1 where both are empty, else 0 where one is.

    Args:
      flagged, truth: ``(R,)`` bool.
      use: ``(R,)`` bool, entries that count; all where None.
    """
    use = jnp.ones(flagged.shape, bool) if use is None else use
    both = jnp.sum(flagged & truth & use)
    total = jnp.sum(flagged & use) + jnp.sum(truth & use)
    return jnp.where(total > 0, 2 * both / jnp.maximum(total, 1), 1.0)


def true_cells(edges: jax.Array, sample: Sample, *, by: str) -> jax.Array:
    """Cells that are truly discrepant: ``by`` their ``"centre"`` or any ``"overlap"``.

    Args:
      edges: ``(R + 1,)``.
      sample: with the true intervals.
      by: the definition.

    Returns:
      ``(R,)`` bool.
    """
    low, high = edges[:-1, None], edges[1:, None]
    if by == "centre":
        centre = 0.5 * (low + high)
        return jnp.any((centre > sample.lower) & (centre < sample.upper), axis=1)
    if by == "overlap":
        return jnp.any((low < sample.upper) & (high > sample.lower), axis=1)
    raise ValueError(f'by must be "centre" or "overlap", got {by!r}')


def _overlap(low: jax.Array, high: jax.Array, lows: jax.Array, highs: jax.Array) -> jax.Array:
    lengths = jnp.minimum(high[:, None], highs) - jnp.maximum(low[:, None], lows)
    return jnp.sum(jnp.maximum(lengths, 0.0))


def interval_iou(regions: Regions, sample: Sample) -> jax.Array:
    """Length of the intersection of found and true intervals over that of their union."""
    low = jnp.where(regions.present, regions.lower, 0.0)
    high = jnp.where(regions.present, regions.upper, 0.0)
    shared = _overlap(low, high, sample.lower, sample.upper)
    union = jnp.sum(high - low) + jnp.sum(sample.upper - sample.lower) - shared
    return shared / jnp.where(union > 0, union, 1.0)


def edge_error(regions: Regions, sample: Sample) -> jax.Array:
    """Median distance from each true edge to the nearest found one; NaN where none was found."""
    found = jnp.concatenate([regions.lower, regions.upper])
    usable = jnp.concatenate([regions.present, regions.present])
    true = jnp.concatenate([sample.lower, sample.upper])
    distance = jnp.where(usable[None, :], jnp.abs(true[:, None] - found[None, :]), jnp.inf)
    nearest = jnp.min(distance, axis=1)
    return jnp.where(jnp.any(usable), jnp.median(nearest), jnp.nan)


def form_recovered(diagnosis: Diagnosis, sample: Sample) -> jax.Array:
    """Whether the chosen support is exactly that of the (first) true interval."""
    return jnp.all(diagnosis.form.support == sample.support[0])


def rmse(predicted: jax.Array, sample: Sample) -> jax.Array:
    """Root mean square of the forecast error on a sample, noise included."""
    return jnp.sqrt(jnp.mean((predicted - sample.response) ** 2))
