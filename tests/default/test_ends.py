"""Ends of regions at single rows, against a search of all intervals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import ends
from lisdd_jax.default.cells import MOST_CELLS, SortedCells
from lisdd_jax.default.sums import sum_products

NUM, CELLS = 240, 12
BOUNDS = np.append(NUM // CELLS * np.arange(CELLS), np.full(MOST_CELLS + 1 - CELLS, NUM))
OF_ROW = np.repeat(np.arange(CELLS), NUM // CELLS)
LAYOUT = jax.device_put(
    SortedCells(OF_ROW.astype(np.int32), BOUNDS.astype(np.int32), np.int32(CELLS))
)
BOUND = 5.0


@jax.jit
def place(residual, members, use):
    spans = ends.spans_of_runs(members, LAYOUT)
    columns = jnp.stack([jnp.ones(NUM), jnp.linspace(-1.7, 1.7, NUM)])
    every = jnp.concatenate([columns, residual[None]])

    def sums_between(start, stop):
        slot = ends.slots(spans, start, stop, jnp.arange(NUM, dtype=jnp.int32))
        return sum_products(every, slot, len(use))

    placed = ends.place_ends(
        columns,
        residual,
        sums_between,
        jnp.full(NUM, BOUND),
        use,
        jnp.zeros((), bool),
        spans,
        (spans.start, spans.stop),
        jnp.ones(NUM + 1, bool),
        jnp.int32(NUM),
        jnp.asarray(2 * np.log(NUM)),
    )
    return spans, placed, ends.jump_intervals(placed.gain, placed, spans, jnp.ones(()))


def members(*runs):
    found = np.zeros((2, MOST_CELLS), bool)
    for k, (first, end) in enumerate(runs):
        found[k, first:end] = True
    return jax.device_put(found)


USE = jax.device_put(np.array([[True, False], [True, False]]))


@pytest.mark.parametrize("seed", range(5))
def test_ends_are_the_best_interval_for_their_correction(seed):
    rng = np.random.default_rng(seed)
    low, high = 93, 167
    residual = rng.normal(size=NUM) + np.where(
        (np.arange(NUM) >= low) & (np.arange(NUM) < high), 2.0, 0.0
    )
    spans, placed, _ = place(jax.device_put(residual), members((5, 8)), USE)
    start, stop = int(placed.start[0]), int(placed.stop[0])
    level = float(placed.coefficients[0, 0])
    np.testing.assert_allclose(level, residual[start:stop].mean(), rtol=0.05)
    gained = np.minimum(residual**2, BOUND**2) - np.minimum((residual - level) ** 2, BOUND**2)
    gain = {
        (a, b): gained[a:b].sum()
        for a in range(int(spans.low[0]), int(spans.high[0]) + 1)
        for b in range(a + 1, int(spans.high[0]) + 1)
    }
    assert max(gain.values()) - gain[start, stop] < 1e-9
    assert abs(start - low) < 12
    assert abs(stop - high) < 12
    assert not bool(spans.present[1])
    assert int(placed.stop[1]) == 0


def test_an_end_of_the_axis_needs_no_parameter():
    rng = np.random.default_rng(1)
    residual = rng.normal(size=NUM) + np.where(np.arange(NUM) >= 150, 2.0, 0.0)
    _, placed, intervals = place(jax.device_put(residual), members((8, 12)), USE)
    assert int(placed.stop[0]) == NUM
    assert intervals[0, 0, 0] <= placed.start[0] <= intervals[0, 0, 1]


@pytest.mark.slow
def test_intervals_of_jumps_cover():
    """95 % intervals of a jump of two noise scales, with a tolerance of five standard errors."""
    rng = np.random.default_rng(2)
    covered, num = 0, 400
    for _ in range(num):
        jump = int(rng.integers(95, 115))
        residual = rng.normal(size=NUM) + np.where(np.arange(NUM) >= jump, 2.0, 0.0)
        _, _, interval = place(jax.device_put(residual), members((6, 12)), USE)
        covered += bool(interval[0, 0, 0] <= jump <= interval[0, 0, 1])
    assert covered / num > 0.95 - 5 * np.sqrt(0.95 * 0.05 / num)


def test_neighbouring_regions_share_the_rows_between_them():
    spans, _, _ = place(jnp.zeros(NUM), members((2, 4), (5, 7)), USE)
    assert spans.high[0] == spans.low[1]
    assert int(spans.low[0]) == 0
    assert int(spans.high[1]) == 180


def test_rows_of_regions():
    spans, _, _ = place(jnp.zeros(NUM), members((2, 4), (5, 7)), USE)
    own = np.asarray(ends.inside(spans, spans.start, spans.stop, NUM))
    np.testing.assert_array_equal(np.flatnonzero(own[0]), np.arange(40, 80))
    np.testing.assert_array_equal(np.flatnonzero(own[1]), np.arange(100, 140))
