"""Kinks, sharp and soft, found in the tables of a diagnosis."""

import numpy as np
import pytest
import rows_data as data

NUM = 400


def kinked(seed, place=6.0, width=0.0, slope=1.5, noise=0.5):
    """A hinge from ``place`` on, which bends over ``2 width``."""
    rng = np.random.default_rng(seed)
    axis = rng.uniform(0, 10, NUM)
    along = axis - place
    bent = (along + width) ** 2 / (4 * width) if width else 0 * axis
    hinge = np.where(along <= -width, 0.0, np.where(along >= width, along, bent))
    response = 3.0 + slope * hinge + noise * rng.normal(size=NUM)
    library = np.stack([axis**0, axis, axis**2, np.maximum(axis - 5, 0)], axis=1)
    return data.Table(np.ones((NUM, 1)), response, axis, library)


def test_an_exact_kink_is_found_with_its_interval():
    found = data.run(kinked(0))
    lower, upper = np.asarray(found.regions.lower_interval[0])
    assert bool(found.place.certified) and int(found.regions.present.sum()) == 1
    assert lower < 6.0 < upper and upper - lower < 1.0
    assert found.regions.softness[0, 0] == 0 or found.regions.softness[0, 0] < 1.0
    assert bool(found.regions.open_above[0])


def test_a_jump_has_no_softness():
    table = kinked(1, slope=0.0)
    table = table._replace(response=table.response + 3.0 * (table.axis > 6))
    found = data.run(table)
    assert np.isnan(found.regions.softness[0, 0])
    assert abs(float(found.regions.lower[0]) - 6) < 0.1


@pytest.mark.parametrize("width", [0.0, 1.0, 2.0])
@pytest.mark.slow
def test_intervals_of_soft_onsets_cover(width):
    """At least 0.90, with a tolerance of five standard errors."""
    num, covered = 120, 0
    for seed in range(num):
        found = data.run(kinked([2, seed], width=width))
        lower, upper = np.asarray(found.regions.lower_interval[0])
        covered += lower <= 6.0 <= upper
    assert covered / num > 0.90 - 5 * np.sqrt(0.9 * 0.1 / num)
