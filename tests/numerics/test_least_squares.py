import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lisdd_jax.numerics import frame, least_squares, normal_equations

DTYPES = [np.float32, np.float64]
NUM = 40
fit = jax.jit(least_squares.least_squares)
whiten = jax.jit(frame.whiten)
compress = jax.jit(least_squares.compress)
sweep = jax.jit(normal_equations.sweep)
to_basis = jax.jit(frame.Frame.to_basis)
center_response = jax.jit(frame.Frame.center_response)
coefficients_of = jax.jit(frame.Frame.coefficients)
solution_of = jax.jit(frame.Frame.solution)
covariance_of = jax.jit(frame.Frame.covariance)


def problem(seed: int, num: int = NUM) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(num), rng.normal(size=(num, 2))])
    return design, design @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=num)


# NIST Statistical Reference Datasets, Longley (1967), certified values; condition number 5e9.
LONGLEY = np.array(
    """60323 83.0 234289 2356 1590 107608 1947  61122 88.5 259426 2325 1456 108632 1948
    60171 88.2 258054 3682 1616 109773 1949  61187 89.5 284599 3351 1650 110929 1950
    63221 96.2 328975 2099 3099 112075 1951  63639 98.1 346999 1932 3594 113270 1952
    64989 99.0 365385 1870 3547 115094 1953  63761 100.0 363112 3578 3350 116219 1954
    66019 101.2 397469 2904 3048 117388 1955  67857 104.6 419180 2822 2857 118734 1956
    68169 108.4 442769 2936 2798 120445 1957  66513 110.8 444546 4681 2637 121950 1958
    68655 112.6 482704 3813 2552 123366 1959  69564 114.2 502601 3931 2514 125368 1960
    69331 115.7 518173 4806 2572 127852 1961  70551 116.9 554894 4007 2827 130081 1962""".split(),
    float,
).reshape(16, 7)
LONGLEY_COEFFICIENTS = [
    -3482258.63459582,
    15.0618722713733,
    -0.358191792925910e-01,
    -2.02022980381683,
    -1.03322686717359,
    -0.511041056535807e-01,
    1829.15146461355,
]
LONGLEY_DEVIATION = 304.854073561965


def test_longley_by_the_orthogonal_factor():
    design = np.column_stack([np.ones(16), LONGLEY[:, 1:]])
    found = fit(design, LONGLEY[:, 0])
    assert found.independent.all()
    # Rounding of the data alone moves the answer by eps times the condition number.
    np.testing.assert_allclose(found.coefficients, LONGLEY_COEFFICIENTS, rtol=1e-7)
    assert np.sqrt(found.residual_sum / 9) == pytest.approx(LONGLEY_DEVIATION, rel=1e-9)


