"""Programs made ahead of a diagnosis are those that it takes."""

import ahead
import numpy as np
import rows_data as data


def test_its_programs_are_made_ahead():
    found = []
    few = data.straight(5, data.step(2.0, 7), 60)
    made, taken = ahead.programs_of(lambda: found.append(data.run(few)))
    assert made == taken
    assert len(made) > 8
    assert np.isfinite(found[0].coefficients).all()
