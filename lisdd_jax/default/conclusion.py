"""From sums to results: the law, the terms, the certificate, the verdict (section 3.11)."""

from typing import Any, NamedTuple

import jax

from lisdd_jax.config import Config
from lisdd_jax.dataset import Dataset
from lisdd_jax.default import certificate, outcome, regions
from lisdd_jax.default.assembly import assemble
from lisdd_jax.default.cells import FEWEST_CELLS
from lisdd_jax.default.everywhere import Everywhere, act_everywhere
from lisdd_jax.default.exactness import ExactnessTest
from lisdd_jax.default.final_sums import Final
from lisdd_jax.default.findings import Findings, Units
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.form import ChosenForm, split_supports
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.physics import Physics, fit_physics
from lisdd_jax.default.settling import Settled
from lisdd_jax.default.survey import Known, Survey, judge_law
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.hosted import namespace, to_host
from lisdd_jax.results import Diagnosis
from lisdd_jax.statistics.f_tests import FRatio, log_p_values
from lisdd_jax.status import Status, first_failure, status_if


class Task(NamedTuple):
    """The data set with what is known of its cells.

    Attributes:
      live, ordered: its rows, with derivatives and without.
      look: what single cells show, and ``state`` the small part of it.
      keep: ``(n,)`` bool, rows near the law, and whether another pass ``repeats`` them, and another
        turn ends and terms.
      survey: of the cells.
      layout, config: columns and settings.
    """

    live: Ordered
    ordered: Ordered
    look: FirstLook
    keep: jax.Array
    repeats: Any
    state: Known
    survey: Survey
    layout: ColumnLayout
    config: Config


class Standing(NamedTuple):
    """What stands out from the law.

    Attributes:
      placed: bool, a place does that cells show; ``certified``, or a run too short for them.
      gain: nats of that which does most.
      members: ``(R, K)`` bool, cells of the regions; ``present (R,)`` which there are.
      gains: ``(R,)`` nats of each.
      clean: ``(K,)`` bool, cells of the law.
      theta: ``(p,)`` the law; ``scatter`` its own.
    """

    placed: Any
    certified: Any
    gain: Any
    members: Any
    present: Any
    gains: Any
    clean: Any
    theta: Any
    scatter: Any


@compiled
def log_tails(*ratios: FRatio) -> tuple[jax.Array, ...]:
    """Log p-values of the held-out tests, then of the map; NaN where undefined."""
    return log_p_values(*ratios)


def _fit_law(
    task: Task, exact: ExactnessTest, stands: Standing, final: Final, blocks: bool
) -> Physics:
    """The physics, with what dependence, scatter and unnoticed changes add to its errors."""
    survey, depend = task.survey, task.state.look.dependence
    xp = namespace(survey.variance)
    noise = survey.fits._replace(variance=survey.fits.variance / depend.rows)
    law = fit_physics(final.law, noise, stands.scatter, survey.variance, blocks, task.layout)
    shift = xp.where(stands.placed, 0.0, exact.unnoticed)
    return law._replace(covariance=law.covariance + shift)


def _count_ends(settled: Settled, present: Any) -> Any:
    """Ends that do not lie at an end of the axis."""
    xp = namespace(present)
    inner = [(xp.isfinite(end) & present).sum() for end in (settled.lower, settled.upper)]
    return inner[0] + inner[1]


def _share_of_rival(task: Task, stands: Standing, settled: Settled) -> Any:
    """How much a rival law explains for one part that the law does; 0 without one."""
    survey, look = task.survey, task.state.look
    xp = namespace(survey.variance)
    place = survey.place
    share = outcome.rival_share(
        place.clean,
        place.rival,
        survey.fits.num_rows,
        stands.members,
        settled.num_rows,
        look.places,
        xp.stack([settled.lower, settled.upper]),
    )
    return xp.where(stands.placed & (place.rival_gap < regions.RIVAL), share, 0.0)


def _is_vouched_for(task: Task) -> Any:
    """Whether the user has said where the law holds."""
    trusted = task.state.look.trusted & task.survey.fits.present
    return namespace(trusted).any(trusted)


def _has_rival(task: Task, stands: Standing, settled: Settled, share: Any) -> Any:
    """Whether nobody but the user can say which rows follow the law.

    Of fewer than four cells any may be the law's. One region may be far larger than the law beside
    it, of which rows speak on one side; a law between regions that are is where two curves meet.
    """
    place, num_rows = task.survey.place, task.survey.fits.num_rows
    xp = namespace(num_rows)
    clean_rows = xp.where(place.clean, num_rows, 0.0).sum()
    inside = settled.num_rows.astype(num_rows.dtype)
    outside = num_rows.sum() - inside.sum()
    narrow = (stands.present.sum() > 1) & (inside.max() > outcome.OTHERS * outside)
    two_laws = (share >= outcome.TWO_LAWS) | (place.other_rows > outcome.OTHERS * clean_rows)
    few = task.state.look.cells.num < FEWEST_CELLS
    return (two_laws | narrow | few) & ~_is_vouched_for(task)