def test_longley_in_a_frame():
    """Sums of products in the basis lose nothing, though those of the columns would."""
    design, response = np.column_stack([np.ones(16), LONGLEY[:, 1:]]), LONGLEY[:, 0]
    change = whiten(design, response, np.ones(16, bool))
    basis = np.asarray(to_basis(change, design))
    centered = np.asarray(center_response(change, design, response))
    swept = sweep(basis.T @ basis, basis.T @ centered)
    np.testing.assert_allclose(
        coefficients_of(change, swept.solution), LONGLEY_COEFFICIENTS, rtol=1e-7
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_numpy_on_the_rows_in_use(dtype):
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for seed in range(5):
        design, response = problem(seed)
        mask = np.random.default_rng(seed).random(NUM) < 0.8
        design[~mask], response[~mask] = np.nan, np.nan
        expected, squares, *_ = np.linalg.lstsq(design[mask], response[mask])
        found = fit(design.astype(dtype), response.astype(dtype), mask)
        assert found.coefficients.dtype == dtype
        np.testing.assert_allclose(found.coefficients, expected, rtol=tolerance)
        np.testing.assert_allclose(found.residual_sum, squares[0], rtol=10 * tolerance)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(-30, 30), min_size=3, max_size=3),
    st.floats(-30, 30),
    st.integers(0, 2**32 - 1),
)
def test_units_and_row_order_do_not_matter(powers, response_power, seed):
    design, response = problem(1)
    expected = fit(design, response).coefficients
    units = 10.0 ** np.array(powers)
    order = np.random.default_rng(seed).permutation(NUM)
    found = fit((design * units)[order], (response * 10.0**response_power)[order])
    assert found.independent.all()
    np.testing.assert_allclose(
        np.asarray(found.coefficients) * units / 10.0**response_power, expected, rtol=1e-11
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_an_offset_only_moves_the_intercept(offset, response_offset):
    design, response = problem(2)
    expected = np.asarray(fit(design, response).coefficients)
    shifted = design + np.array([0.0, offset, 0.0])
    found = np.asarray(fit(shifted, response + response_offset).coefficients)
    # The offset data themselves are rounded, by eps times the offset.
    rounding = 2**-52 * (abs(offset) + abs(response_offset))
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-11, atol=1e3 * rounding)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "columns, independent",
    [
        ((0, 1, 1), (True, True, False)),
        ((1, 1, 0), (True, False, True)),
        ((0, None, 1), (True, False, True)),
        ((None, None, None), (False, False, False)),
    ],
)
def test_a_dependent_column_is_named_and_left_out(columns, independent, dtype):
    design, response = (array.astype(dtype) for array in problem(3))
    built = np.column_stack([np.zeros(NUM) if j is None else design[:, j] for j in columns])
    built[:, 2] *= 1 if columns[2] is None else -3
    found = fit(built.astype(dtype), response)
    assert tuple(found.independent.tolist()) == independent
    kept = np.flatnonzero(independent)
    coefficients = np.asarray(found.coefficients)
    assert not np.delete(coefficients, kept).any()
    if kept.size:
        expected = np.linalg.lstsq(built[:, kept], response)[0]
        np.testing.assert_allclose(coefficients[kept], expected, rtol=1e-4)
    else:
        assert found.residual_sum == pytest.approx(float(np.sum(response**2)), rel=1e-5)


@pytest.mark.parametrize("num_used", [0, 1, 2])
def test_fewer_rows_than_columns_leave_columns_dependent(num_used):
    design, response = problem(4)
    found = fit(design, response, np.arange(NUM) < num_used)
    assert found.independent.sum() == num_used
    assert found.residual_sum == pytest.approx(0, abs=1e-25)


@pytest.mark.parametrize("shape", [(40, 3), (2, 3), (3, 3)])
def test_factor_has_the_same_sums_of_products(shape):
    columns = np.random.default_rng(5).normal(size=shape) * [1e-8, 1.0, 1e8]
    factor = np.asarray(compress(columns))
    assert factor.shape == (3, 3)
    np.testing.assert_array_equal(factor, np.triu(factor))
    scale = np.linalg.norm(columns, axis=0)
    np.testing.assert_allclose(
        factor.T @ factor / np.outer(scale, scale),
        columns.T @ columns / np.outer(scale, scale),
        atol=1e-14,
    )


