"""How right a diagnosis is, against the truth of a simulated sample."""

import jax
import jax.numpy as jnp

from lisdd_jax.results import Cells, Diagnosis, Regions, Verdict, in_interval
from lisdd_jax.study.experiments.scenarios import Sample

_ABSTENTIONS = (
    Verdict.NO_CLEAN_REGIME,
    Verdict.AMBIGUOUS_REGIME,
    Verdict.NOT_IDENTIFIABLE,
    Verdict.INSUFFICIENT_DATA,
)


def f1_score(flagged: jax.Array, truth: jax.Array) -> jax.Array:
    """Harmonic mean of precision and recall.

    Args:
      flagged, truth: ``(R,)`` bool.

    Returns:
      ``2 |flagged and truth| / (|flagged| + |truth|)``; 1 where both are empty.
    """
    both = jnp.sum(flagged & truth)
    total = jnp.sum(flagged) + jnp.sum(truth)
    return jnp.where(total > 0, 2 * both / jnp.maximum(total, 1), 1.0)


def cell_edges(cells: Cells) -> jax.Array:
    """Edges ``(R + 1,)`` of the cells of a diagnosis."""
    return jnp.append(cells.lower, cells.upper[-1])


def cells_inside(edges: jax.Array, intervals: Sample | Regions, *, by: str) -> jax.Array:
    """Cells that the true intervals of a sample, or the regions of a diagnosis, take up.

    The two definitions disagree on cells that an interval covers in part, and so do the scores.

    Args:
      edges: ``(R + 1,)``.
      intervals: with ``lower``, ``upper`` and ``present``.
      by: ``"centre"``, the centre lies in an interval; or ``"overlap"``, any part does.

    Returns:
      ``(R,)`` bool.

    Raises:
      ValueError: ``by`` is neither.
    """
    low, high = edges[:-1, None], edges[1:, None]
    if by == "centre":
        centre = 0.5 * (low + high)
        within = in_interval(centre, intervals.lower[None], intervals.upper[None])
    elif by == "overlap":
        within = (low < intervals.upper[None]) & (high > intervals.lower[None])
    else:
        raise ValueError(f'by must be "centre" or "overlap", got {by!r}')
    return jnp.any(within & intervals.present[None], axis=1)


def interval_iou(regions: Regions, sample: Sample) -> jax.Array:
    """Length shared by the found and the true intervals over that of their union.

    Args:
      regions: disjoint found intervals.
      sample: with disjoint true intervals.

    Returns:
      A number in [0, 1]; 1 where both are empty.
    """
    low = jnp.where(regions.present, regions.lower, 0.0)
    high = jnp.where(regions.present, regions.upper, 0.0)
    true_low = jnp.where(sample.present, sample.lower, 0.0)
    true_high = jnp.where(sample.present, sample.upper, 0.0)
    ends = jnp.minimum(high[:, None], true_high[None])
    starts = jnp.maximum(low[:, None], true_low[None])
    shared = jnp.sum(jnp.maximum(ends - starts, 0.0))
    union = jnp.sum(high - low) + jnp.sum(true_high - true_low) - shared
    return jnp.where(union > 0, shared / jnp.where(union > 0, union, 1.0), 1.0)


def edge_error(regions: Regions, sample: Sample) -> jax.Array:
    """Median distance from a true edge to the nearest found one.

    Args:
      regions: found intervals.
      sample: with the true intervals.

    Returns:
      A length in units of the axis; NaN where nothing was found or nothing is there.
    """
    found = jnp.concatenate([regions.lower, regions.upper])
    usable = jnp.tile(regions.present, 2)
    true = jnp.concatenate([sample.lower, sample.upper])
    distance = jnp.where(usable[None, :], jnp.abs(true[:, None] - found[None, :]), jnp.inf)
    nearest = jnp.where(jnp.tile(sample.present, 2), jnp.min(distance, axis=1), jnp.nan)
    return jnp.where(jnp.any(usable), jnp.nanmedian(nearest), jnp.nan)


def form_recovered(diagnosis: Diagnosis, sample: Sample) -> jax.Array:
    """Whether the chosen support is exactly that of the first true interval."""
    return jnp.all(diagnosis.form.support == sample.support[0])


def rmse(predicted: jax.Array, sample: Sample) -> jax.Array:
    """Root mean square of the forecast error on a sample, noise included."""
    return jnp.sqrt(jnp.mean((predicted - sample.response) ** 2))


def abstained(diagnosis: Diagnosis) -> jax.Array:
    """Whether the verdict is that the data do not allow an answer."""
    return jnp.isin(diagnosis.verdict, jnp.array(_ABSTENTIONS, jnp.int32))


def diagnosis_metrics(diagnosis: Diagnosis, sample: Sample) -> dict[str, jax.Array]:
    """The usual metrics of a diagnosis, ready to be returned by the ``evaluate`` of a study.

    Args:
      diagnosis: of the sample.
      sample: with the truth.

    Returns:
      ``physics_bias`` (absolute error of the first coefficient), ``f1_centre``, ``f1_overlap`` (of
      the cells that the regions take up), ``iou``, ``edge_error``, ``form_recovery``,
      ``rejection_rate``, ``flagged_rate`` (some cell flagged), ``abstention_rate``, ``scale``, and
      ``status``. Those of a failed diagnosis are NaN where the estimate is.
    """
    edges = cell_edges(diagnosis.cells)

    def f1(by: str) -> jax.Array:
        found = cells_inside(edges, diagnosis.regions, by=by)
        return f1_score(found, cells_inside(edges, sample, by=by))

    return {
        "physics_bias": jnp.abs(diagnosis.coefficients[0] - sample.coefficients[0]),
        "f1_centre": f1("centre"),
        "f1_overlap": f1("overlap"),
        "iou": interval_iou(diagnosis.regions, sample),
        "edge_error": edge_error(diagnosis.regions, sample),
        "form_recovery": form_recovered(diagnosis, sample),
        "rejection_rate": diagnosis.test.reject,
        "flagged_rate": jnp.any(diagnosis.cells.flagged),
        "abstention_rate": abstained(diagnosis),
        "scale": diagnosis.scale,
        "status": diagnosis.status,
    }
