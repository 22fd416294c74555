import numpy as np
import pytest
from brute_force_default import SPLITS, fit, held_out_error, residual_sum
from cell_data import THETA, assert_traced_alike, products
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


def act(rows, chosen, num_ends, present=BOTH, vouched=False):
    sums = (rows.sums, curved(rows), whole(rows))
    known = (np.int64(num_ends), np.bool_(vouched), VARIANCE)
    return everywhere.act_everywhere(*sums, chosen, THETA[:2], present, *known, LAYOUT, 2)


def with_curves(rows):
    """Columns with those that the law would bend along, before the response."""
    axis, physics = rows.columns[:, 1], rows.columns[:, LAW]
    powers = axis[:, None] ** np.arange(2, 4)
    bent = np.column_stack([powers, axis[:, None] * physics, (physics @ THETA[:2]) ** 2])
    return np.column_stack([rows.columns[:, :-1], bent, rows.columns[:, -1]])


def curved(rows):
    """Their products inside and outside of the regions, in four folds."""
    columns, outside = with_curves(rows), (rows.region == rows.num_regions).astype(int)
    gram, _ = products(columns, 4 * outside + rows.fold, 8)
    return gram.reshape(2, 4, *gram.shape[1:])


def whole(rows):
    """Products of all rows by their weights."""
    root = weights(rows)[:, None] * rows.columns
    return root.T @ root


def weights(rows):
    """Roots of the weights ``(n,)``, as if the noise were twice as large from half way on."""
    num = len(rows.columns)
    return np.where(np.arange(num) < num // 2, 1.0, 0.5) / np.sqrt(VARIANCE)


def loops_everywhere(rows, chosen, num_ends):
    """The comparison of section 3.8 by loops over splits, supports and rows."""
    outside, errors = rows.part(rows.num_regions), []
    for split in SPLITS:
        parts = [rows.part(rows.num_regions, half) for half in split]
        targets = [part[:, -1] for part in parts]
        errors.append(held_out_error([part[:, LAW] for part in parts], targets))
    law = np.mean(errors)
    local = law
    for r in range(rows.num_regions):
        local += error_of(rows, [r], np.flatnonzero(chosen.use[r]))
    price = VARIANCE * np.log(len(rows.columns))
    further = max(num_ends - 1, 0)
    excused = further or len(outside) < len(rows.columns) / 2

    def rivals(error, there, asked, allowed):
        shown = law - there > asked or (excused and law - there > -allowed)
        return error < local + price * further and shown

    supports = [[2, 3] + [4 + j for j in support] for support in SUPPORTS]
    errors = [predicted(rows, rows.columns, support)[0] for support in supports]
    best = int(np.argmin(errors))
    limit = len(SUPPORTS[best]) * price
    named = rivals(*predicted(rows, rows.columns, supports[best]), limit, limit)
    wide = with_curves(rows)
    curves = [
        rivals(*predicted(rows, wide, list(range(num))), 4 * price, 0)
        for num in (LAYOUT.size + 1, wide.shape[1] - 1)
    ]
    paid = VARIANCE * (2 + 2 * np.log(3) + np.log(len(rows.columns)))
    told = np.argmin([e + paid * len(s) for e, s in zip(errors, SUPPORTS, strict=True)])
    return named or any(curves), named, told


def predicted(rows, columns, chosen):
    """Held-out errors of some columns fitted on all rows, of all rows and of those outside."""
    error = there = 0.0
    for half in [half for split in SPLITS for half in split]:
        fitted = np.isin(rows.fold, half)
        weights = fit(columns[fitted][:, chosen], columns[fitted][:, -1])[0]
        left = (columns[:, -1] - columns[:, chosen] @ weights) ** 2
        error += left[~fitted].sum()
        there += left[~fitted & (rows.region == rows.num_regions)].sum()
    return error / len(SPLITS), there / len(SPLITS)


def loops_without_regions(rows):
    """Whether a support saves more than three variances per term, which, and how much."""
    columns = weights(rows)[:, None] * rows.columns
    saved = [
        residual_sum(columns[:, LAW], columns[:, -1])
        - residual_sum(columns[:, [2, 3, *(4 + j for j in support)]], columns[:, -1])
        - 3 * len(support)
        for support in SUPPORTS
    ]
    paid = 2 + 2 * np.log(3) + np.log(len(columns))
    told = np.argmax([s - paid * len(k) for s, k in zip(saved, SUPPORTS, strict=True)])
    return max(saved) > 0, told, max(saved)


EVERYWHERE = {
    "local": ([term(0), term(2)], None, 2, False, False),
    "one local": ([term(1), nothing], None, 1, False, False),
    "on all rows": ([nothing, nothing], term(1), 1, True, True),
    "piece by piece": ([nothing, nothing], term(1), 4, True, True),
    "outside speaks against it": ([term(1), term(1)], None, 10_000, False, False),
    "bent along the axis": ([nothing, nothing], lambda columns: columns[:, 1] ** 2, 1, True, False),
    "bent piece by piece": ([nothing, nothing], lambda columns: columns[:, 1] ** 3, 4, True, False),
    # A term that is like its column is named by chance.
    "a drift": ([nothing, nothing], lambda columns: columns[:, 1] * columns[:, 2], 1, True, None),
}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_terms_on_all_rows_against_terms_in_regions(name):
    effects, acting, num_ends, wins, named = EVERYWHERE[name]
    for seed in range(4):
        rows = region_rows(seed, (60, 70, 150), effects, everywhere=acting)
        chosen = choose(rows)
        found = act(rows, chosen, num_ends)
        expected = loops_everywhere(rows, chosen, num_ends)
        assert bool(found.wins) == expected[0] == wins
        assert bool(found.named) == expected[1]
        assert named is None or expected[1] == named
        assert found.support == expected[2]
        assert found.gain == 0


def test_few_rows_outside_need_not_show_what_acts_everywhere():
    """They cannot, where the regions hold most of the rows; of most rows it is asked, and where
    the law is vouched for."""
    wins = []
    for sizes in ((80, 60, 40), (20, 20, 110)):
        rows = region_rows(7, sizes, [nothing, nothing], everywhere=term(1, 0.15))
        chosen = choose(rows)
        found = act(rows, chosen, 1)
        assert (bool(found.wins), bool(found.named)) == loops_everywhere(rows, chosen, 1)[:2]
        wins.append(bool(found.named))
        assert not act(rows, chosen, 1, vouched=True).named
    assert wins == [True, False]


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
    assert bool(found.named)
    wins, support, gain = loops_without_regions(empty)
    assert bool(found.wins) == wins
    assert wins
    assert found.support == support
    assert found.gain == pytest.approx(gain, rel=1e-9)


@pytest.mark.parametrize("present", [True, False])
def test_traced_alike(present):
    rows = region_rows(0, (60, 70, 150), [term(0), term(2)])
    there = np.full(2, present)

    def run(sums, bent, total, theta, there, variance):
        chosen = form.choose_form(sums, theta, there, variance, LAYOUT, 2, 0.15)
        return everywhere.act_everywhere(
            sums, bent, total, chosen, theta, there, there.sum(), ~there[0], variance, LAYOUT, 2
        )

    assert_traced_alike(run, rows.sums, curved(rows), whole(rows), THETA[:2], there, VARIANCE)
