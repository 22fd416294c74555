"""Programs made ahead of a diagnosis are those that it takes."""

import ahead
import numpy as np
import rows_data as data

from lisdd_jax.default import first_look


def test_its_programs_are_made_ahead():
    found = []
    few = data.straight(5, data.step(2.0, 7), 60)
    made, taken = ahead.programs_of(lambda: found.append(data.run(few)))
    assert made == taken
    assert len(made) > 8
    assert np.isfinite(found[0].coefficients).all()


def test_a_look_at_the_cells_is_one_program_for_all_libraries():
    """Most of what is compiled for a new library need not be."""
    few = data.straight(5, data.step(2.0, 7), 60)
    data.run(few)
    held = first_look.look._quickly._cache_size()
    other = data.run(few._replace(features=few.features[:, :4]))
    assert first_look.look._quickly._cache_size() == held
    assert other.form.support.shape == (4,)
