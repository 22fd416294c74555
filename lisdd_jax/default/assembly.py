"""The results of a diagnosis, in the units of the data (docs/method.md, section 3.11)."""

from functools import partial
from typing import Any

import numpy as np

from lisdd_jax import results
from lisdd_jax.config import Config
from lisdd_jax.default.findings import Findings, Units
from lisdd_jax.default.outcome import Terms
from lisdd_jax.numerics.hosted import namespace
from lisdd_jax.statistics.multiplicity import combine_splits
from lisdd_jax.statistics.supports import sizes, supports
from lisdd_jax.status import Status, first_failure, is_failure, is_undefined, nan_where, status_if

_LOUD = 0.01
"""Level at which a cell's noise counts as its own: unequal noise is no wrong mean."""


def _at_terms(values: Any, terms: Terms, num_terms: int, empty: float) -> Any:
    """Values ``(R, s)`` of the terms in use at their columns, ``(R, L)``."""
    xp = namespace(values)
    at = (terms.place[..., None] == np.arange(num_terms)[None, None]) & terms.used[..., None]
    total = xp.where(at, values[..., None], 0.0).sum(1)
    return xp.where(xp.any(at, 1), total, empty)


def make_cells(found: Findings, units: Units, alpha_cell: Any) -> results.Cells:
    """The map over the axis."""
    xp = namespace(found.variance)
    cells, rows = found.map, found.final.map_rows
    plain, own_noise, louder = found.log_p[2:]
    log_p = xp.where(louder < float(np.log(_LOUD)), xp.maximum(plain, own_noise), plain)
    flagged = (2 * rows[:, 3] >= rows[:, 0]) & (rows[:, 3] > 0)
    return results.Cells(
        lower=units.edges[:-1],
        upper=units.edges[1:],
        count=rows[:, 0].astype(np.int32),
        mean=cells.mean * units.response,
        rms=cells.rms * units.response,
        statistic=xp.where(cells.misfit.defined, cells.misfit.statistic, xp.nan),
        p_value=xp.exp(log_p),
        log_p_value=log_p,
        flagged=flagged,
        noisier=(louder < xp.log(alpha_cell)) & ~flagged,
    )


def make_regions(found: Findings, units: Units) -> results.Regions:
    """The regions, with the evidence of each beside the others."""
    xp = namespace(found.variance)
    settled, form, terms = found.settled, found.form, found.terms
    present = xp.any(found.members, 1)
    known = present[:, None]
    num_terms = len(units.terms)
    below, above = xp.isinf(settled.lower) & present, xp.isinf(settled.upper) & present

    def shown(values: Any) -> Any:
        return xp.where(present.reshape((-1,) + (1,) * (values.ndim - 1)), values, xp.nan)

    used = _at_terms(xp.where(terms.used, 1.0, 0.0), terms, num_terms, 0.0) > 0
    coefficients = units.weights(_at_terms(terms.coefficients, terms, num_terms, 0.0))
    stderr = units.weights(_at_terms(terms.stderr, terms, num_terms, np.nan))
    log_p = shown(-found.gains)
    return results.Regions(
        lower=shown(xp.where(below, units.edges[0], settled.lower)),
        upper=shown(xp.where(above, units.edges[-1], settled.upper)),
        open_below=below,
        open_above=above,
        present=present,
        count=xp.where(present, settled.num_rows, 0),
        support=used & known,
        coefficients=xp.where(known, coefficients, 0.0),
        stderr=shown(stderr),
        equivalent=form.equivalent & known,
        statistic=shown(2 * found.gains),
        p_value=xp.exp(log_p),
        log_p_value=log_p,
        same_rows=xp.zeros((), bool),
        lower_interval=shown(settled.lower_interval),
        upper_interval=shown(settled.upper_interval),
        adjusted_p_value=xp.minimum(xp.exp(log_p) * present.sum().astype(log_p.dtype), 1.0),
        shared=form.shared,
        softness=shown(xp.where(settled.is_kink, settled.softness, xp.nan).T),
        lacking=form.lacking & present,
    )


def _unless_nothing(nothing: Any, before: Any, *further: Any) -> Any:
    """The first failure or note; that there is no region says more than any note."""
    xp = namespace(nothing)
    none = nothing & ~is_failure(before)
    return xp.where(none, np.int32(Status.NOTHING_FLAGGED), first_failure(before, *further))


def _over_splits(log_p: Any) -> tuple[Any, Any]:
    """Log of the p-value of ``log_p (3, 2)`` of both halves of every split, and the place, of six,
    of the test that it is of: the weaker half of the split with the median."""
    xp = namespace(log_p)
    # By place, not by the largest value: its derivative would take in the other half's.
    weaker = xp.argmax(xp.where(xp.isnan(log_p), np.inf, log_p), 1)
    each = xp.take_along_axis(log_p, weaker[:, None], 1)[:, 0]
    joint, middle = combine_splits(each)
    return joint, 2 * middle + weaker[middle].astype(middle.dtype)


