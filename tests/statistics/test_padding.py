"""Rows out of use at the end of a table."""

import numpy as np
import pytest

from lisdd_jax.statistics.padding import pad_rows, padded_length


def test_lengths_are_few_and_cost_an_eighth_at_most():
    counts = np.arange(1, 5000)
    lengths = np.array([padded_length(int(count)) for count in counts])
    assert (np.diff(lengths) >= 0).all()
    assert (lengths >= counts).all()
    assert (lengths[counts > 64] <= 1.125 * counts[counts > 64]).all()
    # Eight between powers of two, from 64 to 8192 at most, and the least.
    assert len(set(lengths.tolist())) <= 1 + 8 * 7
    # What is padded once stays.
    assert all(padded_length(int(length)) == length for length in set(lengths.tolist()))


@pytest.mark.parametrize("num_rows", [5, 64, 65])
def test_rows_are_repeated_out_of_use(num_rows):
    rng = np.random.default_rng(0)
    given = {
        "design": rng.normal(size=(num_rows, 3)),
        "response": rng.normal(size=num_rows),
        "mask": rng.random(num_rows) < 0.5,
        "edges": np.linspace(0, 1, 4),
        "block": None,
    }
    padded = pad_rows(given)
    length = {5: 64, 64: 64, 65: 72}[num_rows]
    assert list(padded) == list(given)
    assert padded["block"] is None
    np.testing.assert_array_equal(padded["edges"], given["edges"])
    for name in ("design", "response", "mask"):
        found = padded[name]
        assert found.shape == (length, *given[name].shape[1:])
        assert found.dtype == given[name].dtype
        np.testing.assert_array_equal(found[:num_rows], given[name])
    assert not padded["mask"][num_rows:].any()
    for k in range(num_rows, length):
        np.testing.assert_array_equal(padded["design"][k], given["design"][-1])
        assert padded["response"][k] == given["response"][-1]
