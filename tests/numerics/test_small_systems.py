import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.numerics import small_systems, tolerances

TOLERANCE = 1e-9


def rows(seed, num=30, size=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num, size)), rng.normal(size=num)


def solved(columns, response):
    return small_systems.solve_with_inverse(columns.T @ columns, columns.T @ response, TOLERANCE)


def plain(columns, response):
    return small_systems.solve(columns.T @ columns, columns.T @ response, TOLERANCE)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_without_the_inverse_the_rest_is_the_same(size):
    columns, response = rows(6, size=size)
    columns[:, size // 2] = 0
    whole, part = solved(columns, response), plain(columns, response)
    np.testing.assert_array_equal(part.solution, whole.solution)
    np.testing.assert_array_equal(part.independent, whole.independent)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_solutions_are_least_squares(size):
    columns, response = rows(0, size=size)
    found = solved(columns, response)
    np.testing.assert_allclose(found.solution, np.linalg.lstsq(columns, response)[0], rtol=1e-9)
    np.testing.assert_allclose(found.inverse, np.linalg.inv(columns.T @ columns), rtol=1e-9)
    assert found.independent.all()
    rank = plain(columns, response).rank
    assert rank == size
    assert rank.dtype == found.solution.dtype


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_dependent_columns_are_skipped_whatever_their_units(scale):
    columns, response = rows(1)
    columns[:, 2] = columns[:, 0] - 2 * columns[:, 1]
    columns *= np.array([1.0, scale, 1 / scale, scale])
    found = solved(columns, response)
    assert found.independent.tolist() == [True, True, False, True]
    kept = [0, 1, 3]
    units = np.array([1.0, scale, scale])
    expected = np.linalg.lstsq(columns[:, kept] / units, response)[0] / units
    np.testing.assert_allclose(found.solution[kept], expected, rtol=1e-7)
    assert found.solution[2] == 0
    assert not found.inverse[2].any()
    assert not found.inverse[:, 2].any()
    assert plain(columns, response).rank == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_rows_costs_no_digits(dtype):
    """Sums of products grow with the rows; a solution must not lose digits by their size."""
    columns, response = rows(5, num=1000)
    response = response + columns.sum(axis=1)
    gram, moment = columns.T @ columns, columns.T @ response
    expected = np.linalg.solve(gram, moment)
    for copies in (1.0, 1e3, 1e6):
        sums = ((copies * part).astype(dtype) for part in (gram, moment))
        found = small_systems.solve_with_inverse(*sums, tolerances.gram(dtype))
        error = 20 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(found.solution, expected, rtol=error)
        np.testing.assert_allclose(found.inverse @ gram * copies, np.eye(4), atol=error)


def test_zeros_are_dependent():
    columns, response = rows(2)
    columns[:, 1] = 0
    found = solved(columns, response)
    assert found.independent.tolist() == [True, False, True, True]
    assert np.isfinite(found.inverse).all()
    nothing = small_systems.solve(np.zeros((3, 3)), np.zeros(3), TOLERANCE)
    assert nothing.rank == 0
    assert not nothing.solution.any()


def test_columns_beyond_rounding_of_sums_count():
    """A column that differs from another by one part in a thousand is its own."""
    columns, response = rows(3)
    columns[:, 2] = columns[:, 0] + 1e-3 * columns[:, 2]
    assert solved(columns, response).independent.all()
    narrow = columns.astype(np.float32)
    gram, moment = narrow.T @ narrow, narrow.T @ response.astype(np.float32)
    found = small_systems.solve(gram, moment, tolerances.gram(np.float32))
    assert found.independent.tolist() == [True, True, False, True]
    assert found.solution.dtype == np.float32


def test_elimination_gives_coordinates_in_an_orthonormal_basis():
    columns, _ = rows(4, size=6)
    columns[:, 1] = 3 * columns[:, 0]
    allowed = np.array([True, True, True, False])
    found = small_systems.eliminate(columns.T @ columns, 4, allowed, TOLERANCE)
    assert found.independent.tolist() == [True, False, True, False]
    basis = columns[:, [0, 2]]
    rest = columns - basis @ np.linalg.lstsq(basis, columns)[0]
    inside = columns - rest
    coordinates = found.coordinates
    np.testing.assert_allclose(coordinates.T @ coordinates, inside.T @ inside, atol=1e-9)
    np.testing.assert_allclose(found.rest, rest.T @ rest, atol=1e-9)
    assert not coordinates[[1, 3]].any()
    basis, _ = np.linalg.qr(columns[:, [0, 2]])
    for own, direction in zip(coordinates[[0, 2]], basis.T, strict=True):
        np.testing.assert_allclose(abs(own), abs(direction @ columns), atol=1e-9)


def test_traced_and_in_batches_alike():
    tables = [rows(seed) for seed in range(3)]
    tables[1][0][:, 2] = tables[1][0][:, 1]
    gram = np.stack([columns.T @ columns for columns, _ in tables])
    moment = np.stack([columns.T @ response for columns, response in tables])

    def every(gram, moment):
        allowed = jnp.ones(2, bool)
        return (
            small_systems.solve_with_inverse(gram, moment, TOLERANCE),
            small_systems.eliminate(gram, 2, allowed, TOLERANCE),
        )

    batch = jax.jit(every)(jax.device_put(gram), jax.device_put(moment))
    host = (
        small_systems.solve_with_inverse(gram, moment, TOLERANCE),
        small_systems.eliminate(gram, 2, np.ones(2, bool), TOLERANCE),
    )
    for b in range(3):
        one = (
            small_systems.solve_with_inverse(gram[b], moment[b], TOLERANCE),
            small_systems.eliminate(gram[b], 2, np.ones(2, bool), TOLERANCE),
        )
        for whole, single in zip(jax.tree.leaves(host), jax.tree.leaves(one), strict=True):
            np.testing.assert_allclose(whole[b], single, atol=1e-12)
    jax.tree.map(
        lambda left, right: np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-11),
        batch,
        host,
    )
