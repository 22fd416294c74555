import jax
import numpy as np
import pytest

from lisdd_jax.numerics.frame import to_frame
from lisdd_jax.statistics import cell_fits

NUM, CELLS = 90, 5
FIT, ENERGY, MEANS = map(
    jax.jit, (cell_fits.fit_cells, cell_fits.cell_energy, cell_fits.cell_means)
)


@pytest.fixture(scope="module")
def rows():
    """Rows in their frame, cells, and residuals of a first solution; some rows are out of use."""
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(NUM), 5 + rng.normal(size=NUM)])
    response = design @ [1.0, 2.0] + rng.normal(size=NUM)
    mask = rng.random(NUM) < 0.8
    cell = np.where(mask, rng.integers(CELLS, size=NUM), CELLS).astype(np.int32)
    _, basis, centered = jax.jit(to_frame)(design, response, mask)
    first = np.array([0.3, -0.1])
    residual = np.where(mask, np.asarray(centered) - np.asarray(basis) @ first, 0.0)
    sums = jax.jit(cell_fits.sum_cells, static_argnums=4)(basis, residual, mask, cell, CELLS)
    return np.asarray(basis), np.asarray(residual), mask, cell, sums


def test_fits_on_unions_of_cells_are_least_squares(rows):
    basis, residual, _, cell, sums = rows
    for pattern in range(1, 2**CELLS):
        chosen = np.array([pattern >> k & 1 for k in range(CELLS)], bool)
        inside = [i for i in range(NUM) if cell[i] < CELLS and chosen[cell[i]]]
        found = jax.device_get(FIT(sums, chosen))
        step, *_ = np.linalg.lstsq(basis[inside], residual[inside])
        np.testing.assert_allclose(found.step, step, rtol=1e-10, atol=1e-12)
        gram = basis[inside].T @ basis[inside]
        np.testing.assert_allclose(found.inverse, np.linalg.inv(gram), rtol=1e-9, atol=1e-14)
        left = np.sum((residual[inside] - basis[inside] @ step) ** 2)
        assert found.residual_sum == pytest.approx(left, rel=1e-10)
        assert found.num_rows == len(inside)
        assert found.determined


def test_energies_and_means_are_those_of_the_rows(rows):
    basis, residual, mask, cell, sums = rows
    step = np.array([0.2, 0.4])
    left = residual - basis @ step
    energy, mean = jax.device_get((ENERGY(sums, step), MEANS(sums, step)))
    counts = np.asarray(sums.counts)
    for k in range(CELLS):
        own = left[mask & (cell == k)]
        assert energy[k] == pytest.approx(np.sum(own**2), rel=1e-11)
        assert mean[k] == pytest.approx(np.mean(own), rel=1e-10, abs=1e-13)
        assert counts[k] == len(own)


def test_too_few_rows_determine_nothing(rows):
    *_, sums = rows
    empty = jax.tree.map(np.zeros_like, jax.device_get(sums))
    assert not FIT(empty, np.ones(CELLS, bool)).determined
    assert not FIT(sums, np.zeros(CELLS, bool)).determined
    assert np.isnan(MEANS(empty, np.zeros(2))).all()