def test_the_triangle_and_the_coordinates_keep_all_products():
    rng = np.random.default_rng(5)
    columns, target = rng.normal(size=(6, 4)), rng.normal(size=(6, 1))
    found = jax.device_get(jax.jit(least_squares.orthogonalize)(columns, target))
    assert found.independent.all()
    np.testing.assert_allclose(found.triangle.T @ found.triangle, columns.T @ columns, atol=1e-13)
    np.testing.assert_allclose(found.triangle.T @ found.coordinates, columns.T @ target, atol=1e-13)
    _, (expected,), *_ = np.linalg.lstsq(columns, target, rcond=None)
    np.testing.assert_allclose(found.residual_sums, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_sweep_solves_a_batch(size, dtype):
    rng = np.random.default_rng(size)
    rows = rng.normal(size=(7, 30, size))
    gram, moment = np.einsum("bni,bnj->bij", rows, rows), rng.normal(size=(7, size))
    found = sweep(np.asarray(gram, dtype), np.asarray(moment, dtype))
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    assert found.independent.all()
    expected = np.linalg.solve(gram, moment[..., None])[..., 0]
    np.testing.assert_allclose(found.solution, expected, rtol=tolerance, atol=tolerance * 0.1)
    np.testing.assert_allclose(
        found.inverse, np.linalg.inv(gram), rtol=tolerance, atol=tolerance * 0.1
    )


def test_sweep_leaves_dependent_columns_out():
    rows = np.random.default_rng(0).normal(size=(30, 4))
    rows[:, 2] = 2 * rows[:, 0]
    rows[:, 3] = 0
    found = sweep(np.asarray(rows.T @ rows), np.asarray(rows.T @ rows[:, 1]))
    assert found.independent.tolist() == [True, True, False, False]
    np.testing.assert_allclose(found.solution, [0, 1, 0, 0], atol=1e-12)
    inverse = np.asarray(found.inverse)
    assert not inverse[2:].any()
    assert not inverse[:, 2:].any()


class TestFrame:
    @pytest.mark.parametrize("offset", [0.0, 1e3, 1.7e12])
    def test_basis_is_orthonormal(self, offset):
        design, response = problem(7)
        design[:, 1] = 1e4 * design[:, 1] + offset
        mask = np.arange(NUM) < 31
        change = whiten(design, response, mask)
        basis = np.asarray(to_basis(change, design))[:31]
        assert change.independent.all()
        np.testing.assert_allclose(basis.T @ basis / 31, np.eye(3), atol=1e-9)

    def test_solution_and_coefficients_are_inverse(self):
        design, response = problem(8)
        change = whiten(design + [0.0, 5.0, -3.0], response + 100.0, np.ones(NUM, bool))
        for seed in range(3):
            solution = np.random.default_rng(seed).normal(size=3)
            coefficients = coefficients_of(change, solution)
            np.testing.assert_allclose(solution_of(change, coefficients), solution, atol=1e-12)

    @pytest.mark.parametrize("constant", [True, False])
    def test_covariance_is_the_inverse_of_the_normal_equations(self, constant):
        design, response = problem(9)
        design = design + [0.0, 5.0, -3.0] if constant else design[:, 1:] + [5.0, -3.0]
        change = whiten(design, response, np.ones(NUM, bool))
        basis = np.asarray(to_basis(change, design))
        inverse = sweep(basis.T @ basis, basis[0]).inverse
        np.testing.assert_allclose(
            covariance_of(change, inverse), np.linalg.inv(design.T @ design), atol=1e-12
        )

    def test_an_offset_that_hides_a_column_in_single_precision_is_named(self):
        design, response = problem(10)
        design[:, 1] += 1e7
        change = whiten(design.astype(np.float32), response.astype(np.float32), np.ones(NUM, bool))
        assert change.independent.tolist() == [True, False, True]

    def test_an_offset_that_single_precision_bears_changes_nothing(self):
        design, response = problem(11)
        shifted = design + [0.0, 1e3, 0.0]
        change = whiten(shifted.astype(np.float32), response.astype(np.float32), np.ones(NUM, bool))
        basis = np.asarray(to_basis(change, shifted.astype(np.float32)))
        single = (part.astype(np.float32) for part in (shifted, response))
        centered = np.asarray(center_response(change, *single))
        solution = sweep(basis.T @ basis, basis.T @ centered).solution
        expected = np.linalg.lstsq(design, response)[0][1:]
        # Rounding of the column: 6e-5 of a unit of spread.
        found = np.asarray(coefficients_of(change, solution))
        np.testing.assert_allclose(found[1:], expected, rtol=2e-4)

    def test_nothing_in_use(self):
        design, response = problem(12)
        change = whiten(design, response, np.zeros(NUM, bool))
        assert not change.independent.any()
        assert np.isfinite(to_basis(change, design)).all()
