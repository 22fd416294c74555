import numpy as np
import pytest
from brute_force_default import all_supports, fit, held_out_error, residual_sum, smallest_within
from cell_data import THETA, assert_traced_alike
from region_data import LAYOUT, region_rows

from lisdd_jax.default import form

LAW, TERMS = LAYOUT.physics, LAYOUT.terms
SUPPORTS = all_supports(3, 2)
VARIANCE = np.float64(0.25)
BOTH = np.ones(2, bool)


def term(number, size=1.0):
    return lambda columns: size * columns[:, 4 + number]


def level(columns):
    return 2.0 * columns[:, 0]


def nothing(columns):
    return 0.0 * columns[:, 0]


def choose(rows, present=BOTH, tolerance=0.15, theta=THETA[:2]):
    return form.choose_form(rows.sums, theta, present, VARIANCE, LAYOUT, 2, tolerance)


def residual(columns, theta=THETA[:2]):
    return columns[:, -1] - columns[:, LAW] @ theta


def error_of(rows, regions, columns, theta=THETA[:2]):
    """Held-out error of some columns in some regions, by loops over folds."""
    parts = [np.concatenate([rows.part(r, f) for r in regions]) for f in range(2)]
    return held_out_error(
        [part[:, columns] for part in parts], [residual(part, theta) for part in parts]
    )


def errors_of(rows, regions):
    return [error_of(rows, regions, [4 + i for i in support]) for support in SUPPORTS]


@pytest.fixture(scope="module")
def apart():
    """Two regions with terms of their own."""
    return region_rows(0, (60, 70, 150), [term(0), term(2)])


@pytest.fixture(scope="module")
def together():
    """Two regions with one term in common."""
    return region_rows(1, (60, 70, 150), [term(1), term(1)])


