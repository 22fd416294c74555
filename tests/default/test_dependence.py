"""Correlations of neighbouring rows, and how many rows of a place count as one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import dependence
from lisdd_jax.default.blocks import gather_blocks
from lisdd_jax.default.cells import MOST_CELLS, SortedCells
from lisdd_jax.default.correlations import Correlations

NUM, CELLS = 600, 12
CELL = np.repeat(np.arange(CELLS), NUM // CELLS).astype(np.int32)
BOUNDS = np.append(NUM // CELLS * np.arange(CELLS), np.full(MOST_CELLS + 1 - CELLS, NUM))
LAYOUT = SortedCells(jax.device_put(CELL), jnp.asarray(BOUNDS, jnp.int32), jnp.int32(CELLS))

share_of_record, share_of_axis, share_of_blocks = map(
    jax.jit, (dependence.share_of_record, dependence.share_of_axis, dependence.share_of_blocks)
)
share = jax.jit(dependence.share)
summarize_dependence = jax.jit(dependence.summarize_dependence, static_argnums=5)


def rows_as_one(covariance):
    """Variance of the cells' means about that of all, over what it would be without covariances.

    ``covariance (n, n)`` is that of the rows, of unit variance, along the axis.
    """
    member = np.eye(CELLS)[CELL]
    share = member.mean(0)
    contrast = member / member.sum(0) - 1 / NUM
    spread = (share * np.einsum("ik,ij,jk->k", contrast, covariance, contrast)).sum()
    return spread / (share * (contrast**2).sum(0)).sum()


def autoregressive(rho, order):
    """Covariance of rows whose places in the record are ``order``."""
    return rho ** np.abs(np.subtract.outer(order, order)).astype(float)


@pytest.mark.parametrize("rho", [0.3, 0.7])
@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_that_count_as_one_are_those_of_the_covariance(rho, shuffled):
    order = np.arange(NUM)
    if shuffled:
        order = np.argsort(np.sin(np.arange(NUM) / 9), kind="stable")
    found = share_of_record(jax.device_put(rho), LAYOUT, jax.device_put(order))
    expected = rows_as_one(autoregressive(rho, order))
    np.testing.assert_allclose(found.rows, expected, rtol=0.05)


def test_sharing_along_the_axis_is_that_of_a_sorted_record():
    along = share_of_axis(jnp.asarray(0.5), jnp.asarray(float(NUM)), jnp.asarray(12.0))
    record = share_of_record(jnp.asarray(0.5), LAYOUT, jnp.arange(NUM))
    np.testing.assert_allclose(along.rows, record.rows, rtol=0.15)
    assert abs(along.neighbours - record.neighbours) < 0.02


@pytest.mark.parametrize("scattered", [False, True])
def test_blocks_share_what_their_pairs_do(scattered):
    block = np.repeat(np.arange(NUM // 5), 5).astype(np.int32)
    if scattered:
        block = np.random.default_rng(3).permutation(block)
    likeness = 0.6
    blocks = gather_blocks(jax.device_put(block))
    found = share_of_blocks(blocks, LAYOUT, jax.device_put(likeness))
    pairs = (block[:, None] == block[None]) & ~np.eye(NUM, dtype=bool)
    expected = rows_as_one(np.eye(NUM) + likeness * pairs)
    np.testing.assert_allclose(found.rows, max(expected, 1), rtol=1e-9)
    apart = CELL[None] - CELL[:, None]
    share = np.bincount(CELL) / NUM
    across = (pairs & (abs(apart) == 1)).sum() / NUM
    across -= 2 * (share[1:] * share[:-1]).sum() * pairs.sum() / NUM
    neighbours = max(likeness * across / 2, 0) / found.rows
    np.testing.assert_allclose(found.neighbours, neighbours, atol=1e-12)


@pytest.mark.parametrize("rho", [0.6, 0.8])
@pytest.mark.parametrize("measure", ["axis_rho", "record_rho", "block_rho"])
def test_of_blocks_any_way_in_which_their_rows_are_alike_counts(measure, rho):
    block = np.repeat(np.arange(NUM // 15), 15).astype(np.int32)
    blocks = gather_blocks(jax.device_put(block))
    order = jnp.arange(NUM)
    none = Correlations(*jax.device_put((0.0,) * 5))
    assert share(none, LAYOUT, order, blocks).rows == 1
    found = share(none._replace(**{measure: jax.device_put(rho)}), LAYOUT, order, blocks)
    pairs = rho * (block[:, None] == block)
    np.fill_diagonal(pairs, 1.0)
    # Cells do not show a noise with so much memory along the axis.
    alike = measure == "block_rho" or (measure == "axis_rho" and rho > 0.7)
    expected = rows_as_one(pairs if alike else autoregressive(rho, np.arange(NUM)))
    np.testing.assert_allclose(found.rows, expected, rtol=0.1)


def test_copies_leave_less_of_the_noise_the_more_columns_are_fitted():
    columns = np.random.default_rng(8).normal(size=(40, 5))
    noise = np.random.default_rng(9).normal(size=(40, 2000))
    left = noise - columns @ np.linalg.lstsq(columns, noise, rcond=None)[0]
    # Each row four times: the residuals are the same, and their squares are divided by 160 - 5.
    shown = 4 * (left**2).sum() / 2000 / (160 - 5)
    np.testing.assert_allclose(dependence.shown_variance(4.0, 160.0, 5.0), shown, atol=0.02)


def test_all_columns_take_of_the_noise_of_rows_with_the_same_regressors():
    columns = np.random.default_rng(10).normal(size=(4, NUM // 4))
    columns[0] = 1
    for given, expected in ((np.repeat(columns, 4, 1), 4), (np.tile(columns, 4), 2)):
        found = dependence.columns_that_take(jax.device_put(given), LAYOUT)
        assert found == expected


def test_lag_weights_sum_a_geometric_series():
    for rho in (0.2, 0.6, 0.9):
        total = float(dependence.lag_weights(jax.device_put(rho), 10_000).sum())
        np.testing.assert_allclose(total, rho / (1 - rho), rtol=0.05)


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("num_cells", [3, 4])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_along_a_few_cells_dependence_is_not_told_from_a_misfit(rho, num_cells, blocks):
    found = Correlations(*map(jax.device_put, (rho, 0.0, rho, 0.0, 0.0)))
    sharing = dependence.Sharing(jnp.asarray(2.0), jnp.asarray(0.1))
    coarse = LAYOUT._replace(num=jnp.int32(num_cells))
    size = jnp.asarray(30.0)
    rest = (size, jnp.asarray(0.0), blocks, coarse, jnp.asarray(2.0))
    depend = summarize_dependence(found, sharing, sharing, *rest)
    assert bool(depend.untold) == (rho > 0 and num_cells == 3 and not blocks)
    assert bool(depend.strong) == (rho > 0.7 and not blocks)
    assert bool(depend.significant) == (rho > 0)
