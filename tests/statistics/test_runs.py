import jax
import jax.numpy as jnp
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


def test_run_sum_adds_the_cells_of_each_run():
    found = runs.flagged_runs(jnp.array([True, True, False, True, False, False, True]))
    values = jnp.arange(1.0, 8.0).at[2].set(jnp.nan)
    assert runs.run_sum(values, found).tolist() == [3, 4, 7, 0]
    counts = runs.run_sum(jnp.arange(7, dtype=jnp.int32), found)
    assert counts.dtype == jnp.int32
    assert counts.tolist() == [1, 3, 6, 0]
