"""The published algorithm: all stages, as printed, for one data set.

The physics is fitted and the cells are flagged on all rows. For the certificate the same stages run
on a random half, and the other half tests what they chose.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax import (
    cell_fits,
    clean_regime,
    detection,
    localization,
    selection,
    trimmed_search,
)
from lisdd_jax.config import Config
from lisdd_jax.numerics import random_split
from lisdd_jax.numerics.batches import each
from lisdd_jax.prepared import Prepared, prepare, take
from lisdd_jax.results import Cells, Certificate, Diagnosis, Form, Regions
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if
from lisdd_jax.verdicts import decide


class Stages(NamedTuple):
    """Stages 1 to 3 on a subset of the rows; ``flagged`` where some of its rows are."""

    regime: clean_regime.CleanRegime
    selection: selection.Selection
    terms: selection.TermFit
    flagged: jax.Array


def fit_physics(
    key: jax.Array, data: Prepared, before: jax.Array, config: Config
) -> clean_regime.CleanRegime:
    """Stage 1: trimmed start and clean-regime iteration.

    ``before`` is the status of the data; under its failures the regime is undefined.
    """
    return _fit_physics_each(key[None], [data], before, config)[0]


def _fit_physics_each(
    keys: jax.Array, samples: Sequence[Prepared], before: jax.Array, config: Config
) -> list[clean_regime.CleanRegime]:
    starts = trimmed_search.search_each(
        [
            trimmed_search.Problem(key, data.basis, data.centered, data.mask)
            for key, data in zip(keys, samples, strict=True)
        ],
        config.trim,
        num_starts=config.num_starts,
        num_candidates=10,
    )
    return [
        _fit_clean_cells(data, start, before, config)
        for data, start in zip(samples, starts, strict=True)
    ]


def _fit_clean_cells(
    data: Prepared, start: trimmed_search.Found, before: jax.Array, config: Config
) -> clean_regime.CleanRegime:
    initial = jax.lax.stop_gradient(start.solution)
    num_cells = data.edges.shape[0] - 1
    rows = cell_fits.make_rows(
        data.basis, data.centered, data.mask, data.cell, initial, num_cells, data.level
    )
    found = clean_regime.search(rows, config.alpha_cell, config.max_iterations)
    too_few = jnp.sum(data.mask) <= data.design.shape[1] + 1
    before = first_failure(before, status_if(too_few, Status.TOO_FEW_ROWS), start.status)
    return clean_regime.summarize(data.frame, initial, rows, found, before)


def _run_stages(
    keys: jax.Array, samples: Sequence[Prepared], before: jax.Array, config: Config
) -> list[Stages]:
    """Stages 1 to 3 on several samples; keys ``(2 k,)`` of the start and the holdout of each."""
    regimes = _fit_physics_each(keys[::2], samples, before, config)
    insides = [
        data.mask & jnp.append(regime.flagged, False)[data.cell]
        for data, regime in zip(samples, regimes, strict=True)
    ]
    sums = [
        selection.sum_halves(key, data.features, residuals_of(data, regime), inside)
        for key, data, regime, inside in zip(keys[1::2], samples, regimes, insides, strict=True)
    ]
    chosen = each(lambda part: selection.choose(part, config.max_terms, config.tolerance), sums)
    return [
        Stages(regime, selected, terms, jnp.any(inside))
        for regime, (selected, terms), inside in zip(regimes, chosen, insides, strict=True)
    ]


def residuals_of(data: Prepared, regime: clean_regime.CleanRegime) -> jax.Array:
    """Residuals of the trusted physics, taken in the frame so that offsets do not cancel."""
    known = jnp.all(jnp.isfinite(regime.coefficients))
    solution = data.frame.solution(jnp.where(known, regime.coefficients, 0.0))
    return jnp.where(data.mask & known, data.centered - data.basis @ solution, 0.0)


def _make_form(stages: Stages) -> Form:
    """The chosen terms, fitted to all rows of the region, with standard errors."""
    chosen = stages.selection
    nothing = ~stages.flagged
    status = first_failure(
        stages.regime.status, status_if(nothing, Status.NOTHING_FLAGGED), chosen.status
    )
    # Where nothing is flagged there is nothing to select, which is no failure of the selection.
    status = jnp.where(nothing & ~is_failure(stages.regime.status), Status.NOTHING_FLAGGED, status)
    return Form(
        support=chosen.support & ~nothing,
        coefficients=stages.terms.coefficients,
        stderr=stages.terms.stderr,
        error=chosen.error,
        errors=chosen.errors,
        equivalent=chosen.equivalent & ~nothing,
        frequency=jnp.full_like(chosen.errors, jnp.nan),
        status=status.astype(jnp.int32),
    )


def _certify(
    data: Prepared, halves: random_split.Halves, stages: Stages, config: Config
) -> Certificate:
    """The partial F-test on the second half, which took no part in choosing region and form."""
    inside = jnp.append(stages.regime.flagged, False)[data.cell]
    support = stages.selection.support
    # The terms of the support, filled up with columns of zeros.
    used, terms = jax.lax.top_k(support.astype(jnp.int32), min(config.max_terms, len(support)))
    extra = jnp.where(inside[:, None] & (used > 0), data.features[:, terms], 0.0)
    columns = jnp.column_stack([data.basis, extra, data.centered])
    basis, extra, centered = jnp.split(
        random_split.take_rows(columns, halves.rows[1], halves.used[1]),
        [data.basis.shape[1], columns.shape[1] - 1],
        axis=1,
    )
    test = detection.partial_f(basis, extra, centered[:, 0], halves.used[1])
    nothing = ~jnp.any(stages.regime.flagged) & ~is_failure(stages.regime.status)
    # Columns of zeros are no deficiency of the test.
    complete = test.df_num == jnp.sum(support)
    harmless = complete & (test.status == Status.RANK_DEFICIENT_TERMS)
    test_status = jnp.where(harmless, Status.OK, test.status)
    status = first_failure(stages.regime.status, stages.selection.status, test_status)
    status = jnp.where(nothing, Status.NOTHING_FLAGGED, status).astype(jnp.int32)
    defined = ~nothing & ~is_failure(status)
    shown = partial(nan_where, ~defined)
    return Certificate(
        statistic=shown(test.statistic),
        df_num=shown(test.df_num),
        df_den=shown(test.df_den),
        p_value=shown(test.p_value),
        log_p_value=shown(test.log_p_value),
        p_value_robust=jnp.full_like(test.p_value, jnp.nan),
        reject=defined & (test.log_p_value < jnp.log(config.alpha)),
        support=support & defined,
        flagged=stages.regime.flagged,
        status=status,
    )


def make_cells(data: Prepared, regime: clean_regime.CleanRegime) -> Cells:
    """The map of the cells with the evidence of the clean-regime iteration."""
    return Cells(
        lower=data.edges[:-1],
        upper=data.edges[1:],
        count=regime.count,
        mean=regime.mean,
        rms=regime.rms,
        statistic=regime.statistic,
        p_value=jnp.exp(regime.log_p_value),
        log_p_value=regime.log_p_value,
        flagged=regime.flagged,
        noisier=jnp.zeros_like(regime.flagged),
    )


def _make_regions(data: Prepared, regime: clean_regime.CleanRegime, form: Form) -> Regions:
    """Runs of flagged cells, sharing one form; their energy over the run is the evidence."""
    runs = localization.flagged_runs(regime.flagged)
    statistic = localization.run_sum(regime.statistic, runs)
    count = localization.run_sum(regime.count, runs)
    test = localization.energy_test(statistic, count, jnp.ones((), statistic.dtype))
    present = runs.present[:, None]
    return Regions(
        lower=jnp.where(runs.present, data.edges[runs.first], jnp.nan),
        upper=jnp.where(runs.present, data.edges[runs.last + 1], jnp.nan),
        present=runs.present,
        count=count,
        support=present & form.support,
        coefficients=jnp.where(present, form.coefficients, 0.0),
        stderr=jnp.where(present, form.stderr, jnp.nan),
        equivalent=present & form.equivalent,
        statistic=test.statistic,
        p_value=jnp.exp(test.log_p_value),
        log_p_value=test.log_p_value,
        lower_interval=jnp.full((*runs.present.shape, 2), jnp.nan, test.statistic.dtype),
        upper_interval=jnp.full((*runs.present.shape, 2), jnp.nan, test.statistic.dtype),
        adjusted_p_value=jnp.full_like(test.statistic, jnp.nan),
        shared=jnp.zeros((), bool),
    )


def run(
    key: jax.Array,
    design: jax.Array,
    response: jax.Array,
    axis: jax.Array,
    features: jax.Array,
    edges: jax.Array,
    mask: jax.Array,
    config: Config,
) -> Diagnosis:
    """The published algorithm on one data set; the traced body of ``diagnose``.

    Args:
      key, design, response, axis, features, edges, mask, config: as for ``diagnose``.

    Returns:
      A ``Diagnosis``.
    """
    # One call for all stages: every call of the generator costs time to compile.
    keys = jax.random.split(key, 5)
    data, data_status = prepare(design, response, axis, features, edges, mask)
    halves = random_split.random_halves(keys[4], data.mask)
    half = take(data, halves.rows[0], halves.used[0])
    full, split = _run_stages(keys[:4], [data, half], data_status, config)
    form = _make_form(full)
    test = _certify(data, halves, split, config)
    status = full.regime.status
    return Diagnosis(
        coefficients=full.regime.coefficients,
        covariance=full.regime.covariance,
        scale=full.regime.scale,
        cells=make_cells(data, full.regime),
        regions=_make_regions(data, full.regime, form),
        form=form,
        test=test,
        num_rows=jnp.sum(data.mask, dtype=jnp.int32),
        num_iterations=full.regime.num_iterations,
        runner_up=jnp.full_like(full.regime.scale, jnp.nan),
        p_value_elsewhere=jnp.full_like(full.regime.scale, jnp.nan),
        verdict=decide(status, form, test, full.regime.flagged),
        status=status,
    )
