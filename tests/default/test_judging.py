"""How findings compare, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from lisdd_jax.default import judging

NAN, INF = np.nan, np.inf


def task(*, trusted=(), other_rows=0.0, num_cells=6):
    """Six cells of ten rows, of which the first four obey the law."""
    cells = np.arange(6)
    look = SimpleNamespace(
        trusted=np.isin(cells, trusted),
        cells=SimpleNamespace(num=np.int64(num_cells)),
        places=np.arange(7.0),
    )
    place = SimpleNamespace(
        clean=cells < 4,
        rival=cells >= 4,
        rival_gap=np.float64(3.0),
        other_rows=np.float64(other_rows),
    )
    fits = SimpleNamespace(num_rows=np.full(6, 10.0), present=np.ones(6, bool))
    survey = SimpleNamespace(place=place, fits=fits, variance=np.float64(1))
    return SimpleNamespace(state=SimpleNamespace(look=look), survey=survey)


def stands(*sizes):
    members = np.zeros((2, 6), bool)
    members[0, 4:] = True
    return SimpleNamespace(
        members=members, present=np.array([size > 0 for size in sizes]), placed=np.bool_(True)
    )


def settled(*sizes):
    return SimpleNamespace(
        lower=np.array([4.0, NAN]), upper=np.array([INF, NAN]), num_rows=np.array(sizes, np.int32)
    )


def test_ends_within_the_axis_are_counted():
    ends = SimpleNamespace(lower=np.array([4.0, -INF, 1.0]), upper=np.array([INF, 2.0, 3.0]))
    assert judging.count_ends(ends, np.array([True, True, True])) == 4
    assert judging.count_ends(ends, np.array([True, True, False])) == 2


def test_a_trusted_cell_vouches_for_the_law():
    assert not judging.is_vouched_for(task())
    assert judging.is_vouched_for(task(trusted=[2]))


def test_share_of_the_rival_that_has_the_region():
    """Twenty rows for forty of the law, on a third of the axis."""
    share = judging.share_of_rival(task(), stands(20, 0), settled(20, 0))
    assert share == pytest.approx(0.5)
    far = task()
    far.survey.place.rival_gap = np.float64(1e9)
    assert judging.share_of_rival(far, stands(20, 0), settled(20, 0)) == 0


@pytest.mark.parametrize(
    "sizes, share, changes, expected",
    [
        ((20, 0), 0.4, {}, False),
        ((20, 0), 0.5, {}, True),
        ((20, 0), 0.5, {"trusted": [0]}, False),
        ((20, 0), 0.0, {"other_rows": 81.0}, True),
        ((20, 0), 0.0, {"other_rows": 79.0}, False),
        ((20, 0), 0.0, {"num_cells": 3}, True),
        # One of two regions holds more than twice the rows outside of both.
        ((41, 2), 0.0, {}, True),
        ((33, 5), 0.0, {}, False),
        ((45, 0), 0.0, {}, False),
    ],
)
def test_who_can_tell_which_rows_follow_the_law(sizes, share, changes, expected):
    given = (task(**changes), stands(*sizes), settled(*sizes), np.float64(share))
    assert judging.has_rival(*given) == expected
