import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force_default import SCATTERS, fit
from cell_data import assert_traced_alike, cell_rows

from lisdd_jax.default import physics
from lisdd_jax.default.local_fits import fit_every_cell

SIZES = (30, 24, 41, 28, 33)
NUM = sum(SIZES)
SUM_LAW = jax.jit(physics.sum_law, static_argnums=5)


class Table:
    """Rows of a law, some of them out of it, with an order of the record and blocks."""

    def __init__(self):
        rng = np.random.default_rng(9)
        self.rows = cell_rows(8, SIZES, noise=(1.0, 0.5, 2.0, 1.0, 0.3))
        self.design = self.rows.columns[:, 2:4]
        self.response = self.rows.columns[:, -1]
        self.used = rng.random(NUM) < 0.8
        self.order = rng.permutation(NUM).astype(np.int32)
        self.block = rng.integers(20, size=NUM).astype(np.int32)
        gram, count = self.rows.gram, self.rows.count
        self.fits = fit_every_cell(gram, count, 0.0, 2, np.bool_(True))[0]
        self.theta = np.array([0.6, -0.3])
        self.scale = rng.uniform(0.5, 2, len(SIZES))[self.rows.cell]
        self.nothing = np.zeros(NUM, bool)

    def sums(self, correlation=0.0, block=None, tail=None, bound=5.0):
        arrays = (self.design.T, self.response, self.theta, self.used, self.rows.cell)
        found = SUM_LAW(
            *map(jax.device_put, arrays),
            len(SIZES),
            jax.device_put(self.scale),
            jax.device_put(self.order),
            jax.device_put(correlation),
            None if block is None else jax.device_put(block),
            jnp.asarray(self.nothing if tail is None else tail),
            jnp.full(NUM, bound),
        )
        return jax.tree.map(np.asarray, found)


@pytest.fixture(scope="module")
def table():
    return Table()


@pytest.fixture(scope="module")
def plain(table):
    return table.sums()


def test_sums_are_those_of_the_rows_of_the_law(table, plain):
    both = np.column_stack([table.design, table.response])
    for k in range(len(SIZES)):
        own = both[table.used & (table.rows.cell == k)]
        np.testing.assert_allclose(plain.gram[k], own.T @ own, rtol=1e-10)
    assert not plain.serial.any()
    assert not plain.clusters.any()


@pytest.mark.parametrize("rho", [0.6, 0.95])
def test_dependence_adds_products_of_rows_apart_in_the_record(table, rho):
    found = table.sums(rho)
    record = np.zeros((NUM, 2))
    for i in range(NUM):
        if table.used[i]:
            record[table.order[i]] = table.scale[i] * table.design[i]
    place = np.arange(NUM)
    likeness = rho ** np.abs(place[:, None] - place) - np.eye(NUM)
    np.testing.assert_allclose(found.serial, record.T @ likeness @ record, rtol=1e-9, atol=1e-9)


def test_no_column_makes_a_variance_negative():
    """One that changes its sign from row to row leaves least of the variance."""
    rho, num = 0.98, 500
    column = np.where(np.arange(num) % 2, -1.0, 1.0)[None]
    found = float(physics.serial_products(jax.device_put(column), jax.device_put(rho))[0, 0])
    place = np.arange(num)
    likeness = rho ** np.abs(place[:, None] - place) - np.eye(num)
    assert found == pytest.approx(float((column @ likeness @ column.T)[0, 0]), rel=1e-6)
    assert 0 < num + found < 0.02 * num


def test_blocks_add_squared_sums(table):
    found = table.sums(0.6, table.block)
    residual = table.response - table.design @ table.theta
    expected, blocks = np.zeros((2, 2)), set(table.block[table.used])
    for block in blocks:
        own = table.used & (table.block == block)
        score = table.design[own].T @ residual[own]
        expected += np.outer(score, score)
    expected *= len(blocks) / (len(blocks) - 1)
    np.testing.assert_allclose(found.clusters, expected, rtol=1e-9)


def sandwich(table, meat):
    design = table.design[table.used]
    inverse = np.linalg.inv(design.T @ design)
    return inverse @ meat @ inverse


