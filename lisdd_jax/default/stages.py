"""Where and what, on one set of rows: clean regime, regions, form, and the physics refitted."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.config import Config
from lisdd_jax.default import (
    added_terms,
    edges,
    evidence,
    form,
    local_fits,
    ordering,
    regime,
    runs,
)
from lisdd_jax.default.added_terms import Physics
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.numerics import scaling
from lisdd_jax.statistics.f_tests import log_p_values


class Stages(NamedTuple):
    """What the rows in use show.

    Attributes:
      groups: cells taken together.
      regime: the clean regime.
      spans: the flagged runs.
      form: terms and edges.
      physics: the refitted law.
      log_p_physics: lack of fit on the rows of that fit, against polynomials of the axis.
      coefficients, stderr: ``(K, m)`` of the terms, in their scaled units.
      lower, upper: ``(K,)`` ends of the regions on the axis.
      lower_interval, upper_interval: ``(K, 2)``.
    """

    groups: ordering.Groups
    regime: regime.Regime
    spans: runs.Spans
    form: form.Shape
    physics: Physics
    log_p_physics: jax.Array
    coefficients: jax.Array
    stderr: jax.Array
    lower: jax.Array
    upper: jax.Array
    lower_interval: jax.Array
    upper_interval: jax.Array


def _refit_physics(
    rows: Ordered,
    mask: jax.Array,
    group: jax.Array,
    found: regime.Regime,
    spans: runs.Spans,
    shape: form.Shape,
    alpha_back: jax.Array,
) -> tuple[Physics, jax.Array]:
    """Least squares on the trusted groups, and on what the edges leave of the others.

    The rows that the edges free come back only where the physics fits them as well. Returns the log
    p-value of the lack of fit too.
    """
    n = mask.shape[0]
    trusted = mask & jnp.append(found.clean, False)[group]
    window = edges.RowSpan(spans.low, spans.high).inside(n, spans.present)
    # Rows between the confidence bounds of an edge belong to neither side for certain.
    doubtful = edges.RowSpan(shape.start_interval[:, 0], shape.stop_interval[:, 1])
    inside = jnp.any(shape.region.inside(n, spans.present), axis=0)
    free = jnp.any(window, axis=0) & ~jnp.any(doubtful.inside(n, spans.present), axis=0)
    smooth = local_fits.legendre(jnp.where(rows.used, rows.axis, 0.0), rows.edges)

    def fit(use: jax.Array) -> tuple[Physics, jax.Array]:
        added = added_terms.fit_added(rows.basis, rows.residual, smooth, use, rows.floor)
        log_p = log_p_values(added.ordinary, added.robust)
        return added.physics, evidence.unless_contradicted(*log_p)

    wide = (trusted & ~inside) | (mask & free)
    physics, log_p = jax.lax.map(fit, jnp.stack([wide, trusted]))
    too_few = physics.num_rows[1] <= rows.basis.shape[1] + 2
    back = (log_p[0] >= jnp.log(alpha_back)) | too_few
    return jax.tree.map(lambda both: jnp.where(back, both[0], both[1]), (physics, log_p))


def _fit_terms(
    rows: Ordered, mask: jax.Array, spans: runs.Spans, shape: form.Shape, physics: Physics
) -> tuple[jax.Array, jax.Array]:
    """Coefficients of the terms given the refitted physics, and standard errors that carry its own.

    With ``b`` the terms' inverse Gram matrix and ``A`` their products with the physics, the
    covariance is ``b variance + b A covariance A' b``: the two are fitted on different rows.
    """
    residual = rows.residual - rows.basis @ physics.step
    terms = rows.terms.T[shape.terms.place]
    inside = shape.region.inside(mask.shape[0], spans.present) & mask
    masked = jnp.where(inside[:, None], terms, 0.0)
    gram = jnp.sum(masked[:, :, None] * masked[:, None, :], axis=-1)
    cross, products = jnp.sum(masked * residual, axis=-1), masked @ rows.basis
    gram, cross, products = (edges.pool(part, shape.shared) for part in (gram, cross, products))
    fit = edges.solve_terms(gram, cross, shape.terms.used)
    carried = jnp.einsum("kab,kbi->kai", fit.inverse, products)
    variance = jnp.diagonal(fit.inverse, axis1=1, axis2=2) * physics.variance
    variance = variance + jnp.einsum("kai,ij,kaj->ka", carried, physics.covariance, carried)
    return fit.coefficients, scaling.root(variance)


def run_stages(rows: Ordered, mask: jax.Array, fold: jax.Array, config: Config) -> Stages:
    """Clean regime, regions and form on the rows in ``mask``.

    Args:
      rows: all rows of the data set.
      mask: ``(n,)`` bool, rows to use.
      fold: ``(n,)`` int, 0 or 1: halves for the choice of terms.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Stages``.
    """
    num_cells = rows.edges.shape[0] - 1
    cells = jnp.arange(num_cells)
    count = jnp.sum((rows.cell[:, None] == cells) & mask[:, None], axis=0, dtype=jnp.int32)
    # A local fit has p + 2 coefficients and needs residuals beyond them.
    groups = ordering.group_cells(count, rows.basis.shape[1] + 4)
    group = jnp.append(groups.of_cell, num_cells)[rows.cell]
    fits = local_fits.fit_groups(rows.basis, rows.residual, rows.axis, mask, group, rows.edges)
    found = regime.find_regime(fits, rows.floor, config)
    num_rows = jnp.sum(rows.used, dtype=jnp.int32)
    bounds = jnp.arange(num_cells + 1)
    group_start = jnp.sum(group[:, None] < bounds, axis=0, dtype=jnp.int32)
    group_start = jnp.where(bounds >= groups.num, num_rows, group_start)
    slots = runs.region_slots(num_cells, config.max_regions)
    spans = runs.make_spans(found, group_start, groups.num, slots, config.reach)
    residual = jnp.where(mask, rows.residual - rows.basis @ found.law.step, 0.0)
    folds = mask & (fold == jnp.arange(2)[:, None])
    shape = form.find_form(
        rows.terms, residual, rows.axis, rows.used, folds, spans, found.variance, config
    )
    physics, log_p_physics = _refit_physics(
        rows, mask, group, found, spans, shape, config.alpha_back
    )
    coefficients, stderr = _fit_terms(rows, mask, spans, shape, physics)
    ends = jnp.stack([*shape.region, *shape.start_interval.T, *shape.stop_interval.T])
    places = ordering.axis_places(rows.axis, mask, rows.edges, ends)
    return Stages(
        groups=groups,
        regime=found,
        spans=spans,
        form=shape,
        physics=physics,
        log_p_physics=log_p_physics,
        coefficients=jnp.where(spans.present[:, None], coefficients, 0.0),
        stderr=stderr,
        lower=places.middle[0],
        upper=places.middle[1],
        lower_interval=jnp.stack([places.below[2], places.above[3]], axis=1),
        upper_interval=jnp.stack([places.below[4], places.above[5]], axis=1),
    )