def make_certificate(
    found: Findings, cells: results.Cells, num_terms: int, config: Config
) -> results.Certificate:
    """The held-out test of the half that confirms less, in the split with the median."""
    xp = namespace(found.variance)
    joint, at = _over_splits(found.log_p[0])
    joint_robust, _ = _over_splits(found.log_p[1])
    present = xp.any(found.members, 1)
    # What was tested are terms of other regions where they act on all rows.
    nothing = ~xp.any(present) | found.acts
    untested = xp.isnan(found.log_p[0].reshape(-1)[at]) & ~nothing
    status = _unless_nothing(nothing, found.status, status_if(untested, Status.TOO_FEW_TEST_ROWS))
    defined = ~is_undefined(status)
    shown = partial(nan_where, ~defined)
    ratio = found.tests[0]
    table = xp.asarray(supports(num_terms, config.max_terms))
    chosen = found.supports.reshape(-1, len(present))[at]
    tested = xp.any(table[chosen] & present[:, None], 0)
    level = xp.log(config.alpha)
    return results.Certificate(
        statistic=shown(ratio.statistic.reshape(-1)[at]),
        df_num=shown(ratio.df_num.reshape(-1)[at]),
        df_den=shown(ratio.df_den.reshape(-1)[at]),
        p_value=shown(xp.exp(joint)),
        log_p_value=shown(joint),
        p_value_robust=shown(xp.exp(joint_robust)),
        reject=defined & found.certified & (joint < level) & (joint_robust < level),
        support=tested & defined,
        flagged=cells.flagged & defined,
        status=status,
    )


def make_form(
    found: Findings, units: Units, regions: results.Regions, test: results.Certificate
) -> results.Form:
    """The mechanism of the region that stands out most."""
    xp = namespace(found.variance)
    main = xp.argmax(xp.where(regions.present, found.gains, -1.0))
    rows = xp.maximum(found.settled.num_rows[main], 1)
    nothing = ~xp.any(regions.present)
    errors = found.form.errors[main] / rows.astype(found.variance.dtype) * units.response**2
    status = _unless_nothing(
        nothing,
        found.status,
        status_if(~found.form.usable[main] & ~nothing, Status.NO_USABLE_TERMS),
        # Beside the physics, on all rows, a term may well be one of its columns.
        status_if(xp.any(xp.isinf(errors)) & ~nothing & ~found.acts, Status.RANK_DEFICIENT_TERMS),
    )
    return results.Form(
        support=regions.support[main],
        coefficients=regions.coefficients[main],
        stderr=regions.stderr[main],
        error=nan_where(nothing, errors[found.form.support[main]]),
        errors=nan_where(nothing, errors),
        equivalent=regions.equivalent[main],
        certified=test.reject & ~regions.lacking[main],
        status=status,
    )


def make_evidence(found: Findings, units: Units) -> dict[str, Any]:
    """Place, exactness, rival and dependence."""
    xp = namespace(found.variance)
    place, exact, look = found.place, found.exactness, found.look
    num = look.cells.num
    below = xp.where(exact.first <= 0, -xp.inf, look.places[exact.first])
    above = xp.where(exact.end >= num, xp.inf, look.places[exact.end])
    some = found.share > 0
    depend = look.dependence
    return {
        "place": results.Place(
            p_value=xp.exp(-found.gain),
            log_p_value=-found.gain,
            certified=found.certified,
            region_log_p_value=xp.where(xp.any(found.members, 1), -found.gains, xp.nan),
        ),
        "exactness": results.Exactness(
            statistic=exact.statistic,
            p_value=xp.exp(exact.log_p_value),
            log_p_value=exact.log_p_value,
            lower=below,
            upper=above,
        ),
        "rival": results.Rival(
            share=found.share,
            coefficients=xp.where(some, units.law(place.rival_theta), xp.nan),
            gap=xp.where(some, place.rival_gap, xp.inf),
        ),
        "dependence": results.Dependence(
            axis_correlation=depend.axis_correlation,
            record_correlation=depend.record_correlation,
            rows=depend.rows,
            repeated=depend.repeated,
            significant=depend.significant,
        ),
    }


def assemble(found: Findings, units: Units, num_rows: Any, config: Config) -> results.Diagnosis:
    """The diagnosis.

    Args:
      found: what was found.
      units: of the data.
      num_rows: rows in use.
      config: settings.
    """
    xp = namespace(found.variance)
    num_terms = len(units.terms)
    failed = is_failure(found.status)
    shown = partial(nan_where, failed)
    cells = make_cells(found, units, config.alpha_cell)
    regions = make_regions(found, units)
    test = make_certificate(found, cells, num_terms, config)
    form = make_form(found, units, regions, test)
    table = xp.asarray(supports(num_terms, config.max_terms))
    assert sizes(num_terms, config.max_terms).size == len(table)
    verdict = results.verdict_unless_failed(found.status, found.verdict)
    acts = found.acts & (verdict == int(results.Verdict.NO_CLEAN_REGIME))
    return results.Diagnosis(
        coefficients=shown(units.law(found.law.theta)),
        covariance=shown(units.law_covariance(found.law.covariance)),
        scale=shown(xp.sqrt(found.variance) * units.response),
        cells=cells,
        regions=regions,
        form=form,
        test=test,
        **make_evidence(found, units),
        law_scatter=shown(found.scatter * units.response),
        everywhere=table[found.everywhere.support] & acts,
        outliers=found.settled.outlier,
        row_noise=found.look.row_noise,
        noise_exponents=found.look.exponents,
        num_rows=num_rows,
        num_iterations=xp.zeros((), np.int32),
        verdict=verdict,
        status=found.status,
    )
