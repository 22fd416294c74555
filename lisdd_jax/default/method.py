"""The default method on one data set: where, whether, what, and a verdict.

The place comes first, from all rows and without chance; held-out rows confirm the form there. Work
on single rows is in ``rows``, compiled pass by pass; all else is small and runs in NumPy where the
data are known, and traced under ``jit`` and ``vmap`` (see ``numerics.hosted``).

References:
  docs/method.md, section 3 and algorithm 2.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.config import Config
from lisdd_jax.dataset import Dataset
from lisdd_jax.default import certificate, first_look, outcome, regions, rows
from lisdd_jax.default.assembly import Findings, Units, assemble
from lisdd_jax.default.cells import FEWEST_CELLS
from lisdd_jax.default.ends import Placed
from lisdd_jax.default.exactness import ExactnessTest
from lisdd_jax.default.final_sums import sum_final
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.form import (
    ChosenForm,
    Sums,
    about_law,
    act_everywhere,
    choose_form,
    own_change,
    split_supports,
)
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.ordering import Ordered, order_rows
from lisdd_jax.default.physics import fit_physics
from lisdd_jax.default.rows import OpenRegions
from lisdd_jax.default.settling import settle
from lisdd_jax.default.survey import Known, Survey, survey_cells
from lisdd_jax.numerics import tolerances
from lisdd_jax.numerics.hosted import is_known, namespace, to_host
from lisdd_jax.results import Diagnosis
from lisdd_jax.statistics.f_tests import FRatio, log_p_values
from lisdd_jax.status import Status, first_failure, status_if

_NUM_PASSES = 3
"""Places sought, each on the rows that the law of the last one keeps; the rows repeat after one."""

_NUM_TURNS = 3
"""Moves of the ends, each with the terms chosen after the last; they repeat after one or two."""


def _repeat_until_settled(work: Any, keep: jax.Array, known: bool) -> tuple[Any, jax.Array]:
    """``result, keep = work(keep)`` until the rows kept repeat."""
    if known:
        for _ in range(_NUM_PASSES):
            result, after = work(keep)
            settled = bool(jnp.all(after == keep))
            keep = after if not settled else keep
            if settled:
                break
        return result, keep

    def goes_on(state: tuple[Any, ...]) -> jax.Array:
        step, _, _, moved = state
        return moved & (step < _NUM_PASSES)

    def body(state: tuple[Any, ...]) -> tuple[Any, ...]:
        step, _, keep, _ = state
        result, after = work(keep)
        return step + 1, result, after, jnp.any(after != keep)

    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(work, keep)[0]
    )
    _, result, keep, _ = lax.while_loop(
        goes_on, body, (jnp.int32(0), empty, keep, jnp.ones((), bool))
    )
    return result, keep


def _find_form(
    ordered: Ordered,
    region: OpenRegions,
    sums: Sums,
    theta: Any,
    variance: Any,
    members: Any,
    layout: ColumnLayout,
    config: Config,
) -> tuple[Placed, ChosenForm]:
    """Move the ends and choose the terms by turns, from the regions' own changes of the law on."""
    xp = namespace(variance)
    present = xp.any(members, -1)
    start = about_law(to_host(sums).gram[:-1].sum(1), theta, layout)
    change = own_change(start, variance, layout)
    none = xp.zeros((len(present), layout.num_terms), bool)
    use = xp.concatenate([change, none], 1) & present[:, None]

    def turn(use: Any, shared: Any, begin: Any) -> tuple[Placed, ChosenForm]:
        placed, sums = rows.move_ends(ordered, region, use, shared, begin)
        settings = (layout, config.max_terms, config.tolerance)
        return placed, choose_form(to_host(sums), theta, present, variance, *settings)

    begin = (region.spans.start, region.spans.stop)
    shared = xp.zeros((), bool)
    if xp is np:
        for _ in range(_NUM_TURNS):
            placed, form = turn(use, shared, begin)
            use, shared, begin = form.use, form.shared, (placed.start, placed.stop)
        return placed, form

    def body(_: int, state: Any) -> Any:
        use, shared, begin, _, _ = state
        placed, form = turn(use, shared, begin)
        return form.use, form.shared, (placed.start, placed.stop), placed, form

    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(turn, use, shared, begin)
    )
    return lax.fori_loop(0, _NUM_TURNS, body, (use, shared, begin, *empty))[3:]


