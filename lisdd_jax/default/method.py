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
from lisdd_jax.default import first_look, regions, rows
from lisdd_jax.default.conclusion import conclude
from lisdd_jax.default.final_sums import sum_final
from lisdd_jax.default.findings import Standing, Task
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.narrow_runs import NarrowRun
from lisdd_jax.default.ordering import (
    Ordered,
    order_known,
    order_rows,
    rounding_size,
    without_terms,
)
from lisdd_jax.default.row_noise import weigh
from lisdd_jax.default.rows import Apart, OpenRegions
from lisdd_jax.default.settling import Settled, settle
from lisdd_jax.default.survey import Known, Survey, revive_survey, survey_cells, weights_of_cells
from lisdd_jax.default.turns import Turned, find_form
from lisdd_jax.numerics import tolerances
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.hosted import is_known, namespace, to_host, traced_once
from lisdd_jax.results import Diagnosis

_NUM_PASSES = 4
"""Places sought, each on the rows that the law of the last one keeps; the rows repeat after one, or
two where a narrow run is among them."""


def _repeat_until_settled(
    work: Any, keep: jax.Array, known: bool
) -> tuple[Any, jax.Array, jax.Array | np.bool_]:
    """``result, after = work(keep)`` until the rows kept repeat.

    Returns:
      The last result, the rows that it is of, and whether they repeated.
    """
    if known:
        for _ in range(_NUM_PASSES):
            used = keep
            result, keep = work(used)
            settled = np.array_equal(keep, used)
            if settled:
                break
        return result, used, np.bool_(settled)

    traced, (empty, _) = traced_once(work, keep)

    def goes_on(state: tuple[Any, ...]) -> jax.Array:
        step, *_, moved = state
        return moved & (step < _NUM_PASSES)

    def body(state: tuple[Any, ...]) -> tuple[Any, ...]:
        step, _, _, keep, _ = state
        result, after = traced(keep)
        return step + 1, result, keep, after, jnp.any(after != keep)

    _, result, used, _, moved = lax.while_loop(
        goes_on, body, (jnp.int32(0), empty, keep, keep, jnp.ones((), bool))
    )
    return result, used, ~moved


@compiled
def rounding_variance(data: Dataset, ordered: Ordered, keep: jax.Array) -> jax.Array:
    """Variance, in the working unit, at which residuals are rounding errors; 1 for zeros.

    They are differences of responses, and their sums of squares differences of those of the kept
    rows ``keep (n,)``: where a robust start leaves most rows far away, these know less.
    """
    dtype, rounding = data.response.dtype, rounding_size(data)
    count = jnp.maximum(jnp.sum(keep), 1).astype(dtype)
    mean_square = jnp.sum(jnp.where(keep, ordered.columns[-1], 0.0) ** 2) / count
    floor = (rounding / ordered.unit) ** 2 + tolerances.RESOLUTION(dtype) * mean_square
    return jnp.where(rounding > 0, floor + jnp.finfo(dtype).tiny, jnp.ones((), dtype))


