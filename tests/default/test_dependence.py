"""Correlations of neighbouring rows, and how many rows of a place count as one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import dependence
from lisdd_jax.default.cells import MOST_CELLS, SortedCells
from lisdd_jax.default.correlations import Correlations

NUM, CELLS = 600, 12
CELL = np.repeat(np.arange(CELLS), NUM // CELLS).astype(np.int32)
BOUNDS = np.append(NUM // CELLS * np.arange(CELLS), np.full(MOST_CELLS + 1 - CELLS, NUM))
LAYOUT = SortedCells(jax.device_put(CELL), jnp.asarray(BOUNDS, jnp.int32), jnp.int32(CELLS))

share_of_record, share_of_axis, share_of_blocks, gather_blocks = map(
    jax.jit,
    (
        dependence.share_of_record,
        dependence.share_of_axis,
        dependence.share_of_blocks,
        dependence.gather_blocks,
    ),
)
summarize_dependence = jax.jit(dependence.summarize_dependence, static_argnums=5)


def rows_as_one(rho, cell, order):
    """``n`` times the variance of a cell's mean, less what is common to all, by the covariance."""
    record = np.empty(NUM, int)
    record[order] = cell
    apart = np.abs(np.subtract.outer(np.arange(NUM), np.arange(NUM)))
    covariance = rho ** apart.astype(float)
    np.fill_diagonal(covariance, 0.0)
    same = record[:, None] == record[None]
    share = np.bincount(cell) / NUM
    return 1 + (covariance * (same - (share**2).sum())).sum() / NUM


@pytest.mark.parametrize("rho", [0.3, 0.7])
@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_that_count_as_one_are_those_of_the_covariance(rho, shuffled):
    order = np.arange(NUM)
    if shuffled:
        order = np.argsort(np.sin(np.arange(NUM) / 9), kind="stable")
    found = share_of_record(jax.device_put(rho), LAYOUT, jax.device_put(order))
    np.testing.assert_allclose(found.rows, rows_as_one(rho, CELL, order), rtol=0.05)


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
    apart = CELL[None] - CELL[:, None]
    share = np.bincount(CELL) / NUM
    every = pairs.sum() / NUM
    within = (pairs & (apart == 0)).sum() / NUM - (share**2).sum() * every
    across = (pairs & (abs(apart) == 1)).sum() / NUM - 2 * (share[1:] * share[:-1]).sum() * every
    rows = 1 + likeness * max(within, 0)
    np.testing.assert_allclose(found.rows, rows, rtol=1e-9)
    np.testing.assert_allclose(found.neighbours, max(likeness * across / 2, 0) / rows, atol=1e-12)


def test_lag_weights_sum_a_geometric_series():
    for rho in (0.2, 0.6, 0.9):
        total = float(dependence.lag_weights(jax.device_put(rho), 10_000).sum())
        np.testing.assert_allclose(total, rho / (1 - rho), rtol=0.05)


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("num_cells", [3, 4])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_along_a_few_cells_dependence_is_not_told_from_a_misfit(rho, num_cells, blocks):
    found = Correlations(*map(jax.device_put, (rho, 0.0, rho, 0.0)))
    sharing = dependence.Sharing(jnp.asarray(2.0), jnp.asarray(0.1))
    coarse = LAYOUT._replace(num=jnp.int32(num_cells))
    size = jnp.asarray(30.0)
    depend = summarize_dependence(found, sharing, sharing, size, jnp.asarray(0.0), blocks, coarse)
    assert bool(depend.untold) == (rho > 0 and num_cells == 3 and not blocks)
    assert bool(depend.strong) == (rho > 0.7 and not blocks)
    assert bool(depend.significant) == (rho > 0)
