import numpy as np
import pytest
import scipy.stats
from brute_force_default import fit, two_sided
from cell_data import assert_traced_alike, cell_rows

from lisdd_jax.default import exactness
from lisdd_jax.default.local_fits import fit_every_cell

SIZES = (20, 14, 25, 18, 23)
PHYSICS = slice(2, 4)


def fitted(rows):
    return fit_every_cell(rows.gram, rows.count, 0.0, 2, np.bool_(True))[:2]


def judge(rows, inflation=1.0, floor=0.0):
    fits, noise = fitted(rows)
    return exactness.test_exactness(rows.gram, fits, noise, 2, inflation, floor)


def change(columns, cell):
    return np.where((cell == 1) | (cell == 2), 1.2 * columns[:, 4], 0.0)


def added(rows, weight, direction, run):
    """Weighted least squares with and without a direction in a run: drop, effect, laws."""
    root = np.sqrt(weight[rows.cell])[:, None]
    inside = np.isin(rows.cell, run)
    column = np.where(inside, rows.columns[:, direction], 0.0)
    design = rows.columns[:, PHYSICS]
    response = rows.columns[:, -1] * root[:, 0]
    law, left = fit(design * root, response)
    more, rest = fit(np.column_stack([design, column]) * root, response)
    return np.sum(left**2) - np.sum(rest**2), more[-1], law, more[:-1]


def is_run(first, end):
    """Runs that hold six rows and a fiftieth of all, and leave as many or none."""
    rows = sum(SIZES[first:end])
    least = max(6, 0.02 * sum(SIZES))
    return rows >= least and (sum(SIZES) - rows >= least or rows == sum(SIZES))


def test_scores_are_what_a_column_gains_in_least_squares():
    rows = cell_rows(3, SIZES, noise=(1.0, 0.5, 2.0, 1.0, 1.5), change=change)
    weight = np.array([1.0, 4.0, 0.25, 1.0, 0.4])
    found = exactness.scores(rows.gram, rows.count, weight, PHYSICS)
    for first in range(len(SIZES)):
        for end in range(first + 1, len(SIZES) + 1):
            for direction in range(6):
                if direction in (2, 3) and end - first == len(SIZES):
                    assert found.square[direction, first, end] == 0
                    continue
                gain, effect, *_ = added(rows, weight, direction, range(first, end))
                assert found.square[direction, first, end] == pytest.approx(gain, rel=1e-7)
                assert found.effect[direction, first, end] == pytest.approx(effect, rel=1e-7)
    assert not found.square[:, np.tri(6, dtype=bool)].any()


def test_runs_of_a_few_rows_are_not_scored():
    sizes = (20, 5, 25, 6, 20)
    rows = cell_rows(3, sizes)
    found = exactness.scores(rows.gram, rows.count, np.ones(5), PHYSICS).square
    assert not found[:, 1, 2].any()
    assert found[:, 3, 4].all()


@pytest.mark.parametrize(
    "degrees, excess", [(5, 0.13), (10, 0.075), (30, 0.026), (100, 0.005), (500, 0.001)]
)
def test_tail_of_students_t(degrees, excess):
    for statistic in np.linspace(0.1, 8.0, 40):
        found = exactness.log_two_sided(np.float64(statistic**2), np.float64(degrees))
        ratio = np.exp(found - two_sided(statistic, degrees))
        assert 0.998 <= ratio <= 1 + excess


def largest(rows, weight, directions, runs):
    best = (0.0, None, None)
    for direction in directions:
        for first, end in runs:
            if direction in (2, 3) and end - first == len(SIZES):
                continue
            gain = added(rows, weight, direction, range(first, end))[0]
            best = max(best, (gain, direction, (first, end)), key=lambda one: one[0])
    return best


@pytest.mark.parametrize("inflation", [1.0, 1.7])
@pytest.mark.parametrize("wrong", [None, change])
def test_the_largest_score_pays_for_its_search(wrong, inflation):
    rows = cell_rows(4, SIZES, change=wrong)
    _, noise = fitted(rows)
    weight, degrees = 1 / noise.steady, sum(noise.degrees)
    runs = [(a, b) for a in range(5) for b in range(a + 1, 6) if is_run(a, b)]
    changes = [(a, b) for a, b in runs if a == 0 or b == 5]
    families = [
        (largest(rows, weight, range(4), changes), 4 * 1.1 * 5**0.8 / 0.3),
        (largest(rows, weight, range(4), runs), 4 * 5**1.5 / 0.4),
        (largest(rows, weight, (4, 5), runs), 2 * 5**1.5 / 0.2),
    ]
    expected = min(
        two_sided(np.sqrt(best[0] / inflation), degrees) + np.log(trials)
        for best, trials in families
    )
    found = judge(rows, inflation)
    # Wallace's approximation of the tail is good to 2.6 % here.
    assert found.log_p_value == pytest.approx(min(expected, 0), abs=0.026)
    assert judge(rows).log_p_value == pytest.approx(found.independent, abs=1e-12)
    gain, direction, run = max((best for best, _ in families), key=lambda one: one[0])
    assert found.statistic == pytest.approx(gain / inflation, rel=1e-7)
    assert (found.first, found.end) == run


def at_upper_limit(shift, gain, log_p):
    """``(1 - p) (1 + 1.645 / |z|)^2 s s'`` of section 3.5."""
    limit = 1 + 1.645 / np.sqrt(max(gain, 1))
    return (1 - np.exp(min(log_p, 0))) * limit**2 * np.outer(shift, shift)


