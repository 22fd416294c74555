"""The sums that the results are made of, against loops."""

import jax.numpy as jnp
import numpy as np
import stages as passes
from test_settling import settled

from lisdd_jax.default.cells import MOST_CELLS
from lisdd_jax.default.final_sums import sum_final

NUM_MAP = 8


def test_sums_of_law_regions_and_map():
    found, ends = passes.stages(), settled()
    weights = jnp.linspace(1.0, 2.0, MOST_CELLS)
    final = sum_final(
        found.rows, found.look, found.region, ends, found.theta, weights, passes.LAYOUT, NUM_MAP
    )
    columns = np.asarray(found.rows.columns)
    used = np.isfinite(np.asarray(found.rows.axis))
    kept = used & (np.asarray(found.region.weight) > 0)
    law, slot = np.asarray(ends.law), np.asarray(ends.slot)
    cell, fold = np.asarray(found.look.cells.of_row), np.asarray(found.rows.fold)
    physics = columns[[2, 3, 4, -1]]
    np.testing.assert_allclose(
        final.law.gram.sum(0), physics[:, law] @ physics[:, law].T, atol=1e-9
    )
    size = np.append(np.asarray(weights), 0.0)[cell]
    for half in range(2):
        own = kept & (slot == 0) & (fold == half)
        np.testing.assert_allclose(
            final.regions.gram[0, half], columns[:, own] @ columns[:, own].T, atol=1e-9
        )
        np.testing.assert_allclose(
            final.weighted.gram[0, half],
            (columns[:, own] * size[own]) @ columns[:, own].T,
            atol=1e-9,
        )
    short = columns[[0, 1, 2, 3, 4, -1]]
    place = np.asarray(found.rows.map_cell)
    for k in range(NUM_MAP):
        own = kept & (place == k)
        np.testing.assert_allclose(final.map_all[k], short[:, own] @ short[:, own].T, atol=1e-9)
        counts = [used & (place == k), own, law & (place == k), used & (slot < 4) & (place == k)]
        np.testing.assert_array_equal(final.map_rows[k], [each.sum() for each in counts])
