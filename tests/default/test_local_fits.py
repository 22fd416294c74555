import numpy as np
import pytest
from brute_force_default import fit, rank_of, residual_sum
from cell_data import assert_traced_alike, cell_rows

from lisdd_jax.default import local_fits

SIZES = (30, 24, 41, 0, 28)
FLOOR = 1e-6


@pytest.fixture(scope="module", params=[False, True], ids=["free", "constant"])
def table(request):
    """Cells, one of them empty; with a constant in the physics the level is there twice."""
    noise = (1.0, 0.5, 2.0, 1.0, 0.1)
    return cell_rows(0, SIZES, noise=noise, constant=request.param)


def fitted(table, full):
    size = table.layout.num_physics
    return local_fits.fit_every_cell(table.gram, table.count, FLOOR, size, np.bool_(full))


def parts(table, k):
    """Directions, terms and response of a cell."""
    own = table.columns[table.cell == k]
    size = table.layout.num_directions
    return own[:, :size], own[:, table.layout.terms], own[:, -1]


def assert_spans(local, directions, columns):
    """Coordinates in a basis of some directions: it is free, what it says of products is not."""
    projected = np.column_stack([part - fit(directions, part)[1] for part in columns.T])
    np.testing.assert_allclose(local.T @ local, projected.T @ projected, rtol=1e-9, atol=1e-9)


def expected_variance(squares, degrees, lent):
    pooled = sum(squares) / sum(degrees)
    return [
        (lent * pooled + square) / (lent + own) + FLOOR
        for square, own in zip(squares, degrees, strict=True)
    ]


def test_full_cells_are_fitted_by_least_squares(table):
    fits, noise, beyond = fitted(table, True)
    squares, degrees = np.zeros(len(SIZES)), np.zeros(len(SIZES))
    for k, num in enumerate(SIZES):
        if num == 0:
            continue
        directions, terms, response = parts(table, k)
        rank = rank_of(directions)
        squares[k], degrees[k] = residual_sum(directions, response), num - rank
        assert fits.rank[k] == rank
        assert_spans(fits.local[k], directions, np.column_stack([directions, response]))
        left = fit(directions, response)[1]
        for j, term in enumerate(terms.T):
            other = fit(directions, term)[1]
            assert beyond.square[k, j] == pytest.approx(other @ other, rel=1e-9)
            assert beyond.score[k, j] == pytest.approx(other @ left, rel=1e-8)
    np.testing.assert_array_equal(fits.present, np.array(SIZES) > 0)
    np.testing.assert_allclose(noise.degrees, degrees)
    np.testing.assert_allclose(noise.pooled, sum(squares) / sum(degrees))
    np.testing.assert_allclose(noise.own, squares / np.maximum(degrees, 1), rtol=1e-9)
    np.testing.assert_allclose(fits.variance, expected_variance(squares, degrees, 2), rtol=1e-9)
    np.testing.assert_allclose(noise.steady, expected_variance(squares, degrees, 8), rtol=1e-9)


def test_small_cells_show_their_level_and_share_slopes(table):
    fits, noise, beyond = fitted(table, False)
    centred = {k: parts(table, k) for k, num in enumerate(SIZES) if num}
    centred = {
        k: [part - part.mean(axis=0) for part in (own[0][:, 2:], own[1], own[2])]
        for k, own in centred.items()
    }
    physics, response = (np.concatenate([own[i] for own in centred.values()]) for i in (0, 2))
    slopes, rank = fit(physics, response)[0], np.linalg.matrix_rank(physics)
    squares, degrees = np.zeros(len(SIZES)), np.zeros(len(SIZES))
    for k, (physics, terms, response) in centred.items():
        left = response - physics @ slopes
        squares[k] = left @ left
        degrees[k] = SIZES[k] - 1 - rank * SIZES[k] / sum(SIZES)
        assert fits.rank[k] == 1
        directions, _, plain = parts(table, k)
        assert_spans(fits.local[k], np.ones((SIZES[k], 1)), np.column_stack([directions, plain]))
        np.testing.assert_allclose(beyond.score[k], terms.T @ left, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(beyond.square[k], np.sum(terms**2, axis=0), rtol=1e-9)
    np.testing.assert_allclose(noise.degrees, degrees)
    np.testing.assert_allclose(fits.variance, expected_variance(squares, degrees, 2), rtol=1e-9)


def test_dependent_rows_tell_less_of_the_noise(table):
    """Of rows that are there three times, and count as one in threes, scores borrow three times."""
    thrice = local_fits.fit_every_cell(
        3 * table.gram, 3 * table.count, FLOOR, 2, np.bool_(True), 1.0, 3.0
    )
    once = fitted(table, True)
    rank, count = once[0].rank, np.array(SIZES)
    squares = 3 * once[1].own * np.maximum(count - rank, 1)
    degrees = np.where(count > 0, np.maximum(3 * count - rank, 1), 0)
    np.testing.assert_allclose(
        thrice[1].steady, expected_variance(squares, degrees, 3 * 8), rtol=1e-9
    )
    np.testing.assert_allclose(
        thrice[0].variance, expected_variance(squares, degrees, 2), rtol=1e-9
    )
    np.testing.assert_allclose(thrice[1].degrees, degrees / 3, rtol=1e-12)


def test_a_term_that_a_cell_spans_adds_nothing(table):
    columns = table.columns.copy()
    columns[:, 4] = 2 * columns[:, 1] - columns[:, 3]
    gram = np.array([columns[table.cell == k].T @ columns[table.cell == k] for k in range(5)])
    beyond = fitted(table._replace(gram=gram), True)[2]
    np.testing.assert_array_equal(beyond.square[:, 0], 0)
    np.testing.assert_array_equal(beyond.score[:, 0], 0)
    assert (beyond.square[np.array(SIZES) > 0, 1] > 0).all()


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("term", [0, 1])
def test_a_term_joins_the_columns_and_in_full_cells_the_directions(table, full, term):
    fits = fitted(table, full)[0]
    size = table.layout.num_physics

    def wider(used):
        return local_fits.add_direction(
            fits, table.gram, np.int64(term), np.bool_(used), np.bool_(full), size
        )

    found, same = wider(True), wider(False)
    for k, num in enumerate(SIZES):
        if num == 0:
            continue
        directions, terms, response = parts(table, k)
        joined = np.column_stack([directions, terms[:, term]])
        columns = np.column_stack([joined, response])
        np.testing.assert_allclose(found.gram[k], columns.T @ columns, rtol=1e-9, atol=1e-9)
        own = joined if full else np.ones((num, 1))
        assert_spans(found.local[k], own, columns)
        assert found.rank[k] == rank_of(own)
        zero = np.column_stack([directions, np.zeros(num), response])
        assert_spans(same.local[k], directions if full else own, zero)
        assert same.rank[k] == fits.rank[k]
    np.testing.assert_array_equal(found.variance, fits.variance)


def test_spans_are_sums_over_runs():
    values = np.random.default_rng(1).normal(size=(2, 6))
    found = local_fits.spans(values)
    for first in range(7):
        for end in range(first, 7):
            expected = [sum(row[first:end]) for row in values]
            np.testing.assert_allclose(found[:, first, end], expected, atol=1e-12)


def test_traced_alike(table):
    size = table.layout.num_physics

    def every(gram, count, full, term):
        found = local_fits.fit_every_cell(gram, count, FLOOR, size, full)
        wider = local_fits.add_direction(found[0], gram, term, full, full, size)
        return found, wider, local_fits.spans(count)

    assert_traced_alike(every, table.gram, table.count, np.bool_(True), np.int64(1))