def test_sums_about_a_law(apart):
    theta = np.array([0.3, -1.2])
    found = form.about_law(apart.sums.gram, theta, LAYOUT)
    for r in range(3):
        for fold in range(2):
            part = apart.part(r, fold).copy()
            part[:, -1] = residual(part, theta)
            np.testing.assert_allclose(found[r, fold], part.T @ part, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_terms_of_their_own(seed):
    rows = region_rows(seed, (60, 70, 150), [term(0), term(2)])
    found = choose(rows)
    assert not found.shared
    for r in range(2):
        errors = errors_of(rows, [r])
        chosen, within = smallest_within(errors, SUPPORTS, 0.15)
        np.testing.assert_allclose(found.errors[r], errors, rtol=1e-9)
        assert found.support[r] == chosen
        assert np.flatnonzero(found.equivalent[r]).tolist() == within
        assert found.error[r] == pytest.approx(errors[chosen], rel=1e-9)
    assert SUPPORTS[found.support[0]] == [0]
    assert SUPPORTS[found.support[1]] == [2]
    assert found.usable.all()
    assert not found.lacking.any()
    expected = np.zeros((2, 7), bool)
    expected[0, 4] = expected[1, 6] = True
    np.testing.assert_array_equal(found.use, expected)


def test_one_term_for_both(together):
    found = choose(together)
    joint = errors_of(together, [0, 1])
    chosen, within = smallest_within(joint, SUPPORTS, 0.15)
    assert found.shared
    assert SUPPORTS[chosen] == [1]
    for r in range(2):
        assert found.support[r] == chosen
        np.testing.assert_allclose(found.errors[r], joint, rtol=1e-9)
        assert np.flatnonzero(found.equivalent[r]).tolist() == within


@pytest.mark.parametrize("difference", np.linspace(0.0, 0.5, 6))
def test_regions_share_unless_their_own_terms_gain_two_variances(difference):
    rows = region_rows(3, (60, 70, 150), [term(1, 1 + difference), term(1, 1 - difference)])
    own = [errors_of(rows, [r]) for r in range(2)]
    choices = [smallest_within(errors, SUPPORTS, 0.15)[0] for errors in own]
    apart = sum(errors[i] for errors, i in zip(own, choices, strict=True))
    joint = errors_of(rows, [0, 1])
    one = smallest_within(joint, SUPPORTS, 0.15)[0]
    more = max(sum(len(SUPPORTS[i]) for i in choices) - len(SUPPORTS[one]), 1)
    assert choose(rows).shared == (joint[one] <= apart + 2 * VARIANCE * more)


def test_absent_regions_count_for_nothing(apart):
    found = choose(apart, np.array([True, False]))
    assert not found.shared
    assert SUPPORTS[found.support[0]] == [0]
    assert found.usable.tolist() == [True, False]
    assert not found.use[1].any()
    assert not found.lacking[1]


@pytest.mark.parametrize("seed", range(4))
def test_a_change_that_no_term_explains_is_lacking(seed):
    rows = region_rows(seed, (60, 70, 150), [level, term(2)])
    found = choose(rows)
    assert found.lacking.tolist() == [True, False]
    by_change = error_of(rows, [0], np.flatnonzero(found.change[0]))
    assert found.change[0, 0]
    assert found.error[0] == pytest.approx(by_change, rel=1e-9)
    assert found.error[0] * 1.15 < min(errors_of(rows, [0]))
    np.testing.assert_array_equal(found.use[0], [*found.change[0], False, False, False])
    assert not found.shared


def test_own_change_is_one_direction_or_all():
    """By Schwarz's criterion, one direction paying for its choice too."""

    def every(columns):
        return columns[:, :4] @ [1.0, -1.0, 1.0, 1.0]

    rows = region_rows(5, (60, 70, 150), [lambda c: 1.5 * c[:, 2], every])
    gram = form.about_law(rows.sums.gram[:-1].sum(1), THETA[:2], LAYOUT)
    found = form.own_change(gram, VARIANCE, LAYOUT)
    for r in range(2):
        part = rows.part(r)
        target = residual(part)
        price = VARIANCE * np.log(len(part))
        # Single directions are scored one by one, all of them together.
        single = [target @ target - residual_sum(part[:, [j]], target) for j in range(4)]
        one = max(single) - price - 2 * VARIANCE * np.log(4)
        whole = target @ target - residual_sum(part[:, :4], target) - 4 * price
        expected = np.arange(4) == np.argmax(single) if one >= whole else np.ones(4, bool)
        np.testing.assert_array_equal(found[r], expected)
    assert found.sum(1).tolist() == [1, 4]


def act(rows, chosen, num_ends, present=BOTH):
    return form.act_everywhere(
        rows.sums, chosen, THETA[:2], present, np.int64(num_ends), VARIANCE, LAYOUT, 2
    )


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
    needed = law - there > len(SUPPORTS[chosen]) * price
    needed = needed or further > 0
    return predicts and needed, chosen


def loops_without_regions(rows):
    """Whether a support saves more than three variances per term, which, and how much."""
    target, law = rows.columns[:, -1], residual_sum(rows.columns[:, LAW], rows.columns[:, -1])
    costs = [
        residual_sum(rows.columns[:, [2, 3, *(4 + j for j in support)]], target)
        + 3 * VARIANCE * len(support)
        for support in SUPPORTS
    ]
    return min(costs) < law, np.argmin(costs), (law - min(costs)) / VARIANCE


EVERYWHERE = {
    "local": ([term(0), term(2)], None, 2, False),
    "one local": ([term(1), nothing], None, 1, False),
    "on all rows": ([nothing, nothing], term(1), 1, True),
    "piece by piece": ([nothing, nothing], term(1), 4, True),
}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_terms_on_all_rows_against_terms_in_regions(name):
    effects, everywhere, num_ends, wins = EVERYWHERE[name]
    for seed in range(4):
        rows = region_rows(seed, (60, 70, 150), effects, everywhere=everywhere)
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


@pytest.mark.parametrize("shared", [False, True])
def test_supports_of_either_fold_by_schwarz(apart, together, shared):
    rows = together if shared else apart
    chosen = choose(rows)
    assert chosen.shared == shared
    found = form.split_supports(rows.sums, chosen, THETA[:2], VARIANCE, LAYOUT, 2)
    for fold in range(2):
        for r in range(2):
            regions = [0, 1] if shared else [r]
            part = np.concatenate([rows.part(q, fold) for q in regions])
            price = VARIANCE * np.log(len(rows.part(r, fold)))
            costs = [
                residual_sum(part[:, [4 + i for i in support]], residual(part))
                + price * len(support)
                for support in SUPPORTS
            ]
            assert found[fold, r] == np.argmin(costs)


def test_traced_alike(apart):
    def every(sums, theta, present, variance):
        chosen = form.choose_form(sums, theta, present, variance, LAYOUT, 2, 0.15)
        ends = present.sum()
        everywhere = form.act_everywhere(sums, chosen, theta, present, ends, variance, LAYOUT, 2)
        supports = form.split_supports(sums, chosen, theta, variance, LAYOUT, 2)
        return chosen, everywhere, supports

    assert_traced_alike(every, apart.sums, THETA[:2], BOTH, VARIANCE)
