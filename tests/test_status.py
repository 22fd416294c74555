from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax import FailedError, Status, describe, raise_if_failed
from lisdd_jax.status import FIRST_FAILURE, first_failure, is_failure, is_undefined, status_if


@pytest.mark.parametrize("status", list(Status))
def test_every_code_has_a_cause_and_a_remedy(status):
    name, words = describe(status).split(": ", 1)
    cause, remedy = words.split("; ", 1)
    assert name == status.name
    assert cause
    assert remedy


def test_codes_can_be_described_from_arrays():
    assert describe(jnp.int32(104)) == describe(np.int64(104)) == describe(Status.ZERO_SCALE)


@pytest.mark.parametrize("code", [-1, 99, 999])
def test_unknown_codes_are_refused(code):
    with pytest.raises(ValueError, match="status must be one of the codes of Status"):
        describe(code)


@pytest.mark.parametrize(
    "statuses, expected",
    [
        ((), Status.OK),
        ((0, 0), Status.OK),
        ((0, 2, 1), 2),
        ((2, 104, 101), 104),
        ((104, 2), 104),
        ((0, 101, 0), 101),
        ((1, 3, 102), 102),
    ],
)
def test_the_first_failure_wins_then_the_first_note(statuses, expected):
    found = first_failure(*statuses)
    assert found.dtype == jnp.int32
    assert found == expected
    traced = jax.jit(lambda codes: first_failure(*codes))([jnp.int32(s) for s in statuses])
    assert traced == expected


def test_notes_come_before_failures():
    for status in Status:
        assert bool(is_failure(jnp.int32(status))) == (status >= FIRST_FAILURE)
    assert status_if(jnp.bool_(False), Status.ZERO_SCALE) == Status.OK
    assert status_if(jnp.bool_(True), Status.ZERO_SCALE) == Status.ZERO_SCALE


def test_numbers_are_undefined_after_a_failure_and_where_nothing_was_asked():
    undefined = [status for status in Status if is_undefined(status)]
    assert undefined == [Status.NOTHING_FLAGGED, *(s for s in Status if s >= FIRST_FAILURE)]
    assert bool(is_undefined(jnp.int32(Status.NOTHING_FLAGGED)))


def test_failures_raise_on_the_host():
    raise_if_failed(SimpleNamespace(status=jnp.int32(Status.EXACT_FIT)))
    with pytest.raises(FailedError, match="ZERO_SCALE: .*; check"):
        raise_if_failed(SimpleNamespace(status=jnp.int32(Status.ZERO_SCALE)))
    batch = SimpleNamespace(status=jnp.array([0, 101, 3, 104]))
    with pytest.raises(FailedError, match=r"TOO_FEW_ROWS: .*\(2 of 4 results failed\)"):
        raise_if_failed(batch)
