"""The numbers of the published method and of the public functions stay what they were."""

import data.frozen_outputs as frozen
import numpy as np
import pytest

from lisdd_jax.status import Status

# A reduction may sum in another order; nothing else may change. In single precision a design with
# an offset of 1e4 is among the problems: there 1e-4 of a coefficient is rounding.
RELATIVE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 3e-4}
# Groups that take long to compile.
SLOW = ("oscillator", "four", "single")


@pytest.fixture(scope="module")
def record():
    return frozen.read()


def assert_as_recorded(found, recorded, name, relative=None):
    """Equal where there is nothing to round, else relative to the largest number of the array."""
    assert found.dtype == recorded.dtype, name
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, recorded, err_msg=name)
        return
    relative = RELATIVE[found.dtype] if relative is None else relative
    if name.endswith("p_value") and not name.endswith("log_p_value"):
        # A tail is as good as its logarithm.
        tiny = np.finfo(found.dtype).tiny
        found, recorded = (np.log(np.maximum(part, tiny)) for part in (found, recorded))
    finite = np.abs(recorded[np.isfinite(recorded)])
    largest = np.max(finite, initial=np.finfo(found.dtype).tiny)
    np.testing.assert_allclose(
        found, recorded, rtol=relative, atol=relative * largest, err_msg=name
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in frozen.GROUPS],
)
def test_outputs_are_as_recorded(record, name):
    for i in range(frozen.GROUPS[name].num):
        found = frozen.outputs(name, i)
        recorded = {key: part[i] for key, part in record.items() if key.startswith(f"{name}/")}
        recorded = {path.removeprefix(f"{name}/"): value for path, value in recorded.items()}
        if recorded.get("fit_trimmed.status") == Status.EXACT_FIT:
            # Which rows of an exact fit are kept, and what is left there, is rounding.
            bits = found["fit_trimmed.kept"], recorded.pop("fit_trimmed.kept")
            assert len({int(np.unpackbits(kept).sum()) for kept in bits}) == 1
            for objective in (
                found["fit_trimmed.objective"],
                recorded.pop("fit_trimmed.objective"),
            ):
                assert 0 <= objective < 1e-24
        for part, expected in recorded.items():
            assert_as_recorded(found[part], expected, f"{part} of problem {i}")


def test_shared_outputs_are_as_recorded(record):
    found = frozen.shared_outputs()
    assert {f"shared/{name}" for name in found} == {n for n in record if n.startswith("shared/")}
    for name, value in found.items():
        assert_as_recorded(value, record[f"shared/{name}"], name)


def test_there_are_fifty_problems_of_many_kinds(record):
    assert len(list(frozen.names())) == 50
    verdicts = np.concatenate([record[f"{name}/diagnose.verdict"] for name in frozen.GROUPS])
    assert len(np.unique(verdicts)) >= 4