def scattered(table, position):
    """What the scatter adds: the physics in each cell's own directions, for its rows' part."""
    meat = np.zeros((2, 2))
    mean = NUM / len(SIZES)
    for k, size in enumerate(SIZES):
        own = table.rows.columns[table.rows.cell == k]
        directions, design = own[:, :4], own[:, 2:4]
        inside = np.column_stack([x - fit(directions, x)[1] for x in design.T])
        used = design[table.used[table.rows.cell == k]]
        share = SCATTERS[position] * size / mean * (np.sum(used**2) / np.sum(design**2)) ** 2
        meat += table.fits.variance[k] * share * inside.T @ inside
    return meat


@pytest.mark.parametrize("position", [0, 5])
@pytest.mark.parametrize("kind", ["independent", "serial", "blocks"])
def test_law_and_covariance(table, kind, position):
    """Equation 28 by loops."""
    rho, block = (0.0 if kind == "independent" else 0.6), None
    if kind == "blocks":
        block = table.block
    sums, variance = table.sums(rho, block), 0.8
    found = physics.fit_physics(
        sums, table.fits, np.int64(position), variance, kind == "blocks", table.rows.layout
    )
    design = table.design[table.used]
    np.testing.assert_allclose(found.theta, fit(design, table.response[table.used])[0], rtol=1e-9)
    assert found.determined
    meat = np.zeros((2, 2))
    for k in range(len(SIZES)):
        own = table.design[table.used & (table.rows.cell == k)]
        meat += table.fits.variance[k] * own.T @ own
    meat += variance * sums.serial
    if kind == "blocks":
        meat = sums.clusters
    expected = sandwich(table, meat + scattered(table, position))
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-8)


def test_rows_that_may_be_noise_widen_the_errors_by_what_they_would_move():
    """To first order: with them, residuals no farther than three bounds."""
    table = Table()
    tail = ~table.used & (np.arange(NUM) % 2 == 0)
    bound = 0.4
    residual = table.response - table.design @ table.theta
    residual = np.clip(residual, -3 * bound, 3 * bound)
    assert (np.abs(residual[tail]) == 3 * bound).any()
    plain, wide = (
        physics.fit_physics(sums, table.fits, np.int64(0), 0.8, False, table.rows.layout)
        for sums in (table.sums(), table.sums(tail=tail, bound=bound))
    )
    both = table.design[table.used | tail]
    shift = np.linalg.solve(both.T @ both, table.design[tail].T @ residual[tail])
    np.testing.assert_allclose(wide.theta, plain.theta, rtol=1e-12)
    added = wide.covariance - plain.covariance
    np.testing.assert_allclose(added, np.outer(shift, shift), rtol=1e-8)


def test_covariance_is_that_of_the_coefficients():
    """Simulated: errors of coefficients under noise that differs between cells."""
    noise = np.array([3.0, 0.3, 1.0, 0.1, 2.0])
    errors, reported = [], []
    for seed in range(400):
        rows = cell_rows(4000 + seed, SIZES, noise=noise)
        fits = fit_every_cell(rows.gram, rows.count, 0.0, 2, np.bool_(True))[0]
        table = rows.gram[:, [2, 3, -1]][:, :, [2, 3, -1]]
        nothing = np.zeros((2, 2))
        law = physics.fit_physics(
            physics.LawSums(table, nothing, nothing, np.zeros((3, 3))),
            fits,
            np.int64(0),
            1.0,
            False,
            rows.layout,
        )
        errors.append(law.theta - [0.7, -0.4])
        reported.append(law.covariance)
    ratio = np.mean(np.square(errors), axis=0) / np.diagonal(np.mean(reported, axis=0))
    assert (np.abs(ratio - 1) < 5 * np.sqrt(2 / 400)).all()


def test_a_law_that_the_rows_do_not_determine():
    table = Table()
    table.design = table.design.copy()
    table.design[:, 1] = -2 * table.design[:, 0]
    found = physics.fit_physics(
        table.sums(), table.fits, np.int64(0), 1.0, False, table.rows.layout
    )
    assert not found.determined


def test_traced_alike(table, plain):
    def every(sums, fits, scatter, variance):
        return physics.fit_physics(sums, fits, scatter, variance, False, table.rows.layout)

    assert_traced_alike(every, plain, table.fits, np.int64(4), np.float64(0.8))
