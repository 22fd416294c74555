"""Programs made ahead of a diagnosis are those that it takes."""

import ahead
import numpy as np
import rows_data as data

from lisdd_jax.default import first_look


def few():
    """A table of a shape that the estimator and the hostile tables have, too."""
    made = data.straight(5, data.step(2.0, 7), 60)
    return made._replace(design=made.design[:, :2], features=made.features[:, :2])


def test_its_programs_are_made_ahead():
    found = []
    made, taken = ahead.programs_of(lambda: found.append(data.run(few())))
    assert made == taken
    assert len(made) > 8
    assert np.isfinite(found[0].coefficients).all()


def test_a_look_at_the_cells_is_one_program_for_all_libraries():
    """Most of what is compiled for a new library need not be."""
    table = few()
    data.run(table)
    held = first_look.look._quickly._cache_size()
    one_more = np.column_stack([table.features, table.axis**2])
    other = data.run(table._replace(features=one_more))
    assert first_look.look._quickly._cache_size() == held
    assert other.form.support.shape == (3,)
