import numpy as np
import pytest
from brute_force_default import fit, two_sided
from cell_data import assert_traced_alike, cell_rows

from lisdd_jax.default import description, exactness, regions
from lisdd_jax.default.cells import SortedCells
from lisdd_jax.default.dependence import RowDependence
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.local_fits import add_direction, fit_every_cell
from lisdd_jax.default.row_noise import CellNoise
from lisdd_jax.default.survey import Known, judge_law, survey_cells

NUM_CELLS = 8
SIZES = (30,) * NUM_CELLS
PHYSICS = slice(2, 4)
FULL = np.bool_(True)


def known(*, rows_as_one=1.0, wide=1.0, shown=1.0, negligible=0.0, scale=0.0, trusted=()):
    numbers = [np.float64(value) for value in (0, 0, rows_as_one, wide, shown, 0, 0)]
    depend = RowDependence(*numbers, *np.zeros(3, bool))
    bounds = np.arange(NUM_CELLS + 1, dtype=np.int32) * 30
    of_row = np.repeat(np.arange(NUM_CELLS, dtype=np.int32), 30)
    look = FirstLook(
        keep=np.ones(240, bool),
        scale=np.float64(scale),
        dependence=depend,
        cells=SortedCells(of_row, bounds, np.int32(NUM_CELLS)),
        full=FULL,
        trusted=np.isin(np.arange(NUM_CELLS), trusted),
        places=np.linspace(-1.7, 1.7, NUM_CELLS + 1),
        noise=CellNoise(np.ones(240), np.ones(NUM_CELLS)),
        exponents=np.zeros((4, 2)),
        row_noise=np.ones(240),
    )
    return Known(look, np.float64(1e-12), np.float64(negligible))


def curved(size):
    """A term beyond [1, axis, physics] that acts in two cells."""
    return lambda columns, cell: np.where(np.isin(cell, (3, 4)), size * columns[:, 4], 0.0)


def surveyed(rows, **changes):
    return survey_cells(rows.gram, rows.count, known(**changes), rows.layout)


def judged(rows, **changes):
    """The test that the law holds exactly."""
    return judge_law(surveyed(rows, **changes), known(**changes), rows.layout)


def beyond(rows):
    """Squared score of every term beyond the cells' own directions, summed over the best run."""
    score, square, degrees, left = np.zeros((2, 8)), np.zeros((2, 8)), np.zeros(8), np.zeros(8)
    for k in range(NUM_CELLS):
        own = rows.columns[rows.cell == k]
        residual = fit(own[:, :4], own[:, -1])[1]
        left[k], degrees[k] = residual @ residual, len(own) - 4
        for j in range(2):
            other = fit(own[:, :4], own[:, 4 + j])[1]
            score[j, k], square[j, k] = other @ residual, other @ other
    steady = (8 * sum(left) / sum(degrees) + left) / (8 + degrees)
    best = np.zeros(2)
    for first in range(NUM_CELLS):
        for end in range(first + 1, NUM_CELLS + 1):
            top = np.sum((score / steady)[:, first:end], axis=1) ** 2
            best = np.maximum(best, top / np.sum((square / steady)[:, first:end], axis=1))
    return best, sum(degrees)


