"""What single cells show before any law."""

import numpy as np
import stages as passes

from lisdd_jax.default.cells import MOST_CELLS


def test_the_gross_error_alone_is_set_aside():
    found = passes.stages()
    num = passes.MASK.sum()
    aside = np.asarray(found.rows.order)[np.flatnonzero(~np.asarray(found.look.keep[:num]))]
    # Rows of the cell in which the step lies may go with it, since neither side is its bulk.
    near = np.abs(passes.table().axis[aside] - 7) < 0.5
    assert passes.BAD in aside
    assert set(aside[~near]) == {passes.BAD}


def test_scale_is_that_of_the_noise_in_the_working_unit():
    found = passes.stages()
    np.testing.assert_allclose(found.look.scale * found.rows.unit, 1.0, rtol=0.2)


def test_a_cell_is_trusted_where_most_of_its_rows_are():
    found = passes.stages()
    cell = np.asarray(found.look.cells.of_row)
    vouched = passes.table().axis[np.asarray(found.rows.order)] < 3
    for k in range(MOST_CELLS):
        own = cell == k
        expected = bool(own.any()) and vouched[own].mean() > 0.5
        assert bool(found.look.trusted[k]) == expected


def test_places_bound_the_cells():
    found = passes.stages()
    axis = np.asarray(found.rows.axis)
    cell = np.asarray(found.look.cells.of_row)
    for k in range(int(found.look.cells.num)):
        assert found.look.places[k] == axis[cell == k].min()
    assert not bool(found.look.dependence.significant)
    assert passes.MASK.sum() < passes.NUM
