import numpy as np
import pytest
from brute_force_default import SPLITS, residual_sum, smallest_within
from cell_data import THETA, assert_traced_alike
from region_data import (
    BOTH,
    LAYOUT,
    SUPPORTS,
    VARIANCE,
    choose,
    error_of,
    region_rows,
    residual,
    term,
)

from lisdd_jax.default import form

TERMS = LAYOUT.terms


def level(columns):
    return 2.0 * columns[:, 0]


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
        for fold in range(4):
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


@pytest.mark.parametrize("difference", np.linspace(0.0, 0.5, 21))
def test_regions_share_unless_their_own_terms_pay_for_their_choice(difference):
    rows = region_rows(3, (60, 70, 150), [term(1, 1 + difference), term(1, 1 - difference)])
    own = [errors_of(rows, [r]) for r in range(2)]
    choices = [smallest_within(errors, SUPPORTS, 0.15)[0] for errors in own]
    apart = sum(errors[i] for errors, i in zip(own, choices, strict=True))
    joint = errors_of(rows, [0, 1])
    one = smallest_within(joint, SUPPORTS, 0.15)[0]
    more = max(sum(len(SUPPORTS[i]) for i in choices) - len(SUPPORTS[one]), 1)
    price = (2 + 2 * np.log(3) + np.log(130)) * VARIANCE
    assert choose(rows).shared == (joint[one] <= apart + price * more)


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


@pytest.mark.parametrize("shared", [False, True])
def test_supports_of_either_half_by_schwarz(apart, together, shared):
    rows = together if shared else apart
    chosen = choose(rows)
    assert chosen.shared == shared
    found = form.split_supports(rows.sums, chosen, THETA[:2], VARIANCE, LAYOUT, 2)
    for k, half, r in np.ndindex(3, 2, 2):
        folds, regions = SPLITS[k][half], [0, 1] if shared else [r]
        part = np.concatenate([rows.part(q, folds) for q in regions])
        price = VARIANCE * np.log(len(rows.part(r, folds)))
        costs = [
            residual_sum(part[:, [4 + i for i in support]], residual(part)) + price * len(support)
            for support in SUPPORTS
        ]
        assert found[k, half, r] == np.argmin(costs)


def test_traced_alike(apart):
    def every(sums, theta, present, variance):
        chosen = form.choose_form(sums, theta, present, variance, LAYOUT, 2, 0.15)
        return chosen, form.split_supports(sums, chosen, theta, variance, LAYOUT, 2)

    assert_traced_alike(every, apart.sums, THETA[:2], BOTH, VARIANCE)
