import jax
import numpy as np
import pytest

from lisdd_jax.statistics import runs


@pytest.mark.parametrize("num_cells", [1, 2, 7, 8])
def test_runs_of_every_pattern(num_cells):
    patterns = (np.arange(2**num_cells)[:, None] >> np.arange(num_cells)) % 2 == 1
    found = jax.jit(jax.vmap(runs.flagged_runs))(jax.device_put(patterns))
    assert found.present.shape == (2**num_cells, runs.num_slots(num_cells))
    for pattern, first, last, present in zip(patterns, *map(np.asarray, found), strict=True):
        edges = np.diff(np.concatenate([[0], pattern.astype(int), [0]]))
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
        assert present.tolist() == [True] * len(starts) + [False] * (len(present) - len(starts))
        assert first[present].tolist() == starts.tolist()
        assert last[present].tolist() == ends.tolist()
        assert not first[~present].any()
        assert not last[~present].any()


@jax.jit
def sums_of_runs(flagged, *values):
    found = runs.flagged_runs(flagged)
    return [runs.run_sum(part, found) for part in values]


def test_run_sum_adds_the_cells_of_each_run():
    flagged = np.array([True, True, False, True, False, False, True])
    values = np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0, 7.0])
    sums, counts = sums_of_runs(flagged, values, np.arange(7, dtype=np.int32))
    assert sums.tolist() == [3, 4, 7, 0]
    assert counts.dtype == np.int32
    assert counts.tolist() == [1, 3, 6, 0]
