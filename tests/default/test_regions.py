import numpy as np
import pytest
from brute_force_default import Cells, fit
from cell_data import THETA, assert_traced_alike, cell_rows, products

from lisdd_jax.default import description, regions
from lisdd_jax.default.local_fits import fit_every_cell

NUM_CELLS = 12
SIZES = (25,) * NUM_CELLS
PHYSICS = slice(2, 4)
NOBODY = np.zeros(NUM_CELLS, bool)


def wrong(*cells, size=2.0):
    """A change of both coefficients in some cells."""

    def change(columns, cell):
        return np.where(np.isin(cell, cells), size * (columns[:, 2] - columns[:, 3]), 0.0)

    return change


def fitted(seed, change=None, sizes=SIZES, noise=None):
    rows = cell_rows(seed, sizes, change=change, noise=noise)
    return rows, fit_every_cell(rows.gram, rows.count, 0.0, 2, np.bool_(True))[0]


def costs_of(fits):
    return description.prepare_costs(fits, 0.0)


def found_in(fits, trusted=NOBODY):
    return regions.find_place(fits, costs_of(fits), trusted, PHYSICS)


def by_loops(rows, fits):
    own = [rows.columns[rows.cell == k] for k in range(len(rows.count))]
    return Cells(
        [part[:, :4] for part in own], [part[:, -1] for part in own], fits.variance, PHYSICS
    )


@pytest.mark.parametrize("cells", [(0, 1), (4, 5, 6), (9, 10, 11), (3,)])
def test_an_obvious_run_is_found_exactly(cells):
    rows, fits = fitted(2, wrong(*cells))
    place = found_in(fits)
    assert np.flatnonzero(~place.clean).tolist() == list(cells)
    assert place.gain > 10
    clean = [k for k in range(NUM_CELLS) if k not in cells]
    loops = by_loops(rows, fits)
    np.testing.assert_allclose(place.theta, loops.law_of(clean), rtol=1e-9)
    np.testing.assert_allclose(place.theta_all, loops.law_of(range(NUM_CELLS)), rtol=1e-9)


def test_two_runs_are_found():
    _, fits = fitted(3, wrong(1, 2, 7, 8, 9, size=3.0))
    place = found_in(fits)
    assert np.flatnonzero(~place.clean).tolist() == [1, 2, 7, 8, 9]


def test_gain_is_that_of_the_description_over_one_law_for_all():
    sizes = (30, 24, 41, 28, 33, 26)
    rows, fits = fitted(4, wrong(2, 3), sizes)
    place = found_in(fits, np.zeros(6, bool))
    loops = by_loops(rows, fits)
    assert np.flatnonzero(~place.clean).tolist() == [2, 3]
    cost, clean, lawful = loops.describe(place.theta, place.scatter)
    assert place.cost == pytest.approx(cost, rel=1e-9)
    assert clean == [0, 1, 4, 5]
    assert place.other_rows == lawful
    law = loops.law_of(range(6))
    none = min(sum(loops.cost_of_law(k, law, t) for k in range(6)) for t in range(16))
    assert place.gain == pytest.approx(none - cost, rel=1e-9)


def test_cells_that_obey_the_law_to_the_letter_gain_nothing():
    rows = cell_rows(0, SIZES)
    columns = rows.columns.copy()
    for k in range(NUM_CELLS):
        own = rows.cell == k
        noise = fit(columns[own, :4], columns[own, -1])[1]
        columns[own, -1] = columns[own, 2:4] @ THETA[:2] + noise
    gram, count = products(columns, rows.cell, NUM_CELLS)
    place = found_in(fit_every_cell(gram, count, 0.0, 2, np.bool_(True))[0])
    assert place.gain == pytest.approx(0, abs=1e-9)
    assert place.clean.all()
    assert place.scatter == place.scatter_all == 0
    np.testing.assert_allclose(place.theta, THETA[:2], rtol=1e-9)
    np.testing.assert_allclose(place.theta_all, THETA[:2], rtol=1e-9)


def test_trusted_cells_are_never_excluded():
    cells = (2, 3, 4, 5, 6, 7, 8, 9)
    trusted = np.isin(np.arange(NUM_CELLS), [4, 5])
    for seed in range(5):
        fits = fitted(seed, wrong(*cells, size=3.0))[1]
        place = found_in(fits, trusted)
        assert place.clean[trusted].all()
        assert set(np.flatnonzero(place.clean)) <= set(cells)
    # Where the trusted cells are the fewer, they hold the law all the same.
    fits = fitted(0, wrong(4, 5, size=3.0))[1]
    assert np.flatnonzero(~found_in(fits).clean).tolist() == [4, 5]
    assert found_in(fits, trusted).clean[trusted].all()