@jax.jit
def _log_tails(*ratios: FRatio) -> tuple[jax.Array, ...]:
    return log_p_values(*ratios)


@jax.jit
def _rounding_variance(data: Dataset, unit: jax.Array) -> jax.Array:
    """Variance, in the working unit, at which residuals are rounding errors; 1 for zeros."""
    dtype = data.response.dtype
    count = jnp.maximum(jnp.sum(data.mask), 1).astype(dtype)
    square = jnp.sum(data.response**2) / count
    floor = (tolerances.NOISE_FLOOR(dtype) / unit) ** 2 * square + jnp.finfo(dtype).tiny
    return jnp.where(square > 0, floor, jnp.ones((), dtype))


def _shift_of_unnoticed(exactness: ExactnessTest) -> Any:
    """Covariance of the law's shift under the change that came nearest to being noticed.

    Intervals given only where a test did not reject cover too little, since the test passes where
    the change looks small. The shift counts the more, the nearer the test came to rejecting.
    """
    xp = namespace(exactness.shift)
    weight = 1 - xp.exp(exactness.log_p_value)
    return weight * exactness.shift[:, None] * exactness.shift[None]


def run(key: jax.Array, data: Dataset, before: jax.Array, config: Config) -> Diagnosis:
    """Diagnose a data set.

    Args:
      key: typed key of the folds.
      data: the data set.
      before: its status.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Diagnosis``, in NumPy where the data are known.
    """
    known = is_known((data, config))
    config = to_host(config)
    layout = ColumnLayout(data.design.shape[1], data.features.shape[1])
    live = order_rows(key, data)
    # What is searched for is discrete, and carries no derivative; final sums are of live rows.
    ordered = live if known else lax.stop_gradient(live)
    look = first_look.look(ordered, layout)
    unit = to_host(ordered.unit)
    floor = to_host(_rounding_variance(data, ordered.unit))
    state = Known(to_host(look), floor, config.negligible / unit, config.alpha)

    def work(keep: jax.Array) -> tuple[Survey, jax.Array]:
        gram, count = to_host(rows.sum_kept_rows(ordered, look.cells, keep))
        survey = survey_cells(gram, count, state, layout)
        theta = survey.place.theta
        return survey, rows.keep_near_law(ordered, look, theta, survey.scale, layout)

    survey, keep = _repeat_until_settled(work, look.keep, known)
    return _conclude(data, before, config, layout, live, ordered, look, state, survey, keep)


