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
    clean_regime,
    localization,
    multiplicity,
    partition,
    published,
    selection,
    validation,
)
from lisdd_jax.config import Config
from lisdd_jax.numerics import order
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


def _noise_scale(
    residuals: jax.Array, data: Prepared, regime: clean_regime.CleanRegime, scale: str
) -> jax.Array:
    """Median absolute deviation of all residuals, or of those in cells that are not flagged."""
    if scale == "all":
        return order.median_absolute_deviation(residuals, data.mask)
    clean = data.mask & ~jnp.append(regime.flagged, True)[data.cell]
    return order.median_absolute_deviation(residuals, clean)


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
    regime = published.fit_physics(key_start, data, data_status, data.mask, config)
    status = regime.status
    residuals = published.residuals_of(data, regime)
    noise = _noise_scale(residuals, data, regime, scale)
    ends = jnp.where(upper >= data.edges[-1], jnp.inf, upper)
    inside = (data.axis >= lower[:, None]) & (data.axis < ends[:, None]) & data.mask
    energy = jnp.sum(jnp.where(inside, residuals**2, 0.0), axis=1)
    count = jnp.sum(inside, axis=1, dtype=jnp.int32)
    test = localization.energy_test(energy, count, noise)
    log_p = jnp.where(is_failure(status), jnp.nan, test.log_p_value)
    adjusted = multiplicity.adjust_p_values(jnp.exp(log_p), method=method)
    declared = adjusted <= q

    def find_form(inputs: tuple[jax.Array, jax.Array]) -> tuple[selection.Selection, Any]:
        key, rows = inputs
        half = order.random_half(key, rows)
        chosen = selection.select(
            data.features, residuals, half, rows & ~half, config.max_terms, config.tolerance
        )
        return chosen, selection.fit_terms(data.features, residuals, chosen.support, rows)

    keys = jax.random.split(key_forms, lower.shape[0])
    chosen, (weights, stderr) = jax.lax.map(find_form, (keys, inside))
    shown = declared[:, None]
    unknown = jnp.full((*lower.shape, 2), jnp.nan, residuals.dtype)
    return CandidateRegions(
        coefficients=regime.coefficients,
        covariance=regime.covariance,
        scale=noise,
        regions=Regions(
            lower=lower,
            upper=upper,
            present=declared,
            count=count,
            support=shown & chosen.support,
            coefficients=jnp.where(shown, weights, 0.0),
            stderr=jnp.where(shown, stderr, jnp.nan),
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
    are then conservative. The scale of the clean cells keeps the nominal rate.

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
      scale: ``"all"``, the median absolute deviation of all residuals, or ``"clean"``, of those in
        cells that are not flagged (static).
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