def _judge(
    task: Task,
    exact: ExactnessTest,
    stands: Standing,
    form: ChosenForm,
    everywhere: Everywhere,
    rival: Any,
    size: Any,
) -> Any:
    """The verdict."""
    survey, state = task.survey, task.state
    xp = namespace(survey.variance)
    fits, depend = survey.fits, state.look.dependence
    initial = to_host(task.live.initial) / to_host(task.live.unit)
    spread = outcome.explained_spread(survey.gram, initial + stands.theta, task.layout)
    num_rows = xp.maximum(fits.num_rows.sum(), 1)
    # Root mean square over all rows of the change of the law that looked worst.
    change = xp.sqrt(exact.statistic * depend.wide * survey.variance / num_rows)
    slight = xp.maximum(outcome.SLIGHT * spread, state.negligible)
    units = num_rows / (depend.rows * fits.present.sum().astype(depend.rows.dtype))
    few = (depend.rows > 1) & (units < outcome.INDEPENDENT)
    return outcome.decide(
        outcome.Grounds(
            enough=state.look.cells.num >= FEWEST_CELLS,
            exact=exact.log_p_value >= xp.log(task.config.alpha),
            certified=stands.certified,
            everywhere=everywhere.wins & (stands.certified | (everywhere.gain >= exact.statistic)),
            useless=size > outcome.USELESS * spread,
            slight=xp.maximum(size, change) <= slight,
            doubtful=depend.strong | few,
            untold=depend.untold & (exact.independent < xp.log(task.config.alpha)),
            two_laws=rival,
            usable=xp.any(form.usable & stands.present),
        )
    )


class _Explained(NamedTuple):
    """What the regions' terms explain.

    Attributes:
      terms: with their coefficients.
      everywhere: terms that act on all rows instead.
      chosen: ``(3, 2, R)`` supports that either half of every split would choose.
      tests: of either half's terms on the other, ordinary and weighted.
    """

    terms: outcome.Terms
    everywhere: Everywhere
    chosen: Any
    tests: tuple[FRatio, FRatio]


def _weigh_all(task: Task) -> Any:
    """Sums of products of all rows, weighted by one over the noise variance that scores have."""
    survey, depend = task.survey, task.state.look.dependence
    xp = namespace(survey.variance)
    present = survey.fits.present
    noise = xp.where(present, survey.noise.steady, 1.0) * depend.wide / depend.shown
    return xp.einsum("k,kij->ij", xp.where(present, 1 / noise, 0.0), survey.gram)


def _explain(
    task: Task, stands: Standing, form: ChosenForm, settled: Settled, final: Final, law: Physics
) -> _Explained:
    """The terms given the law, against terms that act everywhere, and their certificate."""
    depend, variance, present = task.state.look.dependence, task.survey.variance, stands.present
    columns = (task.layout, task.config.max_terms)
    # Rows that depend on each other tell less of a coefficient than their number says.
    inflation = depend.rows / depend.shown
    widened = inflation * variance
    ends = _count_ends(settled, present)
    chosen = split_supports(final.regions, form, stands.theta, variance, *columns)
    return _Explained(
        terms=outcome.fit_terms(final.regions, form, present, law, variance, inflation, *columns),
        everywhere=act_everywhere(
            final.regions,
            final.curved,
            _weigh_all(task),
            form,
            law.theta,
            present,
            ends,
            _is_vouched_for(task),
            widened,
            *columns,
        ),
        chosen=chosen,
        tests=certificate.held_out(
            final.regions, final.weighted, chosen, present, form.shared, *columns
        ),
    )


def _units(task: Task, data: Dataset) -> Units:
    """What the numbers of the working columns are in."""
    # A response of zeros has no unit, and what is in units of it is zero.
    magnitude, unit = to_host(data.magnitude), to_host(task.live.unit)
    unit = namespace(unit).where(magnitude > 0, unit, 0.0)
    rest = (task.live.initial, task.live.term_scale, data.frame, data.edges)
    return Units(unit, *(to_host(part) for part in rest))


def conclude(
    task: Task,
    stands: Standing,
    form: ChosenForm,
    settled: Settled,
    final: Final,
    data: Dataset,
    before: jax.Array,
) -> Diagnosis:
    """From sums to results."""
    survey, floor = task.survey, task.state.floor
    exact = judge_law(survey, task.state, task.layout)
    law = _fit_law(task, exact, stands, final, data.block is not None)
    explained = _explain(task, stands, form, settled, final, law)
    mapped = outcome.map_cells(
        final.map_all, final.map_law, final.map_rows[:, 1], law.theta, floor, task.layout
    )
    share = _share_of_rival(task, stands, settled)
    rival = _has_rival(task, stands, settled, share)
    size = regions.size_of_scatter(survey.fits, stands.scatter)
    tails = log_tails(*explained.tests, mapped.misfit, mapped.own_noise, mapped.louder)
    status = first_failure(
        to_host(before),
        status_if(~law.determined, Status.NO_CLEAN_CELLS),
        status_if(survey.variance <= 4 * floor, Status.EXACT_FIT),
        status_if(~task.repeats, Status.ITERATION_LIMIT),
    )
    found = Findings(
        look=task.state.look,
        place=survey.place,
        exactness=exact,
        scatter=size,
        variance=survey.variance,
        certified=stands.certified,
        gain=stands.gain,
        members=stands.members,
        gains=stands.gains,
        form=form,
        terms=explained.terms,
        settled=settled,
        final=final,
        law=law,
        everywhere=explained.everywhere,
        share=share,
        map=mapped,
        tests=explained.tests,
        log_p=to_host(tails),
        supports=explained.chosen,
        verdict=_judge(task, exact, stands, form, explained.everywhere, rival, size),
        status=status,
    )
    num_rows = to_host(task.live.num_rows)
    return assemble(found, _units(task, data), num_rows, task.config)
