"""Runs of rows too short for cells to show, and what is none."""

import default_data
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rows_data as data

from lisdd_jax import Config, Verdict
from lisdd_jax.default import narrow_runs
from lisdd_jax.default.cells import SortedCells
from lisdd_jax.default.narrow_runs import (
    MOST_RUNS,
    NarrowRun,
    find_narrow_run,
    find_narrow_runs,
)
from lisdd_jax.default.row_scores import Scores

NUM = 240
EVERY, BETWEEN = np.ones(NUM, bool), np.ones(NUM + 1, bool)
LEVEL = np.log(0.05)


@jax.jit
def find(score, asked=EVERY, possible=BETWEEN, shared=1.0):
    """Of scores in one noise scale."""
    score = jnp.clip(score, -4, 4)
    asked, possible = map(jnp.asarray, (asked, possible))
    return find_narrow_run(Scores(score, score), asked, possible, jnp.asarray(shared, score.dtype))


@jax.jit
def find_all(score, least=-LEVEL, first_that_counts=0):
    """Runs one after the other, of which those that begin early may not count."""
    score = jnp.clip(score, -4, 4)

    def counts(run):
        return run.start >= first_that_counts

    given = (jnp.asarray(EVERY), jnp.asarray(BETWEEN), jnp.ones((), score.dtype), least)
    return find_narrow_runs(Scores(score, score), *given, counts)


rows_of = jax.jit(lambda runs: runs.rows(NUM))


def spans_of(runs):
    return sorted(zip(runs.start.tolist(), runs.stop.tolist(), strict=True))


def drawn(seed, num=NUM):
    return np.random.default_rng([31, seed]).normal(size=num)


def said(score):
    """What scores say for a run."""
    beyond = np.clip(score, -4, 4) - 1.5
    return np.where(beyond > 0, beyond, 3 * beyond)


def by_loops(score, possible):
    """Every segment of rows between possible ends, the first of the largest sum."""
    places = np.flatnonzero(possible)
    sums = np.concatenate([[0.0], np.cumsum(said(score))])
    return max((sums[j] - sums[i], -j, -i) for i in places for j in places if i <= j)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_run_is_the_segment_of_the_largest_sum(sign):
    possible = np.random.default_rng(0).random(NUM + 1) < 0.6
    possible[[0, -1]] = True
    for seed in range(6):
        score = drawn(seed)
        score[100 + seed : 112] += 4
        score = np.clip(score, -4, 4)
        found = find(sign * score, EVERY, possible)
        _, stop, start = by_loops(score, possible)
        assert (int(found.start), int(found.stop)) == (-start, -stop)
        assert -float(found.gain) < LEVEL
        np.testing.assert_array_equal(
            np.flatnonzero(rows_of(found)), np.arange(int(found.start), int(found.stop))
        )


def rate_of(share):
    """The root of ``E exp(rate said) = 1`` of scores in bins, at their upper ends."""
    low, high, ends = 0.0, 20.0, np.linspace(-4, 4, 65)[1:]
    for _ in range(60):
        rate = 0.5 * (low + high)
        low, high = (rate, high) if share @ np.exp(rate * said(ends)) <= 1 else (low, rate)
    return rate


@pytest.mark.parametrize("others", [0, 2])
def test_its_p_value_is_that_of_the_rate_at_which_such_sums_fall_off(others):
    """Of all rows, and of those beside the run, whatever their sign."""
    score = drawn(0)
    score[50:56] = 4.0
    score[58 : 58 + others] = -4.0
    found = find(score)
    start, stop = int(found.start), int(found.stop)
    edges = np.linspace(-4, 4, 65)

    def in_bins(scores):
        return np.histogram(np.clip(scores, -4, 4), edges)[0]

    reach = max(stop - start, 8)
    beside = np.r_[score[start - reach : start], score[stop : stop + reach]]
    share, local = in_bins(score) / NUM, in_bins(np.abs(beside))
    local = (local + 4 * share) / (local.sum() + 4)
    rate = min(rate_of(share), rate_of(local))
    assert (rate < rate_of(share)) == (others > 0)
    expected = rate * said(score[start:stop]).sum() - np.log(2 * (NUM + 1))
    # Chords of a convex function: none too large.
    assert expected * 0.98 < float(found.gain) <= expected * (1 + 1e-9)


