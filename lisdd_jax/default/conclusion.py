"""From sums to results: the law, the terms, the certificate, the verdict (section 3.11)."""

from typing import Any, NamedTuple

import jax

from lisdd_jax.dataset import Dataset
from lisdd_jax.default import certificate, judging, outcome, regions, whole_axis
from lisdd_jax.default.assembly import assemble
from lisdd_jax.default.everywhere import Everywhere, act_everywhere
from lisdd_jax.default.exactness import ExactnessTest
from lisdd_jax.default.final_sums import Final
from lisdd_jax.default.findings import Findings, Standing, Task, Units
from lisdd_jax.default.form import ChosenForm, split_supports
from lisdd_jax.default.physics import Physics, fit_physics
from lisdd_jax.default.settling import Settled
from lisdd_jax.default.survey import judge_law
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.hosted import namespace, to_host
from lisdd_jax.results import Diagnosis, Verdict
from lisdd_jax.statistics.f_tests import FRatio, log_p_values
from lisdd_jax.status import Status, first_failure, status_if


@compiled
def log_tails(*ratios: FRatio) -> tuple[jax.Array, ...]:
    """Log p-values of terms on all rows, of held-out tests and of the map; NaN where undefined."""
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
    ends = judging.count_ends(settled, present)
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
            judging.is_vouched_for(task),
            widened,
            *columns,
        ),
        chosen=chosen,
        tests=certificate.held_out(
            final.regions, final.weighted, chosen, present, form.shared, *columns
        ),
    )


def _fit_jointly(task: Task, everywhere: Everywhere) -> whole_axis.JointFit:
    """Physics and what may act everywhere, of all rows."""
    survey, depend = task.survey, task.state.look.dependence
    inflation, columns = depend.rows / depend.shown, (task.layout, task.config.max_terms)
    known = (survey.gram, survey.fits.num_rows, everywhere.support, inflation, task.state.floor)
    return whole_axis.fit_jointly(*known, *columns)


def _units(task: Task, data: Dataset) -> Units:
    """What the numbers of the working columns are in."""
    # A response of zeros has no unit, and what is in units of it is zero.
    magnitude, unit = to_host(data.magnitude), to_host(task.live.unit)
    unit = namespace(unit).where(magnitude > 0, unit, 0.0)
    rest = (task.live.initial, task.live.term_scale, data.frame, data.edges)
    return Units(unit, *(to_host(part) for part in rest))


class _Judged(NamedTuple):
    """The verdict, and what it rests on; names are those of ``Findings``."""

    scatter: Any
    share: Any
    verdict: Any
    acts: Any


def _judge(
    task: Task,
    exact: ExactnessTest,
    stands: Standing,
    form: ChosenForm,
    settled: Settled,
    everywhere: Everywhere,
) -> _Judged:
    share = judging.share_of_rival(task, stands, settled)
    rival = judging.has_rival(task, stands, settled, share)
    scatter = regions.size_of_scatter(task.survey.fits, stands.scatter)
    verdict = judging.judge(task, exact, stands, form, everywhere, rival, scatter)
    acts = everywhere.named & (verdict == int(Verdict.NO_CLEAN_REGIME))
    return _Judged(scatter, share, verdict, acts)


def _status(task: Task, law: Physics, variance: Any, before: jax.Array) -> Any:
    return first_failure(
        to_host(before),
        status_if(~law.determined, Status.NO_CLEAN_CELLS),
        status_if(variance <= 4 * task.state.floor, Status.EXACT_FIT),
        status_if(~task.repeats, Status.ITERATION_LIMIT),
    )


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
    survey, num_rows = task.survey, to_host(task.live.num_rows)
    exact = judge_law(survey, task.state, task.layout)
    law = _fit_law(task, exact, stands, final, data.block is not None)
    explained = _explain(task, stands, form, settled, final, law)
    judged = _judge(task, exact, stands, form, settled, explained.everywhere)
    joint = _fit_jointly(task, explained.everywhere)
    law = whole_axis.law_of_all_rows(joint, law, judged.acts)
    variance = namespace(judged.acts).where(judged.acts, joint.variance, survey.variance)
    on_map = (final.map_all, final.map_law, final.map_rows[:, 1])
    mapped = outcome.map_cells(*on_map, law.theta, task.state.floor, task.layout)
    ratios = (*explained.tests, mapped.misfit, mapped.own_noise, mapped.louder)
    on_all, *tails = to_host(log_tails(joint.test, *ratios))
    found = Findings(
        look=task.state.look,
        place=survey.place,
        exactness=exact,
        variance=variance,
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
        map=mapped,
        tests=explained.tests,
        log_p=tuple(tails),
        supports=explained.chosen,
        status=_status(task, law, variance, before),
        **judged._asdict(),
    )
    found = whole_axis.spread_over_axis(found, joint, on_all, num_rows)
    return assemble(found, _units(task, data), num_rows, task.config)
