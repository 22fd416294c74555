"""The published diagnosis as a smooth function of its inputs."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax.config import PublishedConfig, check_published
from lisdd_jax.dataset import Dataset, check_call, prepare
from lisdd_jax.hybrid import gates, soft_regime, soft_selection
from lisdd_jax.numerics import scaling
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.published.physics import fit_physics
from lisdd_jax.statistics import splits
from lisdd_jax.statistics.supports import supports
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothDiagnosis:
    """Physics, map, form and certificate under smooth gates; NaN under a failure.

    Attributes:
      coefficients: ``(p,)`` the trusted physics.
      scale: noise scale.
      lower, upper: ``(R,)`` cell edges in units of the axis.
      log_p_value: ``(R,)`` of the energy test of every cell.
      flagged: ``(R,)`` in [0, 1], how far a cell is outside the clean regime.
      support_weights: ``(S,)`` in the order of ``supports``.
      form_coefficients: ``(L,)`` of the missing terms, averaged over the supports, times the smooth
        flag that any cell is flagged at all; 0 where nothing is.
      statistic: partial F of what split A shows, on split B, averaged over its supports.
      test_log_p_value: log p-value of it, averaged and multiplied likewise.
      objective: log root mean square of what the corrected model leaves: a smooth loss for what
        lies behind the inputs.
      status: int32.
      test_status: int32, of the statistic and its p-value: they need a solution on split A too.
    """

    coefficients: jax.Array
    scale: jax.Array
    lower: jax.Array
    upper: jax.Array
    log_p_value: jax.Array
    flagged: jax.Array
    support_weights: jax.Array
    form_coefficients: jax.Array
    statistic: jax.Array
    test_log_p_value: jax.Array
    objective: jax.Array
    status: jax.Array
    test_status: jax.Array


class _Stages(NamedTuple):
    regime: soft_regime.SoftRegime
    initial: jax.Array
    weights: jax.Array
    coefficients: jax.Array
    inside: jax.Array
    status: jax.Array


def _run_stages(
    keys: jax.Array,
    data: Dataset,
    before: jax.Array,
    mask: jax.Array,
    membership: jax.Array,
    config: PublishedConfig,
    temperature: jax.Array,
) -> _Stages:
    """Stages 1 to 3 on the rows in ``mask``; keys ``(2,)`` of the start and of the holdout."""
    hard = fit_physics(keys[0], lax.stop_gradient(data).restrict(mask), before, config).regime
    failed = is_failure(hard.status)
    initial = data.frame.solution(jnp.where(failed, 0.0, lax.stop_gradient(hard.coefficients)))
    basis = jnp.where(mask[:, None], data.basis, 0.0)
    about = jnp.where(mask, data.centered - data.basis @ initial, 0.0)
    regime = soft_regime.fit_soft_regime(
        basis, about, membership, mask, config.alpha_cell, temperature
    )
    within = mask & data.in_cells(hard.flagged)
    form = _choose_form(keys[1], data, regime, within, membership, mask, config, temperature)
    unsolved = status_if(~regime.converged & ~failed, Status.NOT_CONVERGED)
    return _Stages(regime, initial, *form, status=first_failure(hard.status, unsolved))


def _choose_form(
    key: jax.Array,
    data: Dataset,
    regime: soft_regime.SoftRegime,
    within: jax.Array,
    membership: jax.Array,
    mask: jax.Array,
    config: PublishedConfig,
    temperature: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Weights of the supports, coefficients, and how far every row is in a region.

    The halves are those of the hard algorithm, which splits the rows ``within`` its regions; the
    other rows follow coins of their own.
    """
    inside = jnp.where(mask, membership @ regime.flagged, 0.0)
    keys, parts = (key, jax.random.fold_in(key, 1)), (within, mask & ~within)
    first = jnp.any(jnp.stack(list(map(splits.random_half, keys, parts))), axis=0)
    second = mask & ~first
    table = supports(data.features.shape[1], config.max_terms)
    columns = jnp.column_stack([data.features, regime.residual])
    fit, score = (
        soft_selection.weighted_products(columns, jnp.where(half, inside, 0.0))
        for half in (first, second)
    )
    num_score = jnp.sum(jnp.where(second, inside, 0.0))
    errors = soft_selection.holdout_errors(fit, score, num_score, table)
    weights = soft_selection.support_weights(
        errors, table.sum(axis=1), config.tolerance, temperature
    )
    average = soft_selection.average_coefficients(fit + score, table, weights)
    return weights, average * _any(regime.flagged), inside


def _certify(
    data: Dataset, split: _Stages, mask: jax.Array, membership: jax.Array, config: PublishedConfig
) -> soft_selection.SoftTest:
    """What split A shows, tested on the rows of split B in ``mask``."""
    table = supports(data.features.shape[1], config.max_terms)
    inside = membership @ split.regime.flagged
    residual = data.centered - data.basis @ split.initial
    added = data.features * inside[:, None]
    added = added / scaling.column_norms(added / added.shape[0] ** 0.5)[None]
    columns = jnp.column_stack([data.basis, added, residual])
    products = soft_selection.weighted_products(columns, mask.astype(columns.dtype))
    size = data.basis.shape[1]
    test = soft_selection.average_f_test(products, jnp.sum(mask), size, table, split.weights)
    return test._replace(log_p_value=test.log_p_value * _any(split.regime.flagged))