NOISES = {
    "normal": lambda rng: rng.normal(size=NUM),
    "Student's t": lambda rng: rng.standard_t(3, NUM),
    "gross errors on one side": lambda rng: rng.normal(size=NUM) + 8 * (rng.random(NUM) < 0.07),
    "lognormal": lambda rng: rng.lognormal(0, 0.8, NUM) - np.exp(0.32),
}


@pytest.mark.parametrize("noise", NOISES)
def test_gross_errors_in_any_order_are_no_run(noise):
    draws = np.stack([NOISES[noise](np.random.default_rng([7, i])) for i in range(400)])
    gains = np.asarray(jax.vmap(find)(draws).gain)
    error = np.sqrt(0.05 * 0.95 / len(gains))
    assert np.mean(-gains < LEVEL) < 0.05 + 5 * error


def test_a_cluster_of_gross_errors_of_either_sign_is_no_run():
    gains = []
    for seed in range(300):
        rng = np.random.default_rng([8, seed])
        near = np.abs(np.arange(NUM) - 150) < 0.05 * NUM
        bad = near & (rng.random(NUM) < 0.5)
        gains.append(drawn(seed) + np.where(bad, 8 * rng.choice([-1, 1], NUM), 0))
    found = np.asarray(jax.vmap(find)(np.stack(gains)).gain)
    assert np.mean(-found < LEVEL) < 0.05 + 5 * np.sqrt(0.05 * 0.95 / len(found))


def test_a_row_between_them_tells_gross_errors_from_a_run():
    """The same four rows, and four of five with one where the law has it."""
    apart, together = drawn(3), drawn(3)
    apart[89:96] = [0.0, 4.0, 4.0, 0.0, 4.0, 4.0, 0.0]
    together[89:96] = [0.0, 4.0, 4.0, 4.0, 4.0, 0.0, 0.0]
    assert -float(find(together).gain) < LEVEL < -float(find(apart).gain)


def test_two_rows_are_none_and_three_are():
    runs = []
    for num in (2, 3):
        score = drawn(3)
        score[90 : 90 + num] = 4.0
        score[[89, 90 + num]] = 0.0
        runs.append(int(find(score).stop))
    assert runs == [0, 93]


def test_rows_that_depend_on_each_other_count_for_fewer():
    """The correlation is that of the other rows; nobody else may say more of it."""
    score = drawn(5)
    score[90:100] = 4.0
    alone = float(find(score).gain)
    assert float(find(score, EVERY, BETWEEN, 5.0).gain) == pytest.approx(alone)
    slow = np.empty(NUM)
    slow[0] = score[0]
    for i in range(1, NUM):
        slow[i] = 0.8 * slow[i - 1] + 0.6 * drawn(6)[i]
    slow[90:100] = 4.0
    as_one, many = (float(find(slow, EVERY, BETWEEN, shared).gain) for shared in (1.0, 9.0))
    assert as_one > 2 * many


def test_rows_that_are_not_asked_belong_to_no_run():
    score = drawn(1)
    score[60:70] = 4.0
    asked = EVERY.copy()
    asked[50:80] = False
    assert float(find(score, asked).gain) == 0


def test_several_runs_are_found_one_after_the_other():
    """Of either side, the strongest first; each as if the rows of those before were not there."""
    score = drawn(2)
    places = {20: (10, 4.0), 80: (8, -4.0), 140: (7, 4.0)}
    for start, (num, size) in places.items():
        score[start : start + num] = size
        score[[start - 1, start + num]] = 0.0
    found = jax.device_get(find_all(score))
    spans = [(start, start + num) for start, (num, _) in places.items()]
    assert spans_of(found) == [(0, 0)] * (MOST_RUNS - 3) + spans
    asked = EVERY.copy()
    for k in range(3):
        alone = find(score, asked)
        assert (found.start[k], found.stop[k]) == (alone.start, alone.stop)
        assert float(found.gain[k]) == pytest.approx(float(alone.gain))
        asked[int(alone.start) : int(alone.stop)] = False
    assert np.flatnonzero(rows_of(found)).tolist() == [
        row for start, stop in spans for row in range(start, stop)
    ]


def test_a_run_that_does_not_count_hides_no_other():
    score = drawn(2)
    score[20:30] = score[140:147] = 4.0
    score[[19, 30, 139, 147]] = 0.0
    assert spans_of(find_all(score, -LEVEL, 100))[-1] == (140, 147)
    assert spans_of(find_all(score, -LEVEL, 100))[0] == (0, 0)