@pytest.mark.parametrize("size", [0.0, 0.25])
def test_what_was_not_noticed_is_told_of_every_direction(size):
    rows = cell_rows(4, SIZES, change=lambda columns, cell: size * change(columns, cell))
    fits, noise = fitted(rows)
    weight, degrees = 1 / noise.steady, sum(noise.degrees)
    runs = [(a, b) for a in range(5) for b in range(a + 1, 6) if is_run(a, b)]
    changes = [(a, b) for a, b in runs if a == 0 or b == 5]
    expected, counted = np.zeros((2, 2)), 0
    for j in range(6):
        families = [(runs, 2 * 5**1.5 / 0.2)]
        if j < 4:
            families = [(changes, 4 * 1.1 * 5**0.8 / 0.3), (runs, 4 * 5**1.5 / 0.4)]
        nearest = []
        for among, trials in families:
            gain, _, run = largest(rows, weight, [j], among)
            # The approximation of the tail has a test of its own.
            log_p = exactness.log_two_sided(np.float64(gain), degrees) + np.log(trials)
            nearest.append((log_p, gain, run))
        log_p, gain, run = min(nearest)
        _, _, law, without = added(rows, weight, j, range(*run))
        expected += at_upper_limit(law - without, gain, log_p)
        counted += log_p < 0
    broken = exactness.fit_breaks(rows.gram, rows.count, weight, PHYSICS)
    whole = exactness._largest_break(broken, fits, 0.0, 1.0)
    found = judge(rows).unnoticed
    np.testing.assert_allclose(found, expected + whole.unnoticed, rtol=1e-6, atol=1e-12)
    assert counted > 0


def test_a_change_of_the_whole_law_is_seen():
    """Many coefficients change a little, which no single direction shows."""
    sizes = (40,) * 6
    signs = np.array([1, -1, 1, 1, -1, 1, -1, -1])

    def changed(columns, cell):
        return np.where(cell >= 4, 0.45 * columns[:, 2:10] @ signs, 0.0)

    rows = cell_rows(0, sizes, num_physics=8, change=changed)
    fits, noise = fit_every_cell(rows.gram, rows.count, 0.0, 8, np.bool_(True))[:2]
    found = exactness.test_exactness(rows.gram, fits, noise, 8, 1.0, 0.0)
    physics, weight = slice(2, 10), 1 / noise.steady
    single = exactness.scores(rows.gram, rows.count, weight, physics).square.max()
    assert found.statistic > single
    assert (found.first, found.end) == (4, 6)
    root = np.sqrt(weight[rows.cell])
    design, response = rows.columns[:, physics] * root[:, None], rows.columns[:, -1] * root
    before, after = rows.cell < 4, rows.cell >= 4
    law, left = fit(design, response)
    (early, rest), (_, other) = (fit(design[part], response[part]) for part in (before, after))
    degrees = sum(sizes) - 16
    noise_left = np.sum(rest**2) + np.sum(other**2)
    ratio = (np.sum(left**2) - noise_left) / 8 / (noise_left / degrees)
    expected = scipy.stats.f.logsf(ratio, 8, degrees) + np.log(5 / 0.1)
    assert found.log_p_value < np.log(1e-4)
    assert expected - 1e-9 <= found.log_p_value < 0.75 * expected
    broken = exactness.fit_breaks(rows.gram, rows.count, weight, physics)
    told = exactness._largest_break(broken, fits, 0.0, 1.0)
    unnoticed = at_upper_limit(law - early, told.statistic, told.log_p)
    np.testing.assert_allclose(told.unnoticed, unnoticed, rtol=1e-7)


def test_copies_and_zeros_are_no_directions():
    rows = cell_rows(5, SIZES, num_terms=4)
    columns = rows.columns.copy()
    columns[:, 4], columns[:, 5], columns[:, 6] = -3 * columns[:, 1], 0.0, 2 * columns[:, 7]
    gram = np.array([columns[rows.cell == k].T @ columns[rows.cell == k] for k in range(5)])
    found = exactness.distinct_directions(gram)
    assert found.tolist() == [True, True, True, True, False, False, True, False]


def test_a_discrepancy_of_the_floor_does_not_count():
    def level(columns, cell):
        return np.where(cell >= 3, 1.0, 0.0)

    rows = cell_rows(6, (80, 70, 90, 80, 80), change=level)
    assert judge(rows).log_p_value < np.log(1e-4)
    assert judge(rows, floor=1.0).log_p_value == 0
    assert judge(rows, floor=0.2).log_p_value > judge(rows).log_p_value


@pytest.mark.parametrize("unequal", [False, True])
def test_exact_laws_are_rejected_at_most_at_the_level(unequal):
    """Equation 26 on 200 tables, within five standard errors of the level."""
    num = 200
    noise = np.geomspace(0.3, 3.0, 12) if unequal else None
    rejected = 0
    for seed in range(num):
        found = judge(cell_rows(2000 + seed, (25,) * 12, noise=noise))
        rejected += np.exp(found.log_p_value) < 0.05
    assert rejected / num <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / num)


def test_traced_alike():
    rows = cell_rows(4, SIZES, change=change)
    fits, noise = fitted(rows)

    def every(gram, fits, noise, inflation):
        weight = 1 / noise.steady
        return (
            exactness.test_exactness(gram, fits, noise, 2, inflation, 0.01),
            exactness.scores(gram, fits.num_rows, weight, PHYSICS),
        )

    assert_traced_alike(every, rows.gram, fits, noise, np.float64(1.3))
