"""Rows of a law that a soft end leaks into."""

import jax
import jax.numpy as jnp
import numpy as np
import rows_data as data

from lisdd_jax.default.ends import Spans
from lisdd_jax.default.leaks import leaking_rows

NUM = 400
LOW, START, STOP, HIGH = 60, 120, 250, 310
FIND = jax.jit(leaking_rows)


def spans():
    def of(*values):
        return jnp.array(values, jnp.int32)

    cells = jnp.zeros((2, 4), bool)
    return Spans(of(1, 0) > 0, of(START, 0), of(STOP, 0), of(LOW, 0), of(HIGH, 0), cells)


POSITION = jax.device_put(np.array([[START, 0], [STOP, 0]], np.int32))


def by_loops(residual, law, variance):
    """Every run of rows up to an end."""
    rows = np.flatnonzero(law)
    left = np.where(law, residual - residual[rows].mean(), 0.0)
    found = np.zeros(NUM, bool)
    for end, others in ((START, range(LOW, START)), (STOP, range(STOP + 1, HIGH + 1))):
        runs = [slice(min(end, other), max(end, other)) for other in others]
        counts = np.array([law[run].sum() for run in runs])
        shares = 1 - counts / len(rows)
        level = np.array([left[run].sum() for run in runs]) ** 2 / np.maximum(counts * shares, 1)
        level = np.where(counts <= 0.5 * len(rows), level / variance, -np.inf)
        if level.max() > 8:
            found[runs[int(np.argmax(level))]] = True
    return found


def drawn(seed, leak=0.0):
    rng = np.random.default_rng(seed)
    row = np.arange(NUM)
    law = ((row < START) | (row >= STOP)) & (rng.random(NUM) < 0.9)
    return rng.normal(size=NUM) + leak * np.exp(-np.abs(row - STOP) / 15), law


def test_the_run_is_that_of_the_largest_level():
    several = 0
    for seed in range(20):
        residual, law = drawn(seed, leak=0.2 * seed)
        found = FIND(residual, law, spans(), POSITION, jnp.asarray(1.3))
        expected = by_loops(residual, law, 1.3)
        np.testing.assert_array_equal(np.asarray(found), expected)
        several += expected.any()
    assert 8 < several < 20


def test_sharp_ends_lose_few_rows():
    """One in twenty, of two ends each; five standard errors beyond."""
    found = [
        np.asarray(FIND(*drawn([4, seed]), spans(), POSITION, jnp.ones(()))) for seed in range(300)
    ]
    ends = np.mean([[rows[:START].any(), rows[STOP:].any()] for rows in found])
    assert ends < 0.05 + 5 * np.sqrt(0.05 * 0.95 / 600)


def test_intervals_cover_beside_a_soft_step():
    """At least 0.90 of the coefficients; 0.68 where all rows up to the end serve the law."""

    def soft(axis, first):
        return 9 / (1 + np.exp(-(axis - 7.5) / 0.4))

    covered = []
    for seed in range(24):
        found = data.run(data.straight([41, seed], soft))
        error = np.sqrt(np.diag(found.covariance))
        covered.append(np.abs(found.coefficients - np.array([1.0, 2.0, -1.0])) < 1.96 * error)
    assert np.mean(covered) > 0.90 - 5 * np.sqrt(0.9 * 0.1 / np.size(covered))