def test_a_law_of_half_of_the_rows_is_a_rival():
    rows, fits = fitted(5, wrong(0, 1, 2, 3, 4, 5, size=3.0))
    place = found_in(fits)
    first, second = list(range(6)), list(range(6, 12))
    clean = np.flatnonzero(place.clean).tolist()
    assert clean in (first, second)
    assert np.flatnonzero(place.rival).tolist() == (second if clean == first else first)
    assert place.rival_gap < regions.RIVAL
    rival = np.flatnonzero(place.rival)
    np.testing.assert_allclose(place.rival_theta, by_loops(rows, fits).law_of(rival), rtol=1e-9)
    assert place.other_rows == 150


def test_two_laws_that_meet_are_told_apart():
    """A kink at 60 % of the axis: no law fits all, and a line shows one direction of the two."""
    rng = np.random.default_rng(1)
    cell = np.repeat(np.arange(12), 16)
    along = np.linspace(-1.0, 1.0, len(cell))
    response = along + 5 * np.maximum(along - 0.2, 0) + 0.05 * rng.normal(size=len(cell))
    columns = np.column_stack([along**0, along, along**0, along, response])
    gram, count = products(columns, cell, 12)
    for full in (True, False):
        place = found_in(fit_every_cell(gram, count, 0.0, 2, np.bool_(full))[0])
        clean = np.flatnonzero(place.clean).tolist()
        assert clean in ([*range(7)], [*range(8)]), full
        np.testing.assert_allclose(place.theta, [0, 1], atol=0.1)
        assert set(np.flatnonzero(place.rival)) <= set(range(7, 12))
        assert place.rival_gap < regions.RIVAL


@pytest.mark.parametrize("seed", range(6))
def test_a_scatter_that_explains_a_wide_region_does_not_keep_it(seed):
    """A cubic beyond a quarter of the axis: from the law of all cells, with the scatter that they
    have about it, divisions never leave three quarters of the cells in runs."""
    rng = np.random.default_rng(seed)
    cell = np.repeat(np.arange(24), 60)
    along, other = np.sort(rng.uniform(-3.3, 3.3, len(cell))), rng.normal(size=len(cell))
    response = np.where(np.abs(along) > 0.825, 0.2 * along**3, 0.0)
    response += 0.15 * rng.normal(size=len(cell))
    physics = np.column_stack([along, other])
    response -= physics @ np.linalg.lstsq(physics, response)[0]
    columns = np.column_stack([along**0, along, physics, response])
    gram, count = products(columns, cell, 24)
    fits = fit_every_cell(gram, count, 0.0, 2, np.bool_(True))[0]
    clean = np.abs(np.arange(24) - 11.5) < 3
    costs, anywhere = costs_of(fits), np.zeros((1, 24), bool)
    place = regions.find_place(fits, costs, anywhere[0], PHYSICS)
    assert (place.clean != clean).sum() <= 2
    law = description.fit_law(fits, costs.weight, clean[None], PHYSICS).theta
    runs = description.cost_of_runs(fits, anywhere)
    known = description.describe_cells(fits, costs, runs, law, np.zeros(1, int), PHYSICS)
    assert place.cost <= known.cost[0] + 1e-9 * abs(known.cost[0])


def test_a_law_of_more_rows_is_preferred_where_it_describes_the_cells_nearly_as_well():
    """Four cells obey a law exactly; six obey another to within a scatter, and one of their own."""

    def change(columns, cell):
        bent = np.where(np.isin(cell, range(6)), 0.3 * columns[:, 1] - 0.8 * columns[:, 3], 0.0)
        return bent + np.where(np.isin(cell, (10, 11)), 8.0, 0.0)

    _, fits = fitted(5, change)
    place = found_in(fits)
    assert np.flatnonzero(place.clean).tolist() == list(range(6))
    # The shorter description is that of the four, which is now the rival.
    assert np.flatnonzero(place.rival).tolist() == list(range(6, 10))
    assert place.rival_gap < 0
    vouched = NOBODY.copy()
    vouched[6:10] = True
    assert np.flatnonzero(found_in(fits, vouched).clean).tolist() == list(range(6, 10))


