import numpy as np
import pytest
from brute_force_default import SCATTERS, Cells, in_directions
from cell_data import assert_traced_alike, cell_rows

from lisdd_jax.default import description
from lisdd_jax.default.local_fits import fit_every_cell

SIZES = (30, 24, 41, 28, 33)
LAWS = np.array([[0.7, -0.4], [0.2, 0.1], [-0.5, 0.9]])
POSITIONS = np.array([0, 3, 7])


def changed(columns, cell):
    """A change of one coefficient, one of all, and one of the level, in neighbouring cells."""
    change = np.where(cell == 1, 1.5 * columns[:, 2], 0.0)
    change = np.where(cell == 3, columns[:, :4] @ [2.0, 1.0, -1.0, 1.0], change)
    return np.where(cell == 4, 0.8 - 0.5 * columns[:, 3], change)


TABLES = {
    "sound": {},
    "changed": {"change": changed},
    "loud": {"noise": (1.0, 6.0, 0.3, 1.0, 2.0)},
    "levels": {"change": changed},
}


def make(name):
    """The library's fits of cells, the same cells by loops, and the columns of the law."""
    rows = cell_rows(1, SIZES, **TABLES[name])
    full = np.bool_(name != "levels")
    fits = fit_every_cell(rows.gram, rows.count, 0.0, 2, full)[0]
    size = rows.layout.num_directions
    own = [rows.columns[rows.cell == k] for k in range(len(SIZES))]
    columns = [part[:, :size] for part in own]
    levels = None if full else [part[:, :1] for part in columns]
    responses = [part[:, -1] for part in own]
    cells = Cells(columns, responses, fits.variance, rows.layout.physics, levels)
    return fits, cells, rows.layout.physics


@pytest.fixture(scope="module", params=TABLES)
def table(request):
    return make(request.param)


def described(fits, barred, physics, theta=LAWS, position=POSITIONS):
    costs = description.prepare_costs(fits, 0.0)
    run_cost = description.cost_of_runs(fits, barred)
    return description.describe_cells(fits, costs, run_cost, theta, position, physics)


def nobody(num=3):
    return np.zeros((num, len(SIZES)), bool)


def test_scatters():
    np.testing.assert_allclose(description.SCATTERS, SCATTERS)


def test_best_division_of_all(table):
    fits, cells, physics = table
    found = described(fits, nobody(), physics)
    for b, (theta, position) in enumerate(zip(LAWS, POSITIONS, strict=True)):
        cost, clean, rows = cells.describe(theta, position)
        assert found.cost[b] == pytest.approx(cost, rel=1e-9)
        assert np.flatnonzero(found.clean[b]).tolist() == clean
        assert found.law_rows[b] == rows
        largest = sum(size for size, own in zip(SIZES, found.largest[b], strict=True) if own)
        assert largest == rows
        assert not (found.largest[b] & found.clean[b]).any()


def test_barred_cells_stay_in_the_law(table):
    fits, cells, physics = table
    barred = nobody()
    barred[:, [1, 3]] = True
    found = described(fits, barred, physics)
    for b, (theta, position) in enumerate(zip(LAWS, POSITIONS, strict=True)):
        cost, clean, _ = cells.describe(theta, position, barred=(1, 3))
        assert found.cost[b] == pytest.approx(cost, rel=1e-9)
        assert np.flatnonzero(found.clean[b]).tolist() == clean
        assert found.clean[b, [1, 3]].all()


def test_cost_of_runs_with_a_law_of_their_own(table):
    fits, cells, _ = table
    costs = description.prepare_costs(fits, 0.0)
    for first in range(len(SIZES)):
        for end in range(first + 1, len(SIZES) + 1):
            for position in (0, 5, 15):
                expected = cells.own_law(range(first, end), position)
                found = costs.own_law[position, first, end]
                assert found == pytest.approx(expected, rel=1e-8)
            assert costs.rows[first, end] == sum(SIZES[first:end])


