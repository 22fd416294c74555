"""What the cells show: fits, the place, and whether the law is exact (sections 3.2 to 3.5)."""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default import description, regions
from lisdd_jax.default.description import Costs
from lisdd_jax.default.exactness import (
    RUN_POWER,
    ExactnessTest,
    log_two_sided,
    test_exactness,
)
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.local_fits import (
    LEAST_LEFT,
    Beyond,
    LocalFits,
    Noise,
    add_direction,
    fit_every_cell,
    spans,
)
from lisdd_jax.default.regions import FoundPlace
from lisdd_jax.numerics import medians
from lisdd_jax.numerics.hosted import namespace


class Survey(NamedTuple):
    """What the cells show.

    Attributes:
      fits: the cells' own fits, a candidate term among the directions where one acts beyond them.
      noise: of the cells.
      place: the regime.
      scale: ``(K,)`` noise scales of the cells for the bounds of outliers.
      variance: of the noise on the clean cells.
      costs: of descriptions of the cells.
      gram: ``(K, m, m)`` sums of products of all columns.
    """

    fits: LocalFits
    noise: Noise
    place: FoundPlace
    scale: Any
    variance: Any
    costs: Costs
    gram: Any


_BEYOND = 1e-3
"""Level at which a candidate term joins the directions of all cells. One that has no effect there
weakens the description of every cell, and lets runs with laws of their own do without the law."""


def _term_beyond(beyond: Beyond, noise: Noise) -> tuple[Any, Any]:
    """The candidate term that acts most beyond what axis and physics span, and whether it does.

    Its largest score over runs pays for its search as in ``exactness``.
    """
    xp = namespace(beyond.score)
    weight = xp.where(noise.degrees > 0, 1 / xp.where(noise.degrees > 0, noise.steady, 1.0), 0.0)
    both = (beyond.score, beyond.square)
    score, square = (spans((part * weight[:, None]).T) for part in both)
    defined = beyond.resolved[:, None, None] & (square > LEAST_LEFT * xp.max(square))
    squares = xp.where(defined, score**2 / xp.where(defined, square, 1.0), 0.0)
    largest = xp.max(squares, axis=(1, 2))
    term = xp.argmax(largest)
    cells = (noise.degrees > 0).sum().astype(score.dtype)
    tried = float(np.log(len(largest))) + RUN_POWER * xp.log(xp.maximum(cells, 1))
    log_p = log_two_sided(largest[term], xp.maximum(noise.degrees.sum(), 1)) + tried
    return term, log_p < float(np.log(_BEYOND))


class Known(NamedTuple):
    """Small numbers of a data set that every step needs, on the host where they are known.

    Attributes:
      look: what single cells show.
      floor: variance at which residuals are rounding errors.
      negligible: discrepancy that does not matter, in the working unit.
    """

    look: FirstLook
    floor: Any
    negligible: Any


def weights_of_cells(survey: Survey, known: Known) -> Any:
    """Weights ``(K,)`` of rows in the robust test, by the cells' own noise."""
    xp = namespace(survey.variance)
    own = survey.fits.variance / known.look.dependence.rows
    return survey.variance / xp.where(survey.fits.present, own, 1.0)


def revive_survey(
    survey: Survey, gram: Any, count: Any, known: Known, layout: ColumnLayout
) -> Survey:
    """The same survey with noise as a function of sums that carry derivatives.

    Args:
      survey: of the same sums, where they carry none.
      gram, count, known, layout: as for ``survey_cells``.
    """
    xp = namespace(gram)
    look, depend = known.look, known.look.dependence
    plain, noise, _ = fit_every_cell(
        gram,
        count,
        known.floor,
        layout.num_physics,
        look.full,
        look.noise.expected,
        depend.rows,
    )
    clean = xp.where(survey.place.clean, count, 0.0)
    return survey._replace(
        fits=survey.fits._replace(variance=plain.variance * depend.rows / depend.shown),
        noise=noise,
        variance=(clean * plain.variance).sum() / xp.maximum(clean.sum(), 1),
        gram=gram,
    )


def judge_law(survey: Survey, known: Known, layout: ColumnLayout) -> ExactnessTest:
    """Test that the law holds exactly."""
    depend = known.look.dependence
    inflation, size = depend.wide / depend.shown, layout.num_physics
    return test_exactness(survey.gram, survey.fits, survey.noise, size, inflation, known.negligible)


def survey_cells(gram: Any, count: Any, known: Known, layout: ColumnLayout) -> Survey:
    """Survey the cells.

    Args:
      gram: ``(K, m, m)`` sums of products of all columns over the kept rows of every cell.
      count: ``(K,)`` kept rows.
      known: of the data set.
      layout: columns.
    """
    xp = namespace(gram)
    look, size = known.look, layout.num_physics
    depend = look.dependence
    plain, noise, beyond = fit_every_cell(
        gram, count, known.floor, size, look.full, look.noise.expected, depend.rows
    )
    term, acts = _term_beyond(beyond, noise)
    fits = add_direction(plain, gram, term, acts, look.full, size)
    # Rows that depend on each other make the level of a cell less certain.
    fits = fits._replace(variance=fits.variance * depend.rows / depend.shown)
    cells = xp.maximum(plain.present.sum(), 1).astype(gram.dtype)
    mean = xp.maximum(count.sum() / cells, 1)
    spread = xp.where(plain.present, plain.variance, 0.0).sum() / cells
    rank = xp.where(plain.present, plain.rank, 0.0).sum() / cells
    scatter = mean * known.negligible**2 / xp.maximum(rank * spread, known.floor)
    costs = description.prepare_costs(fits, scatter)
    place = regions.find_place(fits, costs, look.trusted & plain.present, layout.physics)
    clean = xp.where(place.clean, count, 0.0)
    variance = (clean * plain.variance).sum() / xp.maximum(clean.sum(), 1)
    scale = medians.middle_of_three(xp.sqrt(plain.variance), look.cells.num)
    scale = xp.maximum(scale, look.scale)
    return Survey(fits, noise, place, scale, variance, costs, gram)
