import numpy as np
import pytest
from brute_force_default import fit, held_out_error, residual_sum
from cell_data import THETA, assert_traced_alike
from region_data import (
    BOTH,
    LAW,
    LAYOUT,
    SUPPORTS,
    VARIANCE,
    choose,
    error_of,
    nothing,
    region_rows,
    term,
)

from lisdd_jax.default import everywhere, form


def act(rows, chosen, num_ends, present=BOTH):
    ends = np.int64(num_ends)
    return everywhere.act_everywhere(
        rows.sums, whole(rows), chosen, THETA[:2], present, ends, VARIANCE, LAYOUT, 2
    )


def whole(rows):
    """Products of all rows by their weights."""
    root = weights(rows)[:, None] * rows.columns
    return root.T @ root


def weights(rows):
    """Roots of the weights ``(n,)``, as if the noise were twice as large from half way on."""
    num = len(rows.columns)
    return np.where(np.arange(num) < num // 2, 1.0, 0.5) / np.sqrt(VARIANCE)


def loops_everywhere(rows, chosen, num_ends):
    """The comparison of section 3.8 by loops over folds, supports and rows."""
    outside = [rows.part(rows.num_regions, f) for f in range(2)]
    law = held_out_error([part[:, LAW] for part in outside], [part[:, -1] for part in outside])
    local = law
    for r in range(rows.num_regions):
        local += error_of(rows, [r], np.flatnonzero(chosen.use[r]))
    best = (np.inf, None, None)
    for i, support in enumerate(SUPPORTS):
        columns = [2, 3] + [4 + j for j in support]
        error = there = 0.0
        for here, other in ((0, 1), (1, 0)):
            fitted = rows.columns[rows.fold == here]
            weights = fit(fitted[:, columns], fitted[:, -1])[0]
            held = rows.columns[rows.fold == other]
            error += np.sum((held[:, -1] - held[:, columns] @ weights) ** 2)
            held = outside[other]
            there += np.sum((held[:, -1] - held[:, columns] @ weights) ** 2)
        best = min(best, (error, i, there), key=lambda one: one[0])
    error, chosen, there = best
    price = VARIANCE * np.log(len(rows.columns))
    further = max(num_ends - 1, 0)
    predicts = error < local + price * further
    limit = len(SUPPORTS[chosen]) * price
    shown = law - there > (-limit if further else limit)
    return predicts and shown, chosen


def loops_without_regions(rows):
    """Whether a support saves more than three variances per term, which, and how much."""
    columns = weights(rows)[:, None] * rows.columns
    saved = [
        residual_sum(columns[:, LAW], columns[:, -1])
        - residual_sum(columns[:, [2, 3, *(4 + j for j in support)]], columns[:, -1])
        - 3 * len(support)
        for support in SUPPORTS
    ]
    return max(saved) > 0, np.argmax(saved), max(saved)


EVERYWHERE = {
    "local": ([term(0), term(2)], None, 2, False),
    "one local": ([term(1), nothing], None, 1, False),
    "on all rows": ([nothing, nothing], term(1), 1, True),
    "piece by piece": ([nothing, nothing], term(1), 4, True),
    "outside speaks against it": ([term(1), term(1)], None, 10_000, False),
}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_terms_on_all_rows_against_terms_in_regions(name):
    effects, acting, num_ends, wins = EVERYWHERE[name]
    for seed in range(4):
        rows = region_rows(seed, (60, 70, 150), effects, everywhere=acting)
        chosen = choose(rows)
        found = act(rows, chosen, num_ends)
        expected = loops_everywhere(rows, chosen, num_ends)
        assert bool(found.wins) == expected[0] == wins
        assert found.support == expected[1]
        assert found.gain == 0


def test_terms_on_all_rows_where_no_region_is():
    rows = region_rows(7, (40, 40, 150), [nothing, nothing], everywhere=term(1))
    empty = rows._replace(region=np.full(len(rows.region), 2))
    gram = np.zeros_like(rows.sums.gram)
    count = np.zeros_like(rows.sums.num_rows)
    gram[2], count[2] = rows.sums.gram.sum(0), rows.sums.num_rows.sum(0)
    empty = empty._replace(sums=form.Sums(gram, count))
    absent = np.zeros(2, bool)
    chosen = choose(empty, absent)
    found = act(empty, chosen, 0, absent)
    wins, support, gain = loops_without_regions(empty)
    assert bool(found.wins) == wins
    assert wins
    assert found.support == support
    assert found.gain == pytest.approx(gain, rel=1e-9)


@pytest.mark.parametrize("present", [True, False])
def test_traced_alike(present):
    rows = region_rows(0, (60, 70, 150), [term(0), term(2)])
    there = np.full(2, present)

    def run(sums, total, theta, there, variance):
        chosen = form.choose_form(sums, theta, there, variance, LAYOUT, 2, 0.15)
        return everywhere.act_everywhere(
            sums, total, chosen, theta, there, there.sum(), variance, LAYOUT, 2
        )

    assert_traced_alike(run, rows.sums, whole(rows), THETA[:2], there, VARIANCE)
