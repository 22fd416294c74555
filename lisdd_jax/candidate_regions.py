"""Several candidate regions named beforehand: which are discrepant, and what is missing in each.

The physics comes from the published clean-regime fit. Every candidate region is tested by its
residual energy, the family of tests is adjusted for the false-discovery rate, and each declared
region receives a form of its own by holdout.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax import (
    localization,
    multiplicity,
    partition,
    published,
    selection,
    validation,
)
from lisdd_jax.config import Config
from lisdd_jax.numerics import normal_equations, order, tails
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.prepared import Prepared, prepare
from lisdd_jax.results import Cells, Regions
from lisdd_jax.status import is_failure

SCALES = ("all", "clean")


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class CandidateRegions:
    """The verdict on every candidate region.

    Attributes:
      coefficients: ``(p,)`` the trusted physics; NaN under a failure.
      covariance: ``(p, p)``.
      scale: noise scale that the tests divide by.
      regions: in the order given, with the ends given; ``present`` says which are declared. Counts,
        statistics and p-values are there for all, terms and coefficients for the declared ones.
      cells: the map of the physics fit, which leaves out the flagged ones.
      status: int32.
    """

    coefficients: jax.Array
    covariance: jax.Array
    scale: jax.Array
    regions: Regions
    cells: Cells
    status: jax.Array


def _energy_test(
    residuals: jax.Array, data: Prepared, inside: jax.Array
) -> tuple[localization.CellTest, jax.Array]:
    """The published test, and the scale of all residuals."""
    scale = order.median_absolute_deviation(residuals, data.mask)
    energy = jnp.sum(jnp.where(inside, residuals**2, 0.0), axis=1)
    return localization.energy_test(energy, jnp.sum(inside, axis=1), scale), scale


def _predictive_test(
    residuals: jax.Array, data: Prepared, clean: jax.Array, inside: jax.Array
) -> tuple[localization.CellTest, jax.Array]:
    """Every region against the clean rows outside of it, and the scale of the clean rows.

    ``F = ((S_both - S_rest) / n) / (S_rest / (n_rest - p))`` with the residual sums of the physics
    on those rows with and without the region's ``n``: exact for Gaussian noise, as it accounts for
    the estimation of physics and scale.
    """
    size = data.basis.shape[1]
    columns = jnp.where(data.mask[:, None], jnp.column_stack([data.basis, residuals]), 0.0)
    rest = clean & ~inside
    rows = jnp.concatenate([rest, rest | inside, clean[None]]).astype(columns.dtype)
    products = (columns[:, :, None] * columns[:, None, :]).reshape(len(columns), -1)
    sums = (rows @ products).reshape(-1, size + 1, size + 1)
    left, rank = normal_equations.left_over(
        sums[:, :size, :size], sums[:, :size, size], sums[:, size, size]
    )
    without, both, clean_sum = jnp.split(left, [len(rest), 2 * len(rest)])
    count, count_rest = jnp.sum(inside, axis=1), jnp.sum(rest, axis=1)
    dof = count_rest - size
    testable = (count > 0) & (dof > 0) & (rank[: len(rest)] == size)
    testable = testable & (without > 0)
    variance = jnp.where(testable, without / jnp.maximum(dof, 1), 1.0)
    statistic = jnp.maximum(both - without, 0.0) / variance
    num = jnp.maximum(count, 1).astype(statistic.dtype)
    log_p = tails.f_logsf(statistic / num, num, jnp.maximum(dof, 1).astype(statistic.dtype))
    test = localization.CellTest(
        jnp.where(testable, statistic, jnp.nan), jnp.where(testable, log_p, jnp.nan)
    )
    return test, jnp.sqrt(clean_sum[0] / jnp.maximum(jnp.sum(clean) - size, 1))


@partial(jax.jit, static_argnames=("method", "scale"))
@full_precision
def _diagnose_regions(
    key: jax.Array,
    data_arrays: tuple[jax.Array, ...],
    lower: jax.Array,
    upper: jax.Array,
    config: Config,
    q: jax.Array,
    method: str,
    scale: str,
) -> CandidateRegions:
    data, data_status = prepare(*data_arrays)
    key_start, key_forms = jax.random.split(key)
    regime = published.fit_physics(key_start, data, data_status, config)
    status = regime.status
    residuals = published.residuals_of(data, regime)
    ends = jnp.where(upper >= data.edges[-1], jnp.inf, upper)
    inside = (data.axis >= lower[:, None]) & (data.axis < ends[:, None]) & data.mask
    count = jnp.sum(inside, axis=1, dtype=jnp.int32)
    if scale == "all":
        test, noise = _energy_test(residuals, data, inside)
    else:
        clean = data.mask & ~jnp.append(regime.flagged, True)[data.cell]
        test, noise = _predictive_test(residuals, data, clean, inside)
    log_p = jnp.where(is_failure(status), jnp.nan, test.log_p_value)
    adjusted = multiplicity.adjust_p_values(jnp.exp(log_p), method=method)
    declared = adjusted <= q

    def find_form(
        inputs: tuple[jax.Array, jax.Array],
    ) -> tuple[selection.Selection, selection.TermFit]:
        key, rows = inputs
        return selection.select_by_chance(
            key, data.features, residuals, rows, config.max_terms, config.tolerance
        )

    keys = jax.random.split(key_forms, lower.shape[0])
    chosen, terms = jax.lax.map(find_form, (keys, inside))
    shown = declared[:, None]
    unknown = jnp.full((*lower.shape, 2), jnp.nan, residuals.dtype)
    return CandidateRegions(
        coefficients=regime.coefficients,
        covariance=regime.covariance,
        scale=jnp.where(is_failure(status), jnp.nan, noise),
        regions=Regions(
            lower=lower,
            upper=upper,
            present=declared,
            count=count,
            support=shown & chosen.support,
            coefficients=jnp.where(shown, terms.coefficients, 0.0),
            stderr=jnp.where(shown, terms.stderr, jnp.nan),
            equivalent=shown & chosen.equivalent,
            statistic=test.statistic,
            p_value=jnp.exp(log_p),
            log_p_value=log_p,
            lower_interval=unknown,
            upper_interval=unknown,
            adjusted_p_value=adjusted,
            shared=jnp.zeros((), bool),
        ),
        cells=published.make_cells(data, regime),
        status=status,
    )


def diagnose_regions(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    lower: Any,
    upper: Any,
    *,
    key: jax.Array,
    config: Config | None = None,
    q: Any = 0.05,
    method: str = "bh",
    scale: str = "all",
    edges: Any = None,
    mask: Any = None,
) -> CandidateRegions:
    """Declare which of several candidate regions are discrepant, at a false-discovery rate.

    ``T_k = sum_{i in region k} r_i^2 / scale^2`` is referred to the chi-square distribution with as
    many degrees of freedom as the region has rows; regions whose adjusted p-value is at most ``q``
    are declared, and each receives terms of its own by holdout. The stages before are those of the
    published method, whatever ``config.method``.

    The scale of all residuals, as published, is inflated where many rows are discrepant: the tests
    are then conservative. With the scale of the clean cells every region is referred to the F
    distribution against the clean rows outside of it, which keeps the nominal rate.

    Args:
      design: ``(n, p)`` known regressors of the trusted physics.
      response: ``(n,)``.
      axis: ``(n,)`` operating variable.
      features: ``(n, L)`` candidate terms.
      lower, upper: ``(K,)`` ends of disjoint regions ``[lower, upper)``, fixed before the data were
        seen; one that reaches the last edge has no end.
      key: typed key of starts and splits.
      config: settings; ``Config.paper()`` where None.
      q: level of the false-discovery rate.
      method: ``"bh"`` or ``"by"``, as for ``adjust_p_values`` (static).
      scale: ``"all"``, the median absolute deviation of all residuals, or ``"clean"``, the residual
        standard deviation of the cells that are not flagged (static).
      edges: ``(R + 1,)`` cell edges of the clean-regime fit; equal widths where None.
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``CandidateRegions``. An empty region has NaN p-values and is never declared; under a failed
      status all p-values and the physics are NaN.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit, or regions overlap.

    References:
      Wang, Localized and identifiable discovery of model discrepancy, equation (regionp).
      Benjamini and Hochberg (1995), Controlling the false discovery rate, JRSS B 57.
    """
    config = Config.paper() if config is None else config
    named = {"design": design, "response": response, "axis": axis, "features": features}
    named |= {"lower": lower, "upper": upper}
    arrays = {name: validation.float_array(name, value) for name, value in named.items()}
    shapes = validation.Shapes()
    dimensions = (("n", "p"), ("n",), ("n",), ("n", "L"), ("K",), ("K",))
    for (name, array), dims in zip(arrays.items(), dimensions, strict=True):
        shapes.check(name, array.shape, dims)
    lower, upper = (arrays.pop(name).astype(arrays["axis"].dtype) for name in ("lower", "upper"))
    validation.common_dtype(**arrays)
    mask = validation.mask_array(mask, arrays["design"].shape[0])
    for name, array in arrays.items():
        validation.check_finite(name, array, mask)
    _check_regions(lower, upper)
    validation.check_number("q", q, 0.0, 1.0)
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {SCALES}, got {scale!r}")
    if edges is None:
        edges = partition.equal_width_edges(arrays["axis"], config.num_cells, mask)
    edges = validation.float_array("edges", edges).astype(arrays["axis"].dtype)
    shapes.check("edges", edges.shape, ("R + 1",))
    data_arrays = (*arrays.values(), edges, mask)
    config = config.checked(edges.dtype)
    key, q = validation.check_key(key), jnp.asarray(q, edges.dtype)
    return _diagnose_regions(key, data_arrays, lower, upper, config, q, method, scale)


def _check_regions(lower: jax.Array, upper: jax.Array) -> None:
    if not (validation.is_concrete(lower) and validation.is_concrete(upper)):
        return
    if not lower.shape[0]:
        raise ValueError("lower and upper must name at least one region, got none")
    pairs = sorted(zip(lower.tolist(), upper.tolist(), strict=True))
    for low, high in pairs:
        if not low < high:
            raise ValueError(f"lower must be less than upper, got a region from {low} to {high}")
    for (_, end), (start, _) in itertools.pairwise(pairs):
        if start < end:
            raise ValueError(f"regions must be disjoint, got one up to {end} and one from {start}")
