"""Which verdict: how findings compare (docs/method.md, section 3.11)."""

from typing import Any

from lisdd_jax.default import outcome, regions
from lisdd_jax.default.cells import FEWEST_CELLS
from lisdd_jax.default.everywhere import Everywhere
from lisdd_jax.default.exactness import ExactnessTest
from lisdd_jax.default.findings import Standing, Task
from lisdd_jax.default.form import ChosenForm
from lisdd_jax.default.settling import Settled
from lisdd_jax.numerics.hosted import namespace, to_host


def count_ends(settled: Settled, present: Any) -> Any:
    """Ends that do not lie at an end of the axis."""
    xp = namespace(present)
    inner = [(xp.isfinite(end) & present).sum() for end in (settled.lower, settled.upper)]
    return inner[0] + inner[1]


def share_of_rival(task: Task, stands: Standing, settled: Settled) -> Any:
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


def is_vouched_for(task: Task) -> Any:
    """Whether the user has said where the law holds."""
    trusted = task.state.look.trusted & task.survey.fits.present
    return namespace(trusted).any(trusted)


def has_rival(task: Task, stands: Standing, settled: Settled, share: Any) -> Any:
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
    return (two_laws | narrow | few) & ~is_vouched_for(task)


def judge(
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
