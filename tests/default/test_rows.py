"""Passes over the rows, against loops."""

import jax
import jax.numpy as jnp
import numpy as np
import stages as passes

from lisdd_jax.default import rows
from lisdd_jax.default.cells import MOST_CELLS


def products(columns, chosen):
    return columns[:, chosen] @ columns[:, chosen].T


def test_sums_of_cells_are_those_of_their_kept_rows():
    found = passes.stages()
    gram, count = rows.sum_kept_rows(found.rows, found.look.cells, found.look.keep)
    columns, cell = np.asarray(found.rows.columns), np.asarray(found.look.cells.of_row)
    for k in range(MOST_CELLS):
        own = (cell == k) & np.asarray(found.look.keep)
        np.testing.assert_allclose(gram[k], products(columns, own), atol=1e-9)
        assert float(count[k]) == own.sum()


def test_residuals_are_those_of_the_law():
    found = passes.stages()
    columns = np.asarray(found.rows.columns)
    expected = columns[-1] - np.asarray(found.theta) @ columns[passes.LAYOUT.physics]
    residual = rows.residual_of(found.rows, found.theta, passes.LAYOUT)
    np.testing.assert_allclose(residual, expected, atol=1e-12)


def test_rows_near_the_law_leave_the_gross_error_out():
    found = passes.stages()
    clean = np.asarray(found.look.places)[:-1] < 6.5
    scale = jnp.full(MOST_CELLS, found.look.scale)
    clean, limits = jax.device_put(clean), (jnp.asarray(3.0), jnp.zeros(()))
    laws = ((found.theta, clean), scale, clean, found.look.keep, limits)
    keep = rows.keep_near_law(found.rows, found.look, *laws, passes.LAYOUT).keep
    axis = passes.table().axis[np.asarray(found.rows.order)]
    aside = np.asarray(found.rows.order)[
        ~np.asarray(keep) & (axis < 6) & np.isfinite(found.rows.axis)
    ]
    assert aside.tolist() == [passes.BAD]


def test_sums_of_regions_and_folds():
    found = passes.stages()
    columns, fold = np.asarray(found.rows.columns), np.asarray(found.rows.fold)
    start, stop = int(found.region.spans.start[0]), int(found.region.spans.stop[0])
    position = np.arange(columns.shape[1])
    inside = (position >= start) & (position < stop)
    kept = np.asarray(found.region.weight) > 0
    # The first cell neither obeys the law nor lies where an end may move.
    outside = ~inside & (np.asarray(found.look.cells.of_row) > 0)
    for k in range(4):
        for slot, chosen in ((0, inside), (4, outside)):
            own = chosen & kept & (fold == k) & np.isfinite(np.asarray(found.rows.axis))
            np.testing.assert_allclose(found.sums.gram[slot, k], products(columns, own), atol=1e-9)
            assert float(found.sums.num_rows[slot, k]) == own.sum()
