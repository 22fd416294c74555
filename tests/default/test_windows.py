import numpy as np
import pytest
from brute_force_default import SCATTERS, Cells
from cell_data import cell_rows

from lisdd_jax.default import description, windows
from lisdd_jax.default.local_fits import fit_every_cell

NUM_CELLS = 6
PHYSICS = slice(2, 4)


def test_windows_leave_out_every_run_of_cells_round_the_end():
    for num in (2, 5, 8):
        expected = {tuple([True] * num)}
        for first in range(num):
            for length in range(1, -(-3 * num // 4) + 1):
                out = {(first + i) % num for i in range(length)}
                if num - len(out) >= 2:
                    expected.add(tuple(k not in out for k in range(num)))
        found = [tuple(row) for row in windows.clean_windows(num).tolist()]
        assert set(found) == expected
        assert len(found) == len(expected)
        assert found[0] == tuple([True] * num)


def runs_of(cells):
    """Runs of consecutive cells."""
    parts = []
    for k in sorted(cells):
        if parts and parts[-1][-1] == k - 1:
            parts[-1].append(k)
        else:
            parts.append([k])
    return parts


@pytest.mark.parametrize("seed", [0, 1])
def test_screening_costs_are_those_of_loops_over_rows(seed):
    """The law's scatter is the best of the clean cells; what is out costs the least of three."""

    def change(columns, cell):
        return np.where(cell == 2, 2 * columns[:, 2], 0.0)

    rows = cell_rows(seed, (25,) * NUM_CELLS, change=change)
    fits = fit_every_cell(rows.gram, rows.count, 0.0, 2, np.bool_(True))[0]
    costs = description.prepare_costs(fits, 0.0)
    sets = windows.clean_windows(NUM_CELLS)
    inside = sets.astype(float)
    laws = description.fit_law(fits, costs.weight, inside, PHYSICS)
    found, scatters = windows.screen(fits, costs, inside, laws.theta, PHYSICS)
    own = [rows.columns[rows.cell == k] for k in range(NUM_CELLS)]
    cells = Cells(
        [part[:, :4] for part in own], [part[:, -1] for part in own], fits.variance, PHYSICS
    )
    for position in (0, 3, 9, len(sets) - 1):
        theta = cells.law_of(np.flatnonzero(sets[position]))
        kept, out = np.flatnonzero(sets[position]), np.flatnonzero(~sets[position])
        clean = [sum(cells.cost_of_law(k, theta, t) for k in kept) for t in range(len(SCATTERS))]
        best = int(np.argmin(clean))
        expected = clean[best]
        if len(out):
            total = np.log(sum(cells.rows)) / 2
            before = np.log(sum(cells.rows[k] for k in out)) / 2
            changed = cells.changed(out, theta, best) - before + total
            lawful = sum(cells.own_law(run, best) for run in runs_of(out))
            expected += min(cells.own_scatter(out, theta), changed, lawful)
        assert scatters[position] == best
        assert found[position] == pytest.approx(expected, rel=1e-9)


def test_seeds_are_the_best_windows_and_their_rivals():
    sets = windows.clean_windows(8).astype(float)
    rows = np.full(8, 20.0)
    cost = 100.0 + np.arange(len(sets))

    def leaving(*cells):
        clean = ~np.isin(np.arange(8), cells)
        return int(np.flatnonzero((sets == clean).all(1))[0])

    best, rival, other = leaving(2, 3, 4), leaving(0, 1, 5, 6, 7), leaving(6, 7)
    cost[best], cost[rival], cost[other] = 0.0, 1.0, 2.0
    found = windows.choose_seeds(cost, sets, rows).astype(bool)
    np.testing.assert_array_equal(found[0], np.ones(8, bool))
    np.testing.assert_array_equal(found[1:4], sets[[best, rival, other]].astype(bool))
    # Without the cells beside what they leave out; the axis is taken as a ring.
    assert np.flatnonzero(found[4]).tolist() == [0, 6, 7]
    assert np.flatnonzero(found[5]).tolist() == [3]
    np.testing.assert_array_equal(found[6], np.ones(8, bool))
