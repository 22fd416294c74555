"""Residual sums of hinges and jumps beside an end, against least squares on the rows."""

import jax
import numpy as np
import pytest
from hinge_data import hinge, left_of, region_to_the_end

from lisdd_jax.default import hinges

NUM = 120


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    axis = np.sort(rng.uniform(-3, 9, NUM))
    residual = 0.5 * (axis > 5) + hinge(axis - 5, 0.7) + 0.3 * rng.normal(size=NUM)
    return axis, residual, 0.4 * residual, rng.random(NUM) > 0.05


@pytest.fixture(scope="module")
def found(rows):
    made = region_to_the_end(*rows)
    return made, jax.jit(hinges.profile_ends)(made.rows, made.spans, made.placed)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("place", [0, 40, 95])
def test_hinges_and_jumps_leave_what_least_squares_does(rows, found, side, place):
    axis, residual, corrected, kept = rows
    made, profiles = found
    used = kept & (np.arange(NUM) >= (0, made.start)[side])
    z, r, sign = axis[used], residual[used], (1, -1)[side]
    line, at = np.stack([z**0, z], 1), float(profiles.place[side, 0, place])
    for k, width in enumerate(np.asarray(profiles.width[side, 0])):
        bent = hinge(sign * (z - at), width)
        expected = left_of(np.column_stack([line, bent]), r)
        assert float(profiles.hinges[0, side, 0, place, k]) == pytest.approx(expected, rel=1e-9)
    below = z < at
    expected = left_of(line[below], r[below]) + left_of(line[~below], r[~below])
    assert float(profiles.jumps[0, side, 0, place]) == pytest.approx(expected, rel=1e-9)
    assert float(profiles.num_rows[0, side, 0]) == used.sum()
    expected = np.sum(corrected[used] ** 2)
    assert float(profiles.corrected[0, side, 0]) == pytest.approx(expected, rel=1e-12)


def test_places_and_widths_are_shares_of_the_searched_span(rows, found):
    made, profiles = found
    low, high = rows[0][made.low], rows[0][made.high - 1]
    place, width = np.asarray(profiles.place[0, 0]), np.asarray(profiles.width[0, 0])
    np.testing.assert_allclose(place, np.linspace(low, high, len(place)), rtol=1e-12)
    assert width[0] == 0
    assert width[-1] == pytest.approx(0.32 * (high - low), rel=1e-12)


def test_up_to_the_end_of_the_axis_a_region_has_no_middle(found):
    for part in found[1][:4]:
        np.testing.assert_array_equal(part[0], part[1])


def test_of_a_region_with_two_ends_each_end_sees_the_nearer_half(rows):
    """It may rise and fall, and one hinge with a line would describe neither."""
    axis, residual, corrected, kept = rows
    made = region_to_the_end(*rows)
    stop = NUM - 6
    middle = (made.start + stop) // 2
    placed = made.placed._replace(stop=made.placed.stop.at[0].set(stop))
    profiles = jax.jit(hinges.profile_ends)(made.rows, made.spans, placed)
    for side, (first, last) in enumerate(((0, middle), (middle, NUM))):
        used = kept & (np.arange(NUM) >= first) & (np.arange(NUM) < last)
        z, r, sign = axis[used], residual[used], (1, -1)[side]
        assert float(profiles.num_rows[1, side, 0]) == used.sum()
        assert float(profiles.corrected[1, side, 0]) == pytest.approx(np.sum(corrected[used] ** 2))
        line, at = np.stack([z**0, z], 1), float(profiles.place[side, 0, 40])
        bent = hinge(sign * (z - at), float(profiles.width[side, 0, 2]))
        expected = left_of(np.column_stack([line, bent]), r)
        assert float(profiles.hinges[1, side, 0, 40, 2]) == pytest.approx(expected, rel=1e-9)
