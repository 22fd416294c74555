"""Correctors that others use, fitted globally; each returns its physics and its correction.

As in the paper: global least squares for the physics, then a correction of its residual by the
full library, by sequentially thresholded least squares, or by a bootstrap ensemble of it. Beside
them the joint fit of physics and library, and the oracle that knows region and form.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax.numerics import least_squares
from lisdd_jax.study.scenarios import Sample


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class GlobalModel:
    """Physics ``(p,)`` and term weights ``(L,)``, the weights acting everywhere."""

    coefficients: jax.Array
    weights: jax.Array


def predict(model: GlobalModel, sample: Sample) -> jax.Array:
    """Response ``(m,)`` of a globally corrected model."""
    return sample.design @ model.coefficients + sample.features @ model.weights


def uncorrected(sample: Sample) -> GlobalModel:
    """Global least squares, no correction."""
    fit = least_squares.least_squares(sample.design, sample.response)
    return GlobalModel(coefficients=fit.coefficients, weights=jnp.zeros(sample.features.shape[1]))


def _residual(sample: Sample, coefficients: jax.Array) -> jax.Array:
    return sample.response - sample.design @ coefficients


def black_box(sample: Sample) -> GlobalModel:
    """Global physics, then the whole library on its residual by least squares."""
    physics = uncorrected(sample).coefficients
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
    fit on the support is without the penalty. Columns are not normalised.

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
        both = active[:, None] & active
        table = jnp.where(both, gram, 0.0) + jnp.eye(size) * jnp.where(active, penalty, 1.0)
        return least_squares.sweep(table, jnp.where(active, moment, 0.0)).solution

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
    physics = uncorrected(sample).coefficients
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
    """Bootstraps of ``global_sparse``; terms kept by more than half are refitted to the mean.

    Physics and weights are the means over the bootstraps, weights of terms kept by half of them or
    fewer set to zero.

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
        physics = least_squares.sweep(table[:size, :size], table[:size, -1]).solution
        moment = table[size:-1, -1] - table[size:-1, :size] @ physics
        weights = thresholded_least_squares(table[size:-1, size:-1], moment, threshold=threshold)
        return physics, weights

    physics, weights = lax.map(one, jax.random.split(key, num_bootstraps))
    kept = jnp.mean(weights != 0, axis=0) > 0.5
    return GlobalModel(
        coefficients=jnp.mean(physics, axis=0),
        weights=jnp.where(kept, jnp.mean(weights, axis=0), 0.0),
    )


def oracle(sample: Sample, truth: jax.Array, fresh: Sample, fresh_truth: jax.Array) -> jax.Array:
    """Forecast on fresh rows by least squares with the true region and form.

    Args:
      sample: rows to fit.
      truth: ``(n, q)`` the true terms, zero outside their regions.
      fresh: rows to forecast.
      fresh_truth: ``(m, q)`` the same terms there.

    Returns:
      ``(m,)`` forecast.
    """
    columns = jnp.concatenate([sample.design, truth], axis=1)
    fit = least_squares.least_squares(columns, sample.response)
    return jnp.concatenate([fresh.design, fresh_truth], axis=1) @ fit.coefficients