def test_units_of_columns_do_not_matter():
    rows, fits = fitted(6, wrong(4, 5, 6))
    scale = np.array([1.0, 1.0, 1e3, 1e-2, 1.0, 1.0, 1.0])
    gram = rows.gram * scale[:, None] * scale[None]
    other = fit_every_cell(gram, rows.count, 0.0, 2, np.bool_(True))[0]
    place, expected = found_in(other), found_in(fits)
    assert place.gain == pytest.approx(expected.gain, rel=1e-9)
    np.testing.assert_array_equal(place.clean, expected.clean)
    np.testing.assert_allclose(place.theta * scale[2:4], expected.theta, rtol=1e-8)


@pytest.mark.parametrize("unequal", [False, True])
def test_sound_tables_gain_little(unequal):
    """Equation 25 on 200 tables, within five standard errors of the level."""
    num = 200
    noise = np.geomspace(0.2, 5.0, NUM_CELLS) if unequal else np.ones(NUM_CELLS)
    certified = 0
    for seed in range(num):
        place = found_in(fitted(1000 + seed, noise=noise)[1])
        certified += np.exp(-place.gain) < 0.05
    assert certified / num <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / num)


def test_one_region_gains_what_the_place_does():
    _, fits = fitted(2, wrong(4, 5, 6))
    place = found_in(fits)
    members = np.stack([~place.clean, NOBODY])
    gains = regions.gain_of_regions(fits, place, costs_of(fits), NOBODY, members, PHYSICS)
    np.testing.assert_allclose(gains, [place.gain, 0.0], rtol=1e-9)


def test_each_region_gains_beside_the_others():
    """Without a region its cells are described by the law, refitted; the other one stays out."""
    rows, fits = fitted(13, wrong(1, 2, 7, 8, 9, size=1.5))
    place = found_in(fits)
    assert np.flatnonzero(~place.clean).tolist() == [1, 2, 7, 8, 9]
    members = np.array([np.isin(np.arange(NUM_CELLS), run) for run in ([1, 2], [7, 8, 9])])
    gains = regions.gain_of_regions(fits, place, costs_of(fits), NOBODY, members, PHYSICS)
    loops = by_loops(rows, fits)
    for gain, own in zip(gains, members, strict=True):
        kept = np.flatnonzero(place.clean | own)
        refit = [loops.law_of(kept), loops.law_of(range(NUM_CELLS))]
        laws = [(theta, position) for theta in refit for position in range(0, 16, 2)]
        laws.append((place.theta, place.scatter))
        without = min(loops.describe(*law, barred=kept)[0] for law in laws)
        assert 0 < gain <= place.gain
        # The scatter is chosen for the law alone, so the description may be a little longer.
        assert gain == pytest.approx(without - place.cost, abs=1.0)


def test_runs_of_excluded_cells_the_longest_first_served():
    rng = np.random.default_rng(0)
    for _ in range(200):
        clean = rng.random(9) < 0.5
        present = np.arange(9) < rng.integers(5, 10)
        runs, run = [], []
        for k in range(10):
            if k < 9 and present[k] and not clean[k]:
                run.append(k)
            elif run:
                runs.append(run)
                run = []
        kept = sorted(sorted(runs, key=len, reverse=True)[:2])
        found = regions.members_of_runs(clean, present, 2)
        assert found.shape == (2, 9)
        expected = [*kept, [], []][:2]
        assert [np.flatnonzero(row).tolist() for row in found] == expected


def test_scatter_in_units_of_the_response():
    _, fits = fitted(7)
    each = sum(fits.rank) / sum(fits.num_rows)
    for position, scatter in enumerate(description.SCATTERS):
        expected = np.sqrt(scatter * np.mean(fits.variance) * each)
        assert regions.size_of_scatter(fits, np.int64(position)) == pytest.approx(expected)


def test_a_scattered_law_keeps_its_scatter():
    """Cells that all miss the law by a little, alike along the axis, are no place."""
    rng = np.random.default_rng(1)
    shifts = rng.normal(size=(NUM_CELLS, 2))

    def change(columns, cell):
        return np.sum(shifts[cell] * columns[:, 2:4], axis=1)

    _, fits = fitted(8, change)
    place = found_in(fits)
    assert np.exp(-place.gain) > 0.05
    assert description.SCATTERS[place.scatter_all] > 1


def test_traced_alike():
    _, fits = fitted(13, wrong(1, 2, 7, 8, 9, size=1.5))

    def every(fits, trusted):
        costs = description.prepare_costs(fits, 0.01)
        place = regions.find_place(fits, costs, trusted, PHYSICS)
        members = regions.members_of_runs(place.clean, fits.present, 3)
        gains = regions.gain_of_regions(fits, place, costs, trusted, members, PHYSICS)
        return place, members, gains, regions.size_of_scatter(fits, place.scatter)

    assert_traced_alike(every, fits, NOBODY)
