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

from lisdd_jax import validation
from lisdd_jax.config import PublishedConfig, check_published
from lisdd_jax.dataset import Dataset, check_call, prepare
from lisdd_jax.numerics import normal_equations, order
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.published.evidence import CellTest, energy_test
from lisdd_jax.published.physics import fit_physics
from lisdd_jax.published.regions import make_cells
from lisdd_jax.results import Cells, Regions, in_interval, reaches_ends
from lisdd_jax.statistics import holdout
from lisdd_jax.statistics.f_tests import f_ratio, log_p_values
from lisdd_jax.statistics.multiplicity import adjust_p_values
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


def _energy_test(
    residuals: jax.Array, data: Dataset, inside: jax.Array
) -> tuple[CellTest, jax.Array]:
    """The published test, and the scale of all residuals."""
    scale = order.median_absolute_deviation(residuals, data.mask)
    energy = jnp.sum(jnp.where(inside, residuals[None] ** 2, 0.0), axis=1)
    return energy_test(energy, jnp.sum(inside, axis=1), scale), scale


def _predictive_test(
    residuals: jax.Array, data: Dataset, clean: jax.Array, inside: jax.Array
) -> tuple[CellTest, jax.Array]:
    """Every region against the clean rows outside of it, and the scale of the clean rows.

    ``F = ((S_both - S_rest) / n) / (S_rest / (n_rest - p))`` with the residual sums of the physics
    on those rows with and without the region's ``n``: exact for Gaussian noise, as it accounts for
    the estimation of physics and scale. The statistic is ``n F``.
    """
    size = data.basis.shape[1]
    columns = jnp.column_stack([data.basis, residuals])
    rest = clean[None] & ~inside
    rows = jnp.concatenate([rest, rest | inside, clean[None]]).astype(columns.dtype)
    products = (columns[:, :, None] * columns[:, None, :]).reshape(len(columns), -1)
    sums = (rows @ products).reshape(-1, size + 1, size + 1)
    left, rank = normal_equations.left_over(
        sums[:, :size, :size], sums[:, :size, size], sums[:, size, size]
    )
    without, both, clean_sum = jnp.split(left, [len(rest), 2 * len(rest)])
    count = jnp.sum(inside, axis=1)
    df_den = jnp.sum(rest, axis=1) - size
    testable = (rank[: len(rest)] == size) & (df_den > 0) & (without > 0)
    variance = without / jnp.maximum(df_den, 1).astype(without.dtype)
    ratio = f_ratio(
        jnp.maximum(both - without, 0.0),
        jnp.where(testable, count, 0),
        df_den,
        variance=jnp.where(testable, variance, 1.0),
    )
    (log_p,) = log_p_values(ratio)
    statistic = jnp.where(ratio.defined, ratio.statistic * ratio.df_num, jnp.nan)
    freedom = jnp.maximum(jnp.sum(clean) - size, 1).astype(without.dtype)
    return CellTest(statistic, log_p), jnp.sqrt(clean_sum[0] / freedom)


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


@partial(jax.jit, static_argnames=("method", "scale"))
@full_precision
def _diagnose_regions(
    key: jax.Array,
    arrays: dict[str, Any],
    lower: jax.Array,
    upper: jax.Array,
    config: PublishedConfig,
    q: jax.Array,
    method: str,
    scale: str,
) -> CandidateRegions:
    data, before = prepare(**arrays)
    key_start, key_forms = jax.random.split(key)
    regime, residuals = fit_physics(key_start, data, before, config)
    failed = is_failure(regime.status)
    ends = (lower, upper, *reaches_ends(lower, upper, data.edges))
    inside = in_interval(data.axis[None], *(end[:, None] for end in ends)) & data.mask[None]
    if scale == "all":
        test, noise = _energy_test(residuals, data, inside)
    else:
        test, noise = _predictive_test(residuals, data, data.in_cells(~regime.flagged), inside)
    test = CellTest(*(nan_where(failed, part) for part in test))
    adjusted = adjust_p_values(jnp.exp(test.log_p_value), method=method)
    forms = _select_forms(key_forms, data, residuals, inside, config)
    return CandidateRegions(
        coefficients=regime.coefficients,
        covariance=regime.covariance,
        scale=nan_where(failed, noise),
        regions=_declare(ends, inside, test, adjusted, adjusted <= q, *forms),
        cells=make_cells(data, regime),
        status=regime.status,
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
    per_row = {"mask": mask, "block": block, "noise_scale": noise_scale}
    key, arrays, config = check_call(
        key, check_published(config), design, response, axis, features, edges=edges, **per_row
    )
    dtype, shapes = arrays["axis"].dtype, validation.Shapes()
    lower, upper = (
        validation.float_array(name, ends).astype(dtype)
        for name, ends in (("lower", lower), ("upper", upper))
    )
    shapes.check("lower", lower.shape, ("K",))
    shapes.check("upper", upper.shape, ("K",))
    _check_regions(lower, upper)
    validation.check_number("q", q, 0.0, 1.0)
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {SCALES}, got {scale!r}")
    q = jnp.asarray(q, dtype)
    return _diagnose_regions(key, arrays, lower, upper, config, q, method, scale)


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
