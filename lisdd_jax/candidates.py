"""Several candidate regions named beforehand: which are discrepant, and what is missing in each.

The physics comes from the published clean-regime fit. Every candidate region is tested by its
residual energy, the family of tests is adjusted for the false-discovery rate, and each declared
region receives a form of its own by holdout.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.config import PublishedConfig, check_published
from lisdd_jax.dataset import Dataset, check_call, prepare
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.published.evidence import CellTest, energy_of_regions, predictive_test
from lisdd_jax.published.physics import CleanRegime, fit_physics
from lisdd_jax.published.regions import make_cells
from lisdd_jax.results import Cells, Regions, in_interval, reaches_ends
from lisdd_jax.statistics import holdout
from lisdd_jax.statistics.multiplicity import adjust_p_values, check_method
from lisdd_jax.status import is_failure, nan_where

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


def _select_forms(
    key: jax.Array, data: Dataset, residuals: jax.Array, inside: jax.Array, config: PublishedConfig
) -> tuple[holdout.Selection, holdout.TermFit]:
    """A form for the rows ``inside (K, n)`` of every region."""

    def select(
        inputs: tuple[jax.Array, jax.Array],
    ) -> tuple[holdout.Selection, holdout.TermFit]:
        key, rows = inputs
        return holdout.select_by_chance(
            key, data.features, residuals, rows, config.max_terms, config.tolerance, data.block
        )

    return jax.lax.map(select, (jax.random.split(key, inside.shape[0]), inside))


def _declare(
    ends: tuple[jax.Array, ...],
    inside: jax.Array,
    test: CellTest,
    adjusted: jax.Array,
    declared: jax.Array,
    chosen: holdout.Selection,
    terms: holdout.TermFit,
) -> Regions:
    """The regions as given, with evidence for all and terms for the declared ones.

    Args:
      ends: lower and upper ends, and whether the region is open there, ``(K,)`` each.
      inside: ``(K, n)`` bool, rows of the regions.
      test: evidence of the regions.
      adjusted: ``(K,)`` p-values of the family.
      declared: ``(K,)`` bool.
      chosen, terms: form of every region.
    """
    lower, upper, open_below, open_above = ends
    shown = declared[:, None]
    unknown = jnp.full((*lower.shape, 2), jnp.nan, test.statistic.dtype)
    return Regions(
        lower=lower,
        upper=upper,
        open_below=open_below,
        open_above=open_above,
        present=declared,
        count=jnp.sum(inside, axis=1, dtype=jnp.int32),
        support=shown & chosen.support,
        coefficients=jnp.where(shown, terms.coefficients, 0.0),
        stderr=jnp.where(shown, terms.stderr, jnp.nan),
        equivalent=shown & chosen.equivalent,
        statistic=test.statistic,
        p_value=jnp.exp(test.log_p_value),
        log_p_value=test.log_p_value,
        same_rows=jnp.zeros((), bool),
        lower_interval=unknown,
        upper_interval=unknown,
        adjusted_p_value=adjusted,
        shared=jnp.zeros((), bool),
        softness=unknown,
        lacking=jnp.zeros_like(declared),
    )


class FittedRegions(NamedTuple):
    """What no test of the regions changes: the physics, and rows and forms of the regions.

    Attributes:
      data: the data set.
      regime, residuals: physics, and what it leaves.
      ends: lower and upper ends, and whether the region is open there, ``(K,)`` each.
      inside: ``(K, n)`` bool, rows of the regions.
      chosen, terms: form of every region.
    """

    data: Dataset
    regime: CleanRegime
    residuals: jax.Array
    ends: tuple[jax.Array, ...]
    inside: jax.Array
    chosen: holdout.Selection
    terms: holdout.TermFit


@jax.jit
@full_precision
def _fit_regions(
    key: jax.Array,
    arrays: dict[str, Any],
    lower: jax.Array,
    upper: jax.Array,
    config: PublishedConfig,
) -> FittedRegions:
    data, before = prepare(**arrays)
    key_start, key_forms = jax.random.split(key)
    regime, residuals = fit_physics(key_start, data, before, config)
    ends = (lower, upper, *reaches_ends(lower, upper, data.edges))
    inside = in_interval(data.axis[None], *(end[:, None] for end in ends)) & data.mask[None]
    chosen, terms = _select_forms(key_forms, data, residuals, inside, config)
    return FittedRegions(data, regime, residuals, ends, inside, chosen, terms)


@partial(jax.jit, static_argnames=("method", "scale"))
@full_precision
def declare_regions(
    fitted: FittedRegions, q: jax.Array, *, method: str, scale: str
) -> CandidateRegions:
    """Test the regions of one fit; ``q``, ``method``, ``scale`` as for ``diagnose_regions``."""
    data, regime, residuals, inside = fitted.data, fitted.regime, fitted.residuals, fitted.inside
    failed = is_failure(regime.status)
    if scale == "all":
        test, noise = energy_of_regions(residuals, data, inside)
    else:
        test, noise = predictive_test(residuals, data, data.in_cells(~regime.flagged), inside)
    test = CellTest(*(nan_where(failed, part) for part in test))
    adjusted = adjust_p_values(jnp.exp(test.log_p_value), method=method)
    forms = (fitted.chosen, fitted.terms)
    return CandidateRegions(
        coefficients=regime.coefficients,
        covariance=regime.covariance,
        scale=nan_where(failed, noise),
        regions=_declare(fitted.ends, inside, test, adjusted, adjusted <= q, *forms),
        cells=make_cells(data, regime),
        status=regime.status,
    )


def fit_regions(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    lower: Any,
    upper: Any,
    *,
    key: jax.Array,
    config: PublishedConfig | None = None,
    **options: Any,
) -> FittedRegions:
    """Physics and forms for ``declare_regions``; ``options`` are the edges and arrays per row.

    All of them are as for ``diagnose_regions``, and so is what is raised.
    """
    key, arrays, config = check_call(
        key, check_published(config), design, response, axis, features, **options
    )
    dtype, shapes = arrays["axis"].dtype, validation.Shapes()
    lower, upper = (
        validation.float_array(name, ends).astype(dtype)
        for name, ends in (("lower", lower), ("upper", upper))
    )
    shapes.check("lower", lower.shape, ("K",))
    shapes.check("upper", upper.shape, ("K",))
    _check_regions(lower, upper)
    return _fit_regions(key, arrays, lower, upper, config)


def diagnose_regions(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    lower: Any,
    upper: Any,
    *,
    key: jax.Array,
    config: PublishedConfig | None = None,
    q: Any = 0.05,
    method: str = "bh",
    scale: str = "all",
    edges: Any = None,
    mask: Any = None,
    block: Any = None,
    noise_scale: Any = None,
) -> CandidateRegions:
    """Declare which of several candidate regions are discrepant, at a false-discovery rate.

    ``T_k = sum_{i in region k} r_i^2 / scale^2`` is referred to the chi-square distribution with as
    many degrees of freedom as the region has rows; regions whose adjusted p-value is at most ``q``
    are declared, and each receives terms of its own by holdout. The stages before are those of the
    published method.

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
      config: settings of the published method; ``Config.paper()`` where None.
      q: level of the false-discovery rate.
      method: ``"bh"`` or ``"by"``, as for ``adjust_p_values`` (static).
      scale: ``"all"``, the median absolute deviation of all residuals, or ``"clean"``, the residual
        standard deviation of the cells that are not flagged (static).
      edges: ``(R + 1,)`` cell edges of the clean-regime fit.
      mask, block, noise_scale: these and the edges as for ``diagnose``.

    Returns:
      A ``CandidateRegions``. An empty region has NaN p-values and is never declared; under a failed
      status all p-values and the physics are NaN.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit, or regions overlap.

    Example:
      >>> t = jnp.linspace(0.0, 1.0, 60)
      >>> y = 2 * t + jnp.where(t >= 0.75, 1.0, 0.0) + 0.1 * jnp.sin(997 * t**2)
      >>> found = diagnose_regions(
      ...     t[:, None], y, t, jnp.ones((60, 1)), [0.25, 0.75], [0.5, 1.0],
      ...     key=jax.random.key(0), config=PublishedConfig(num_cells=4, num_starts=10),
      ... )
      >>> found.regions.present.tolist()
      [False, True]

    References:
      Wang, Localized and identifiable discovery of model discrepancy, equation (regionp).
      Benjamini and Hochberg (1995), Controlling the false discovery rate, JRSS B 57.
    """
    validation.check_number("q", q, 0.0, 1.0)
    check_method(method)
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {SCALES}, got {scale!r}")
    options = {"edges": edges, "mask": mask, "block": block, "noise_scale": noise_scale}
    fitted = fit_regions(
        design, response, axis, features, lower, upper, key=key, config=config, **options
    )
    q = jnp.asarray(q, fitted.residuals.dtype)
    return declare_regions(fitted, q, method=method, scale=scale)


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