def run(key: jax.Array, data: Dataset, before: jax.Array, config: Config) -> Diagnosis:
    """Diagnose a data set.

    Args:
      key: typed key; not used, since nothing is drawn.
      data: the data set.
      before: its status.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Diagnosis``, in NumPy where the data are known.
    """
    known = is_known((key, data, config))
    config = to_host(config)
    layout = ColumnLayout(data.design.shape[1], data.features.shape[1])
    live = order_rows(data, order_known(data) if known else None)
    # Of many rows each copy counts: none has a name that outlives its use.
    look = first_look.look(
        without_terms(live if known else lax.stop_gradient(live), layout), layout.without_terms()
    )
    if not known or np.any(to_host(look.exponents)):
        live = weigh(live, look.noise.relative)
    live = live._replace(trusted=None)
    # What is searched for is discrete, and carries no derivative; final sums are of live rows.
    ordered = live.without_labels()
    ordered = ordered if known else lax.stop_gradient(ordered)
    unit = to_host(ordered.unit)
    floor = to_host(
        rounding_variance(data if known else lax.stop_gradient(data), ordered, look.keep)
    )
    if known:
        data = data.without_rows()
    state = Known(to_host(look), floor, config.negligible / unit)

    limits = (-(np if known else jnp).log(config.alpha), state.negligible)

    def work(keep: jax.Array) -> tuple[tuple[Survey, Apart], jax.Array]:
        gram, count = to_host(rows.sum_kept_rows(ordered, look.cells, keep))
        survey = survey_cells(gram, count, state, layout)
        law = (survey.place.theta, survey.place.clean)
        clean = _clean_cells(survey, config)
        found = rows.keep_near_law(ordered, look, law, survey.scale, clean, keep, limits, layout)
        return (survey, found.apart), found.keep

    (survey, apart), keep, repeats = _repeat_until_settled(work, look.keep, known)
    task = Task(live, ordered, look, keep, repeats, state, survey, layout, config)
    stands, run = _take_regions(task, to_host(apart.runs))
    # Known flags in NumPy: an operation on them would be a program for every number of rows.
    task = task._replace(keep=to_host(keep) | run.rows(len(keep)))
    region, settled, turned = _find_regions(task, stands, run, apart)
    stands = stands._replace(theta=turned.theta)
    task = task._replace(repeats=repeats & turned.settled)
    if not known:
        gram, count = rows.sum_kept_rows(live, look.cells, keep)
        task = task._replace(survey=revive_survey(survey, gram, count, state, layout))
    weights = weights_of_cells(task.survey, state)
    final = to_host(
        sum_final(live, look, region, settled, stands.theta, weights, layout, data.num_cells)
    )
    return conclude(task, stands, turned.form, to_host(settled), final, data, before)


def _clean_cells(survey: Survey, config: Config) -> Any:
    """Cells ``(K,)`` of the law: all of them, unless a place stands out."""
    xp = namespace(survey.variance)
    certified = -survey.place.gain < xp.log(config.alpha)
    return xp.where(certified, survey.place.clean, survey.fits.present)


def _take_regions(task: Task, runs: NarrowRun) -> tuple[Standing, NarrowRun]:
    """The regions with evidence of their own and for narrow ``runs (M,)``, and the run ``(R,)`` of
    each: of several in neighbouring cells the strongest, and the others stay set aside."""
    survey, look = task.survey, task.state.look
    place, fits = survey.place, survey.fits
    xp = namespace(survey.variance)
    log_alpha = xp.log(task.config.alpha)
    certified = -place.gain < log_alpha
    # Runs that do not stand out by themselves stay out of the law, unless nothing stands out.
    clean = _clean_cells(survey, task.config)
    held = runs.of_cells(look.cells.bounds)
    narrow = xp.any(held, 0)
    # A run may hold all rows of a cell, which is then described by none.
    there = fits.present | narrow
    members = regions.members_of_runs(clean & ~narrow, there, task.config.max_regions)
    trusted = look.trusted & fits.present
    gains = regions.gain_of_regions(
        fits, place, survey.costs, trusted, members, task.layout.physics
    )
    own = xp.where(xp.any(members[:, None] & held[None], -1), runs.gain[None], 0.0)
    best, some = xp.argmax(own, 1), xp.any(own > 0, 1)
    run = NarrowRun(*(xp.where(some, part[best], 0).astype(part.dtype) for part in runs))
    gains = xp.where(some, run.gain, gains)
    members = members & (-gains < log_alpha)[:, None]
    stands = Standing(
        placed=certified,
        certified=certified | xp.any(narrow),
        gain=xp.maximum(place.gain, xp.max(runs.gain)),
        members=members,
        present=xp.any(members, -1),
        gains=gains,
        clean=clean & ~narrow,
        theta=xp.where(certified, place.theta, place.theta_all),
        scatter=xp.where(certified, place.scatter, place.scatter_all),
    )
    return stands, run


def _find_regions(
    task: Task, stands: Standing, run: NarrowRun, apart: Apart
) -> tuple[OpenRegions, Settled, Turned]:
    """Open the regions, find their terms and ends and the law beside them, and settle which rows
    serve what."""
    survey = task.survey
    ordered, look, layout = task.ordered, task.look, task.layout
    variance, members = survey.variance, stands.members
    region, sums = rows.open_regions(
        ordered, look.cells, members, stands.clean, task.keep, survey.scale, variance, run
    )
    found = find_form(ordered, region, sums, stands.theta, variance, members, layout, task.config)
    law = (found.theta, variance)
    settled = settle(ordered, look, region, apart, law, found.placed, layout)
    return region, settled, found
