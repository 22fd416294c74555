"""Groups of the rows of one block and cell."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.default import blocks
from lisdd_jax.default.cells import MOST_CELLS, SortedCells

NUM, CELLS = 60, 6
CELL = np.repeat(np.arange(CELLS), NUM // CELLS).astype(np.int32)
BOUNDS = np.append(NUM // CELLS * np.arange(CELLS), np.full(MOST_CELLS + 1 - CELLS, NUM))


def test_groups_are_the_rows_of_one_block_and_cell():
    rng = np.random.default_rng(4)
    block, values = rng.integers(3, 9, NUM).astype(np.int32), rng.normal(size=NUM)
    layout = SortedCells(jax.device_put(CELL), jnp.asarray(BOUNDS, jnp.int32), jnp.int32(CELLS))
    found = blocks.gather_blocks(jax.device_put(block))
    groups = blocks.group_rows(found, layout)
    np.testing.assert_array_equal(found.label, block[found.order])
    np.testing.assert_array_equal(groups.cell_of_row, CELL[found.order])
    sorted_values = jax.device_put(values[found.order])
    pairs = sorted(set(zip(block.tolist(), CELL.tolist(), strict=True)))
    expected = [values[(block == one) & (cell == CELL)].sum() for one, cell in pairs]
    np.testing.assert_allclose(groups.totals(sorted_values)[: len(pairs)], expected)
    np.testing.assert_array_equal(groups.cell[: len(pairs)], [cell for _, cell in pairs])
    beside = [b == a and d == c + 1 for (a, c), (b, d) in itertools.pairwise(pairs)]
    np.testing.assert_array_equal(groups.beside[: len(pairs) - 1], beside)
    whole = [values[block == one].sum() for one in np.unique(block)]
    np.testing.assert_allclose(groups.totals_of_blocks(sorted_values)[: len(whole)], whole)