@pytest.mark.parametrize("size", [0.0, 0.3, 0.5, 0.7, 1.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_term_joins_where_it_acts_beyond_axis_and_physics(size, seed):
    rows = cell_rows(seed, SIZES, change=curved(size))
    found = surveyed(rows)
    best, degrees = beyond(rows)
    log_p = two_sided(np.sqrt(max(best)), degrees) + np.log(2 * NUM_CELLS**1.5)
    acts = log_p < np.log(0.001)
    plain = fit_every_cell(rows.gram, rows.count, 1e-12, 2, FULL)[0]
    expected = add_direction(plain, rows.gram, np.argmax(best), np.bool_(acts), FULL, 2)
    np.testing.assert_allclose(found.fits.gram, expected.gram, rtol=1e-12)
    np.testing.assert_allclose(found.fits.local, expected.local, rtol=1e-12)
    assert (found.fits.rank == (5 if acts else 4)).all()


def test_a_large_term_joins_and_none_without_one():
    assert (surveyed(cell_rows(0, SIZES, change=curved(1.5))).fits.rank == 5).all()
    joined = sum(surveyed(cell_rows(seed, SIZES)).fits.rank[0] == 5 for seed in range(100))
    assert joined / 100 <= 0.001 + 5 * np.sqrt(0.001 * 0.999 / 100)


def test_a_region_shows_by_a_term_beyond_the_physics():
    rows = cell_rows(3, SIZES, change=curved(1.5))
    found = surveyed(rows)
    assert np.flatnonzero(~found.place.clean).tolist() == [3, 4]
    clean = ~np.isin(rows.cell, (3, 4))
    assert np.exp(-found.place.gain) < 1e-4
    own = [rows.columns[rows.cell == k] for k in range(NUM_CELLS)]
    squares = [np.sum(fit(part[:, :4], part[:, -1])[1] ** 2) for part in own]
    pooled = sum(squares) / (NUM_CELLS * 26)
    variances = [(2 * pooled + square) / (2 + 26) for square in squares]
    expected = np.mean([variances[k] for k in range(NUM_CELLS) if k not in (3, 4)])
    assert clean.sum() == 180
    assert found.variance == pytest.approx(expected, rel=1e-9)


def test_scales_are_the_middle_of_three_and_no_less_than_that_of_all():
    rows = cell_rows(4, SIZES, noise=(1, 9, 1, 2, 3, 4, 4, 0.2))
    own = np.sqrt(surveyed(rows).fits.variance)
    padded = [own[0], *own, own[-1]]
    middle = [sorted(padded[k : k + 3])[1] for k in range(NUM_CELLS)]
    np.testing.assert_allclose(surveyed(rows).scale, middle, rtol=1e-12)
    expected = np.maximum(middle, 1.5)
    np.testing.assert_allclose(surveyed(rows, scale=1.5).scale, expected, rtol=1e-12)


def test_dependence_makes_the_means_of_cells_less_certain():
    rows = cell_rows(5, SIZES, change=curved(1.0))
    changes = {"rows_as_one": 3.0, "wide": 4.0, "shown": 0.8}
    plain, found = surveyed(rows), surveyed(rows, **changes)
    np.testing.assert_allclose(found.fits.variance, plain.fits.variance * 3.0 / 0.8, rtol=1e-12)
    assert found.place.gain < plain.place.gain
    only_wide = {"wide": 4.0, "shown": 0.8}
    assert judged(rows, **only_wide).statistic == pytest.approx(judged(rows).statistic * 0.8 / 4.0)
    assert judged(rows, **changes).statistic != judged(rows, **only_wide).statistic
    # The noise itself is what it is.
    expected = np.mean(plain.fits.variance[found.place.clean])
    assert found.variance == pytest.approx(expected, rel=1e-9)


def test_place_and_exactness_are_those_of_their_modules():
    rows = cell_rows(6, SIZES, change=curved(1.0))
    negligible = 0.2
    changes = {"negligible": negligible, "trusted": (3,)}
    found = surveyed(rows, **changes)
    plain, noise, _ = fit_every_cell(rows.gram, rows.count, 1e-12, 2, FULL)
    scatter = 30 * negligible**2 / (4 * np.mean(plain.variance))
    costs = description.prepare_costs(found.fits, scatter)
    for own, expected in zip(found.costs, costs, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-9)
    trusted = np.isin(np.arange(NUM_CELLS), (3,))
    place = regions.find_place(found.fits, costs, trusted, PHYSICS)
    np.testing.assert_array_equal(found.place.clean, place.clean)
    assert found.place.gain == pytest.approx(place.gain, rel=1e-9)
    assert found.place.clean[3]
    exact = exactness.test_exactness(rows.gram, plain, noise, 2, 1.0, negligible)
    assert judged(rows, **changes).log_p_value == pytest.approx(exact.log_p_value)
    assert found.gram is rows.gram


def test_traced_alike():
    rows = cell_rows(3, SIZES, change=curved(1.5))

    def every(gram, count, known):
        survey = survey_cells(gram, count, known, rows.layout)
        return survey, judge_law(survey, known, rows.layout)

    assert_traced_alike(every, rows.gram, rows.count, known(negligible=0.1, trusted=(0,)))
