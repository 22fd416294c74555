"""Sums over runs of a long table, against the rows themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import run_sums

NUM, COLUMNS = run_sums.LONG + 1234, 3


def rows(seed):
    rng = np.random.default_rng(seed)
    fold = rng.integers(0, 4, NUM).astype(np.int32)
    return rng.normal(size=(COLUMNS, NUM)), fold, rng.random(NUM) > 0.2


@jax.jit
def summed(columns, fold, counts, start, stop):
    def slot_of(row):
        own = (row[None] >= start[:, None]) & (row[None] < stop[:, None])
        return jnp.where(jnp.any(own, 0), jnp.argmax(own, 0), len(start)).astype(jnp.int32)

    pieces = run_sums.sum_pieces(columns, fold, counts)
    ends = jnp.concatenate([start, stop])
    return run_sums.sum_runs(pieces, columns, fold, counts, slot_of, ends, len(start) + 1)


@pytest.mark.parametrize(
    "runs",
    [
        [(0, 0), (0, 0)],
        [(0, 1024), (2048, NUM)],
        [(700, 5000), (5000, 5003)],
        [(3, 4), (9, 20)],
        [(100, NUM - 1), (0, 0)],
        [(0, NUM), (0, 0)],
    ],
)
def test_runs_are_those_of_their_rows(runs):
    """Ends at pieces' bounds, several in one piece, absent, and in the last piece, cut short."""
    columns, fold, counts = rows(len(runs[0]))
    start, stop = (jnp.array(end, jnp.int32) for end in zip(*runs, strict=True))
    found = summed(columns, fold, counts, start, stop)
    outside = np.ones(NUM, bool)
    for slot, (low, high) in enumerate([*runs, (0, 0)]):
        own = np.zeros(NUM, bool)
        own[low:high] = True
        outside &= ~own
        chosen = outside if slot == len(runs) else own
        for k in range(4):
            part = columns[:, chosen & counts & (fold == k)]
            np.testing.assert_allclose(found.gram[slot, k], part @ part.T, atol=1e-9)
            assert int(found.num_rows[slot, k]) == part.shape[1]


def test_short_tables_have_no_pieces():
    columns, fold, counts = rows(0)
    short = slice(run_sums.LONG)
    assert run_sums.sum_pieces(columns[:, short], fold[short], counts[short]) is None


def test_vmap_equals_a_loop():
    several = [jax.device_put(rows(seed)) for seed in range(2)]
    start, stop = jnp.array([700, 6000], jnp.int32), jnp.array([5000, 6001], jnp.int32)
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *several)
    found = jax.vmap(summed, (0, 0, 0, None, None))(*batch, start, stop)
    for k, one in enumerate(several):
        alone = summed(*one, start, stop)
        np.testing.assert_allclose(found.gram[k], alone.gram, atol=1e-9)
        np.testing.assert_array_equal(found.num_rows[k], alone.num_rows)
