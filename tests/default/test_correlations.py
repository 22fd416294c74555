"""Correlations of neighbouring rows."""

import autoregression
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import correlations, outliers
from lisdd_jax.default.cells import MOST_CELLS, SortedCells

NUM, CELLS = 600, 12
CELL = np.repeat(np.arange(CELLS), NUM // CELLS).astype(np.int32)
BOUNDS = np.append(NUM // CELLS * np.arange(CELLS), np.full(MOST_CELLS + 1 - CELLS, NUM))
LAYOUT = jax.device_put(SortedCells(CELL, BOUNDS.astype(np.int32), np.int32(CELLS)))


@jax.jit
def correlate(response, order):
    columns = jnp.stack([jnp.ones(NUM), jnp.linspace(-1.7, 1.7, NUM)])
    fit = outliers.set_aside(columns, response, LAYOUT.of_row, MOST_CELLS)
    return correlations.correlate(fit, LAYOUT, order)


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