def _any(flagged: jax.Array) -> jax.Array:
    """Smooth flag that some cell is flagged."""
    return 1 - jnp.prod(1 - flagged)


@jax.jit
@full_precision
def _smooth_diagnose(
    key: jax.Array, arrays: dict[str, Any], config: PublishedConfig, temperature: jax.Array
) -> SmoothDiagnosis:
    keys = jax.random.split(key, 5)
    data, data_status = prepare(**arrays)
    edges = data.edges
    sizes = scaling.column_norms(data.features / len(data.response) ** 0.5)
    data = dataclasses.replace(data, features=data.features / sizes[None])
    width = temperature**2 * (edges[-1] - edges[0]) / (edges.shape[0] - 1)
    position = jnp.where(data.mask, data.axis, lax.stop_gradient(edges[0]))
    membership = gates.cell_membership(position, edges, width)
    halves = splits.random_halves(keys[4], data.mask)
    found = lax.map(
        lambda part: _run_stages(
            part[0], data, data_status, part[1], membership, config, temperature
        ),
        (keys[:4].reshape(2, 2), jnp.stack([data.mask, halves.first])),
    )
    full, split = (jax.tree.map(lambda leaf, i=i: leaf[i], found) for i in (0, 1))
    test = _certify(data, split, data.mask & ~halves.first, membership, config)
    failed = is_failure(full.status)
    test_status = first_failure(full.status, split.status)
    test_failed = is_failure(test_status)
    regime = full.regime
    left = regime.residual - full.inside * (data.features @ full.coefficients)
    mean_square = jnp.sum(left**2) / jnp.maximum(data.num_rows, 1).astype(left.dtype)
    shown = partial(nan_where, failed)
    return SmoothDiagnosis(
        coefficients=shown(data.frame.coefficients(full.initial + regime.step)),
        scale=shown(regime.scale),
        lower=edges[:-1],
        upper=edges[1:],
        log_p_value=shown(regime.log_p_value),
        flagged=shown(regime.flagged),
        support_weights=shown(full.weights),
        form_coefficients=shown(full.coefficients / sizes),
        statistic=nan_where(test_failed, test.statistic),
        test_log_p_value=nan_where(test_failed, test.log_p_value),
        objective=shown(0.5 * jnp.log(jnp.where(failed, 1.0, mean_square))),
        status=full.status,
        test_status=test_status,
    )


def smooth_diagnose(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    *,
    key: jax.Array,
    temperature: Any = 0.05,
    config: PublishedConfig | None = None,
    edges: Any = None,
    mask: Any = None,
) -> SmoothDiagnosis:
    """The published diagnosis with smooth gates in place of its decisions.

    A cell's weight in the physics falls as ``sigmoid((log p - log alpha_cell) / (T |log
    alpha_cell|))``, a row counts in neighbouring cells by logistic steps of width ``T^2`` cells at
    the edges, the noise scale is a median absolute deviation with the sign smoothed over ``T``
    scales, and every support has a weight (``soft_selection.support_weights``). The physics solves
    the smooth system near the hard answer. As ``T`` falls to zero all of this becomes the hard
    answer; ``LOWEST_TEMPERATURE`` is the smallest that is supported.

    Differentiable to any order, forward and reverse, in all arrays, edges, temperature and the
    numbers of ``config``. Derivatives are implicit: no iteration is unrolled. The halves and the
    hard answer from which the system is solved are taken as constant.

    Args:
      design, response, axis, features, key, edges, mask: as for ``diagnose``.
      temperature: in ``[LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE]``; traced.
      config: settings of the published method; ``Config.paper()`` where None.

    Returns:
      A ``SmoothDiagnosis``; NaN under a failure of the hard algorithm and under
      ``NOT_CONVERGED``. Derivatives are zero there.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> t = jnp.linspace(0.0, 1.0, 60)
      >>> y = 2 * t + jnp.where(t >= 0.75, 1.0, 0.0) + 0.1 * jnp.sin(997 * t**2)
      >>> config = PublishedConfig(num_cells=4, num_starts=10)
      >>> found = smooth_diagnose(
      ...     t[:, None], y, t, jnp.ones((60, 1)), key=jax.random.key(0), config=config
      ... )
      >>> found.flagged.round(2).tolist()
      [0.0, 0.0, 0.0, 1.0]

    References:
      Wang, Localized and identifiable discovery of model discrepancy, algorithm 1. Krantz and Parks
      (2013), The Implicit Function Theorem, chapter 3.
    """
    config = check_published(config)
    key, arrays, config = check_call(
        key, config, design, response, axis, features, edges=edges, mask=mask
    )
    temperature = gates.check_temperature(temperature, arrays["response"].dtype)
    return _smooth_diagnose(key, arrays, config, temperature)