def test_parts_of_the_cost(table):
    fits, cells, _ = table
    least = 0.05
    costs = description.prepare_costs(fits, least)
    mean = sum(SIZES) / len(SIZES)
    for k, size in enumerate(SIZES):
        assert costs.weight[k] == pytest.approx(1 / fits.variance[k])
        for position, scatter in enumerate(SCATTERS):
            v = 1 + (scatter + least) * size / mean
            assert costs.precision[k, position] == pytest.approx(1 / (fits.variance[k] * v))
            assert costs.spread[k, position] == pytest.approx(fits.rank[k] * np.log(v) / 2)
        squares = np.sum(cells.columns[k] ** 2, axis=0)
        np.testing.assert_allclose(costs.direction_squares[k], squares, rtol=1e-9)


def test_runs_pay_for_their_place_and_leave_a_quarter(table):
    fits, _, _ = table
    found = description.cost_of_runs(fits, nobody(1))[0]
    for first in range(len(SIZES) + 1):
        for end in range(len(SIZES) + 1):
            rows = sum(SIZES[first:end])
            allowed = 0 < rows <= 0.75 * sum(SIZES)
            expected = 1 + np.log(len(SIZES)) if allowed else np.inf
            assert found[first, end] == pytest.approx(expected)


def test_law_of_some_cells_is_weighted_least_squares(table):
    fits, cells, physics = table
    sets = [(0, 1, 2, 3, 4), (0, 2), (1, 3, 4)]
    clean = np.array([[k in chosen for k in range(len(SIZES))] for chosen in sets])
    weight = description.prepare_costs(fits, 0.0).weight
    found = description.fit_law(fits, weight, clean, physics)
    assert found.determined.all()
    for theta, chosen in zip(found.theta, sets, strict=True):
        np.testing.assert_allclose(theta, cells.law_of(chosen), rtol=1e-9)
    nothing = description.fit_law(fits, weight, clean & False, physics)
    assert not nothing.determined.any()


def test_gaps_and_products_with_the_residual(table):
    fits, cells, physics = table
    own, rest = description.misfit(fits, LAWS, physics)
    products = description.moments(fits, LAWS, physics)
    for b, theta in enumerate(LAWS):
        for k in range(len(SIZES)):
            residual = cells.residual(k, theta)
            gap = in_directions(cells.directions[k], residual)
            np.testing.assert_allclose([own[b, k], rest[b, k]], gap, rtol=1e-8)
            np.testing.assert_allclose(
                products[b, k], cells.columns[k].T @ residual, rtol=1e-9, atol=1e-9
            )


def test_scatter_of_a_law_is_the_cheapest(table):
    fits, cells, physics = table
    clean = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 1, 0, 1, 1]], bool)
    costs = description.prepare_costs(fits, 0.0)
    found = description.scatter_of(fits, costs, LAWS, clean, physics)
    for b, theta in enumerate(LAWS):
        chosen = np.flatnonzero(clean[b])
        each = [
            sum(cells.cost_of_law(k, theta, position) for k in chosen)
            for position in range(len(SCATTERS))
        ]
        assert found[b] == np.argmin(each)


def test_empty_cells_cost_nothing():
    sizes = (*SIZES, 0)
    rows = cell_rows(1, sizes, change=changed)
    fits = fit_every_cell(rows.gram, rows.count, 0.0, 2, np.bool_(True))[0]
    less = fits._replace(**{name: getattr(fits, name)[:-1] for name in fits._fields})
    found = described(fits, np.zeros((3, 6), bool), rows.layout.physics)
    expected = described(less, nobody(), rows.layout.physics)
    np.testing.assert_allclose(found.cost, expected.cost, rtol=1e-12)
    np.testing.assert_array_equal(found.clean[:, :-1], expected.clean)


def test_traced_alike():
    fits, _, physics = make("changed")

    def every(fits, barred, theta, position):
        costs = description.prepare_costs(fits, 0.01)
        run_cost = description.cost_of_runs(fits, barred)
        found = description.describe_cells(fits, costs, run_cost, theta, position, physics)
        law = description.fit_law(fits, costs.weight, found.clean, physics)
        again = description.scatter_of(fits, costs, theta, found.clean, physics)
        return costs, found, law, again

    assert_traced_alike(every, fits, nobody(), LAWS, POSITIONS)