def test_no_further_run_is_sought_where_none_stands_out():
    score = drawn(2)
    score[20:30] = 4.0
    score[[19, 30]] = 0.0
    gain = float(find(score).gain)
    assert spans_of(find_all(score, gain * 0.99))[-1] == (20, 30)
    assert spans_of(find_all(score, gain * 1.01))[-1] == (0, 0)


def test_cells_of_a_run_hold_some_of_its_rows():
    runs = NarrowRun(np.array([5, 0, 10]), np.array([11, 0, 20]), np.ones(3))
    held = runs.of_cells(np.array([0, 5, 10, 20, 30]))
    assert held.astype(int).tolist() == [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 1, 0]]


def test_a_run_must_be_far_narrower_than_excluded_cells_that_hold_it():
    cells = SortedCells(
        np.repeat(np.arange(4), 30).astype(np.int32),
        np.array([0, 30, 60, 90, 120], np.int32),
        np.int32(4),
    )
    excluded, is_narrow = np.array([False, True, True, False]), jax.jit(narrow_runs.is_narrow)
    narrow = [
        bool(is_narrow(NarrowRun(*map(np.int32, run), np.ones(())), excluded, cells))
        for run in ((0, 30), (40, 54), (40, 56), (50, 79), (50, 85), (95, 120), (0, 0))
    ]
    assert narrow == [True, True, False, True, False, True, True]


def test_cells_beside_excluded_ones_are_not_searched_and_short_runs_of_these_are():
    clean = np.array([1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0], bool)
    asked, short = jax.jit(narrow_runs.cells_to_search)(clean, np.int32(13))
    assert np.flatnonzero(asked).tolist() == [0, 2, 3, 5, 12]
    assert np.flatnonzero(short).tolist() == [2, 3, 12]


def test_single_precision_agrees():
    score = drawn(9)
    score[40:47] += 5
    double, single = find(score), find(score.astype(np.float32))
    assert (int(double.start), int(double.stop)) == (int(single.start), int(single.stop))
    assert single.gain.dtype == np.float32
    assert float(single.gain) == pytest.approx(float(double.gain), rel=1e-4)


def _narrow(seed, num_bad, num=data.NUM):
    """A table with a step over so few rows that one cell or two hold them."""
    table = data.straight(seed, data.sound, num=num)
    low = 60 + 5 * seed
    bad = np.sort(table.axis)[[low, low + num_bad - 1]]
    inside = (table.axis >= bad[0]) & (table.axis <= bad[1])
    return table._replace(response=table.response + 6 * inside), inside


def test_a_step_over_a_few_rows_is_found_with_its_ends():
    right = 0
    for seed in range(8):
        table, inside = _narrow(seed, 10)
        found = data.run(table, seed=seed)
        right += found.verdict == Verdict.DISCREPANCY and (
            data.overlap(found, table.axis, inside) > 0.7
        )
        assert float(found.place.log_p_value) == pytest.approx(
            float(found.place.region_log_p_value[0])
        )
    assert right >= 7


def test_two_short_steps_are_two_regions():
    right = 0
    for seed in range(8):
        table = data.straight([3, seed], data.sound, num=240)
        rank = np.argsort(np.argsort(table.axis))
        inside = ((rank >= 60) & (rank < 68)) | ((rank >= 170) & (rank < 178))
        sign = np.where(rank < 100, 6.0, -6.0)
        table = table._replace(response=table.response + sign * inside)
        # Rows out of use behind them: the programs are those of the other tables.
        *arrays, mask = default_data.rows(*table, num=data.NUM, num_terms=7)
        found = data.run(arrays, seed=seed, mask=mask)
        right += int(found.regions.present.sum()) == 2 and (
            data.overlap(found, table.axis, inside) > 0.7
        )
    assert right >= 7


def test_a_step_that_does_not_matter_is_none():
    table, inside = _narrow(0, 10)
    found = data.run(table, Config(negligible=6.5))
    assert found.verdict == Verdict.CLEAN


def test_rows_that_the_law_is_trusted_on_are_none():
    table, inside = _narrow(0, 10)
    found = data.run(table, trusted=np.abs(table.axis - np.mean(table.axis[inside])) < 2)
    assert not data.overlap(found, table.axis, inside)
