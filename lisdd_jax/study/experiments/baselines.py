"""Correctors that others use; each returns a physics and a correction that acts everywhere.

As published: global least squares for the physics, then a correction of its residual by the full
library, by sequentially thresholded least squares, or by a bootstrap ensemble of it. Beside them
the joint fit of physics and library, and the oracle that knows region and form. All are traced
functions of one data set.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax.numerics import least_squares, normal_equations
from lisdd_jax.results import in_interval
from lisdd_jax.study.experiments.scenarios import Sample


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class GlobalModel:
    """Physics ``(p,)`` and term weights ``(L,)``, the weights acting everywhere."""

    coefficients: jax.Array
    weights: jax.Array


def forecast(model: GlobalModel, sample: Sample) -> jax.Array:
    """Response ``(m,)`` of a globally corrected model."""
    return sample.design @ model.coefficients + sample.features @ model.weights


def global_physics(sample: Sample) -> GlobalModel:
    """Global least squares for the physics, no correction."""
    fit = least_squares.least_squares(sample.design, sample.response)
    weights = jnp.zeros(sample.features.shape[1], sample.features.dtype)
    return GlobalModel(coefficients=fit.coefficients, weights=weights)


def _residual(sample: Sample, coefficients: jax.Array) -> jax.Array:
    return sample.response - sample.design @ coefficients


def black_box(sample: Sample) -> GlobalModel:
    """Global physics, then the whole library on its residual by least squares."""
    physics = global_physics(sample).coefficients
    fit = least_squares.least_squares(sample.features, _residual(sample, physics))
    return GlobalModel(coefficients=physics, weights=fit.coefficients)


def joint(sample: Sample) -> GlobalModel:
    """Physics and library in one least-squares fit."""
    size = sample.design.shape[1]
    columns = jnp.concatenate([sample.design, sample.features], axis=1)
    fit = least_squares.least_squares(columns, sample.response)
    return GlobalModel(coefficients=fit.coefficients[:size], weights=fit.coefficients[size:])


def thresholded_least_squares(
    gram: jax.Array,
    moment: jax.Array,
    *,
    threshold: jax.Array | float,
    ridge: jax.Array | float = 0.05,
    max_iterations: int = 20,
) -> jax.Array:
    """Sequentially thresholded ridge regression, from sums of products.

    Fits, drops terms with ``|weight| < threshold``, and refits until the support repeats; the last
    fit on the support is without the penalty. Columns are not normalised, as in the usual software,
    so the threshold is in the units of the weights.

    Args:
      gram: ``(L, L)`` sums of products of the terms.
      moment: ``(L,)`` with the target.
      threshold: least magnitude of a weight that stays.
      ridge: penalty added to the diagonal.
      max_iterations: limit (static).

    Returns:
      ``(L,)`` weights, 0 off the support.

    References:
      Brunton, Proctor and Kutz (2016), Discovering governing equations from data, PNAS 113.
    """
    size = moment.shape[0]

    def solve(active: jax.Array, penalty: jax.Array | float) -> jax.Array:
        both = active[:, None] & active[None]
        # A one on the diagonal keeps a term out of use from touching the others.
        own = jnp.where(active, penalty, 1.0).astype(gram.dtype)
        table = jnp.where(both, gram, 0.0) + jnp.diag(own)
        return normal_equations.sweep(table, jnp.where(active, moment, 0.0)).solution

    def body(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        active, _, step = state
        kept = active & (jnp.abs(solve(active, ridge)) >= threshold)
        return kept, jnp.all(kept == active), step + 1

    start = (jnp.ones(size, bool), jnp.zeros((), bool), jnp.int32(0))
    active, _, _ = lax.while_loop(lambda s: ~s[1] & (s[2] < max_iterations), body, start)
    return jnp.where(active, solve(active, 0.0), 0.0)


def global_sparse(sample: Sample, threshold: jax.Array | float = 1.0) -> GlobalModel:
    """Global physics, then sequentially thresholded least squares on its residual."""
    physics = global_physics(sample).coefficients
    residual = _residual(sample, physics)
    weights = thresholded_least_squares(
        sample.features.T @ sample.features, sample.features.T @ residual, threshold=threshold
    )
    return GlobalModel(coefficients=physics, weights=weights)


def ensemble_sparse(
    key: jax.Array,
    sample: Sample,
    threshold: jax.Array | float = 1.0,
    *,
    num_bootstraps: int = 60,
) -> GlobalModel:
    """The mean of ``global_sparse`` over bootstraps, without terms that half of them leave out.

    Args:
      key: typed key of the bootstraps.
      sample: rows to fit.
      threshold: as for ``thresholded_least_squares``.
      num_bootstraps: resamples of the rows (static).

    Returns:
      Means of physics and weights; the weight is zero for terms kept by half of the bootstraps or
      fewer.

    References:
      Fasel, Kutz, Brunton and Brunton (2022), Ensemble-SINDy, Proceedings of the Royal Society A.
    """
    num_rows, size = sample.design.shape
    columns = jnp.concatenate([sample.design, sample.features, sample.response[:, None]], axis=1)

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Only sums of products enter, so a bootstrap is a weighting by counts.
        drawn = jax.random.randint(key, (num_rows,), 0, num_rows)
        counts = jnp.zeros(num_rows, columns.dtype).at[drawn].add(1.0)
        table = columns.T @ (counts[:, None] * columns)
        physics = normal_equations.sweep(table[:size, :size], table[:size, -1]).solution
        moment = table[size:-1, -1] - table[size:-1, :size] @ physics
        weights = thresholded_least_squares(table[size:-1, size:-1], moment, threshold=threshold)
        return physics, weights

    physics, weights = lax.map(one, jax.random.split(key, num_bootstraps))
    kept = jnp.mean(weights != 0, axis=0) > 0.5
    return GlobalModel(
        coefficients=jnp.mean(physics, axis=0),
        weights=jnp.where(kept, jnp.mean(weights, axis=0), 0.0),
    )


def oracle(sample: Sample, fresh: Sample) -> jax.Array:
    """Forecast by least squares with the true regions and forms, one amplitude per region.

    Args:
      sample: rows to fit.
      fresh: rows to forecast, of the same truth.

    Returns:
      ``(m,)`` forecast for ``fresh``.
    """
    columns = jnp.concatenate([sample.design, _true_terms(sample)], axis=1)
    fit = least_squares.least_squares(columns, sample.response)
    return jnp.concatenate([fresh.design, _true_terms(fresh)], axis=1) @ fit.coefficients


def _true_terms(sample: Sample) -> jax.Array:
    """The true missing term of each interval, ``(n, M)``."""
    inside = in_interval(sample.axis[:, None], sample.lower[None], sample.upper[None])
    return jnp.where(inside, sample.discrepancy[:, None], 0.0)