def _conclude(
    data: Dataset,
    before: jax.Array,
    config: Config,
    layout: ColumnLayout,
    live: Ordered,
    ordered: Ordered,
    look: FirstLook,
    state: Known,
    survey: Survey,
    keep: jax.Array,
) -> Diagnosis:
    """From the place to the results."""
    xp = namespace(survey.variance)
    place, fits, small = survey.place, survey.fits, state.look
    log_alpha = xp.log(config.alpha)
    certified = -place.gain < log_alpha
    members = regions.members_of_runs(place.clean | ~certified, fits.present, config.max_regions)
    trusted = small.trusted & fits.present
    gains = regions.gain_of_regions(
        fits, place, survey.least_scatter, trusted, members, layout.physics
    )
    members = members & (-gains < log_alpha)[:, None]
    present = xp.any(members, -1)
    # Runs that do not stand out by themselves stay out of the law, unless nothing stands out.
    clean = xp.where(certified, place.clean, fits.present)
    theta = xp.where(certified, place.theta, place.theta_all)
    region, sums = rows.open_regions(
        ordered, look.cells, members, keep, theta, survey.scale, survey.variance, layout
    )
    placed, form = _find_form(
        ordered, region, sums, theta, survey.variance, members, layout, config
    )
    settled = settle(ordered, look, region, placed, clean, survey.variance)
    noise = fits.variance / small.dependence.rows
    variance = survey.variance / small.dependence.shown
    weights = survey.variance / xp.where(fits.present, noise, 1.0)
    final = to_host(sum_final(live, look, region, settled, theta, weights, layout, data.num_cells))
    settled = to_host(settled)
    scatter = xp.where(certified, place.scatter, place.scatter_all)
    own_noise = fits._replace(variance=noise)
    law = fit_physics(final.law, own_noise, scatter, variance, data.block is not None, layout)
    shift = xp.where(certified, 0.0, _shift_of_unnoticed(survey.exactness))
    law = law._replace(covariance=law.covariance + shift)
    terms = outcome.fit_terms(
        final.regions.gram[:-1].sum(1),
        form,
        present,
        law,
        survey.variance,
        layout,
        config.max_terms,
    )
    inner = (xp.isfinite(settled.lower) & present).sum() + (
        xp.isfinite(settled.upper) & present
    ).sum()
    uncertain = variance * small.dependence.rows
    everywhere = act_everywhere(
        final.regions, form, law.theta, present, inner, uncertain, layout, config.max_terms
    )
    chosen = split_supports(final.regions, form, theta, survey.variance, layout, config.max_terms)
    tests = certificate.held_out(
        final.regions, final.weighted, chosen, present, form.shared, layout, config.max_terms
    )
    mapped = outcome.map_cells(
        final.map_all, final.map_law, final.map_rows[:, 1], law.theta, state.floor, layout
    )
    ratios = (*tests, mapped.misfit, mapped.own_noise, mapped.louder)
    log_p = to_host(_log_tails(*ratios))
    ends = xp.stack([settled.lower, settled.upper])
    share = outcome.rival_share(
        place.clean, place.rival, fits.num_rows, members, settled.num_rows, small.places, ends
    )
    share = xp.where(certified & (place.rival_gap < regions.RIVAL), share, 0.0)
    size = regions.size_of_scatter(fits, scatter)
    initial = to_host(live.initial) / to_host(live.unit)
    spread = outcome.explained_spread(survey.gram, fits.num_rows, initial + theta, layout)
    clean_rows = xp.where(place.clean, fits.num_rows, 0.0).sum()
    two_laws = (share >= outcome.TWO_LAWS) | (place.other_rows > outcome.OTHERS * clean_rows)
    depend = small.dependence
    units = outcome.INDEPENDENT * depend.rows * fits.present.sum().astype(depend.rows.dtype)
    few = fits.num_rows.sum() < units
    verdict = outcome.decide(
        outcome.Findings(
            enough=small.cells.num >= FEWEST_CELLS,
            exact=survey.exactness.log_p_value >= log_alpha,
            certified=certified,
            everywhere=everywhere.wins
            & (certified | (everywhere.gain >= survey.exactness.statistic)),
            useless=size > outcome.USELESS * spread,
            slight=size <= xp.maximum(outcome.SLIGHT * spread, state.negligible),
            doubtful=depend.strong | ((depend.rows > 1) & few),
            two_laws=two_laws & ~xp.any(trusted),
            usable=xp.any(form.usable & present),
        )
    )
    status = first_failure(
        to_host(before),
        status_if(~law.determined, Status.NO_CLEAN_CELLS),
        status_if(survey.variance <= 4 * state.floor, Status.EXACT_FIT),
    )
    units = Units(
        to_host(live.unit),
        to_host(live.initial),
        to_host(live.term_scale),
        to_host(data.frame),
        to_host(data.edges),
    )
    found = Findings(
        look=small,
        place=place,
        exactness=survey.exactness,
        scatter=size,
        variance=survey.variance,
        certified=certified,
        members=members,
        gains=gains,
        form=form,
        terms=terms,
        settled=settled,
        final=final,
        law=law,
        everywhere=everywhere,
        share=share,
        map=mapped,
        tests=tests,
        log_p=log_p,
        supports=chosen,
        verdict=verdict,
        status=status,
    )
    return assemble(found, units, to_host(live.num_rows), config)
