import dataclasses

import brute_force
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.results import Regions, Verdict, in_interval, reaches_ends, verdict_unless_failed
from lisdd_jax.status import Status

EDGES = np.array([0.0, 1.0, 3.0, 4.0])
LOWER, UPPER = np.array([0.0, 1.5, 3.0, 2.0]), np.array([1.0, 2.0, 4.0, 2.5])
PRESENT = np.array([True, True, True, False])


def regions():
    open_below, open_above = reaches_ends(jnp.asarray(LOWER), jnp.asarray(UPPER), EDGES)
    known = {
        "lower": jnp.asarray(LOWER),
        "upper": jnp.asarray(UPPER),
        "open_below": open_below,
        "open_above": open_above,
        "present": jnp.asarray(PRESENT),
    }
    return Regions(**dict.fromkeys(f.name for f in dataclasses.fields(Regions)) | known)


def test_the_rule_of_membership():
    axis = np.array([-9.0, 0.0, 0.5, 1.0, 1.5, 1.99, 2.0, 2.2, 3.0, 4.0, 50.0, np.nan, np.inf])
    found = jax.jit(lambda axis: regions().contains(axis))(axis)
    for k in range(4):
        for i, value in enumerate(axis):
            ends = LOWER[k], UPPER[k], EDGES[0], EDGES[-1]
            assert bool(found[k, i]) == (PRESENT[k] and brute_force.inside_region(value, *ends))


def test_the_same_rule_on_the_host():
    axis = np.array([0.0, 1.0, np.nan])
    assert in_interval(axis, 0.0, 1.0).tolist() == [True, False, False]
    assert in_interval(axis, 0.5, 0.7, True, True).tolist() == [True, True, False]


@pytest.mark.parametrize(
    "status, expected",
    [
        (Status.OK, Verdict.CLEAN),
        (Status.ROWS_OUTSIDE_EDGES, Verdict.CLEAN),
        (Status.NO_CLEAN_CELLS, Verdict.NO_CLEAN_REGIME),
        (Status.RANK_DEFICIENT_DESIGN, Verdict.NOT_IDENTIFIABLE),
        (Status.NONFINITE_INPUT, Verdict.INSUFFICIENT_DATA),
    ],
)
def test_a_failure_leaves_no_other_verdict(status, expected):
    found = verdict_unless_failed(jnp.int32(status), jnp.int32(Verdict.CLEAN))
    assert found == expected
    assert found.dtype == jnp.int32
