"""Correlations of neighbouring rows."""

import autoregression
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import correlations, outliers
from lisdd_jax.default.blocks import gather_blocks
from lisdd_jax.default.cells import MOST_CELLS, SortedCells

NUM, CELLS = 600, 12
CELL = np.repeat(np.arange(CELLS), NUM // CELLS).astype(np.int32)
BOUNDS = np.append(NUM // CELLS * np.arange(CELLS), np.full(MOST_CELLS + 1 - CELLS, NUM))
LAYOUT = jax.device_put(SortedCells(CELL, BOUNDS.astype(np.int32), np.int32(CELLS)))


@jax.jit
def correlate(response, order, block=None):
    columns = jnp.stack([jnp.ones(NUM), jnp.linspace(-1.7, 1.7, NUM)])
    fit = outliers.set_aside(columns, response, LAYOUT.of_row, MOST_CELLS)
    blocks = None if block is None else gather_blocks(block)
    return correlations.correlate(fit, LAYOUT, order, jnp.asarray(2.0), blocks)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
def test_correlation_of_neighbours_is_estimated_without_bias(rho):
    order = jnp.arange(NUM)
    rng = np.random.default_rng(3)
    drawn = [autoregression.simulate(rng, rho, NUM) for _ in range(60)]
    found = [float(correlate(jax.device_put(series), order).axis) for series in drawn]
    # The bias that is taken off is that of the mean; what remains is shrunk by 5.5 / m.
    shrunk = rho * (1 - 5.5 / (NUM / CELLS))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - shrunk) < 5 * error + 0.01


def test_noise_without_memory_is_not_significant():
    rng = np.random.default_rng(4)
    order = jnp.arange(NUM)
    rho = [correlate(jnp.asarray(rng.normal(size=NUM)), order).axis_rho for _ in range(60)]
    assert np.count_nonzero(rho) <= 1


def test_a_law_that_breaks_in_few_cells_is_no_dependence():
    rng = np.random.default_rng(6)
    row = np.arange(NUM)
    broken = np.where((row > 120) & (row < 220), 8 * np.sin(row / 9), 0.0)
    found = correlate(jnp.asarray(broken + rng.normal(size=NUM)), jnp.arange(NUM))
    assert found.axis_rho == 0
    assert found.record_rho == 0
    # Noise with a memory shows in every cell.
    series = jnp.asarray(broken + autoregression.simulate(rng, 0.6, NUM))
    assert correlate(series, jnp.arange(NUM)).axis_rho > 0.4


def test_order_of_the_record_is_told_from_that_of_the_axis():
    rng = np.random.default_rng(5)
    order = rng.permutation(NUM)
    series = autoregression.simulate(rng, 0.8, NUM)
    found = correlate(jnp.asarray(series[order]), jax.device_put(order))
    assert found.axis_rho == 0
    assert found.record_rho > 0.6


def blocks_of(kind):
    """Labels of blocks that lie together in cells, anywhere, or over whole cells."""
    if kind == "long":
        return np.repeat(np.arange(NUM // 75), 75).astype(np.int32)
    block = np.repeat(np.arange(NUM // 5), 5).astype(np.int32)
    if kind == "scattered":
        # Within 200 rows, so that some rows of a block share a cell.
        rng = np.random.default_rng(7)
        return np.concatenate([rng.permutation(part) for part in np.split(block, 3)])
    return block


@pytest.mark.parametrize("likeness", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("kind", ["together", "scattered"])
def test_mean_correlation_within_blocks_is_estimated(kind, likeness):
    block, order = jax.device_put(blocks_of(kind)), jnp.arange(NUM)
    rng, found = np.random.default_rng(11), []
    for _ in range(40):
        common = rng.normal(size=NUM)[np.asarray(block)]
        series = np.sqrt(likeness) * common + np.sqrt(1 - likeness) * rng.normal(size=NUM)
        found.append(float(correlate(jax.device_put(series), order, block).block_rho))
    if likeness == 0:
        assert np.count_nonzero(found) <= 1
    else:
        error = np.std(found) / np.sqrt(len(found))
        # What local fits take is known to first order.
        assert abs(np.mean(found) - likeness) < 5 * error + 0.04


def test_blocks_over_whole_cells_show_no_mean_correlation_but_that_of_neighbours():
    """A fit of level and slope to a cell of one block takes what its rows have in common."""
    block, order = jax.device_put(blocks_of("long")), jnp.arange(NUM)
    rng = np.random.default_rng(12)
    plain = [correlate(jax.device_put(rng.normal(size=NUM)), order, block) for _ in range(40)]
    assert sum(bool(found.block_rho > 0) for found in plain) <= 1
    assert sum(bool(found.axis_rho > 0) for found in plain) <= 1
    series = [autoregression.simulate(rng, 0.6, NUM) for _ in range(20)]
    found = [float(correlate(jax.device_put(one), order, block).axis) for one in series]
    shrunk = 0.6 * (1 - 5.5 / (NUM / CELLS))
    assert abs(np.mean(found) - shrunk) < 5 * np.std(found) / np.sqrt(len(found)) + 0.01


def test_neighbours_of_two_blocks_do_not_count():
    block, order = jax.device_put(blocks_of("together")), jnp.arange(NUM)
    series = np.random.default_rng(13).normal(size=NUM)[np.asarray(block)]
    found, pooled = (correlate(jax.device_put(series), order, *more) for more in ((block,), ()))
    np.testing.assert_allclose([found.axis, found.record], 1.0, atol=0.05)
    assert pooled.axis < 0.85


def test_a_memory_is_told_from_what_any_two_rows_of_a_block_have_in_common():
    block, order = (
        jax.device_put(np.repeat(np.arange(NUM // 10), 10).astype(np.int32)),
        jnp.arange(NUM),
    )
    rng = np.random.default_rng(14)
    for noise in (0.0, *np.linspace(0.3, 1, 9)):
        common = rng.normal(size=NUM)[np.asarray(block)] + noise * rng.normal(size=NUM)
        found = correlate(jax.device_put(common), order, block)
        assert found.block_rho > 0.2
        assert found.axis_rho == found.record_rho == 0
        memory = autoregression.simulate(rng, 0.7, NUM)
        found = correlate(jax.device_put(memory), order, block)
        assert min(found.axis_rho, found.record_rho) > 0.5
