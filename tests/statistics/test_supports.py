import itertools

import brute_force
import jax
import numpy as np
import pytest

from lisdd_jax.statistics.supports import choose_support, sizes, supports, term_places

choose = jax.jit(choose_support)


@pytest.mark.parametrize("num_terms, max_terms", [(1, 1), (1, 3), (4, 2), (5, 5), (20, 3)])
def test_order_of_supports(num_terms, max_terms):
    table = supports(num_terms, max_terms)
    expected = [
        np.isin(np.arange(num_terms), indices)
        for size in range(1, min(max_terms, num_terms) + 1)
        for indices in itertools.combinations(range(num_terms), size)
    ]
    np.testing.assert_array_equal(table, expected)


def test_too_many_supports_are_refused():
    with pytest.raises(
        ValueError, match="max_terms must leave at most 200000 supports of 60 terms"
    ):
        supports(60, 4)


@pytest.mark.parametrize("num_terms, max_terms", [(1, 2), (5, 2), (6, 3)])
def test_places_of_the_terms(num_terms, max_terms):
    place, used = term_places(num_terms, max_terms)
    listed = brute_force.all_supports(num_terms, max_terms)
    assert [row[mask].tolist() for row, mask in zip(place, used, strict=True)] == listed
    assert (place[~used] == np.broadcast_to(place[:, :1], place.shape)[~used]).all()
    assert sizes(num_terms, max_terms).tolist() == [len(support) for support in listed]


@pytest.mark.parametrize("tolerance", [0.0, 0.15, 10.0])
def test_the_choice(tolerance):
    listed = brute_force.all_supports(5, 3)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        errors = rng.gamma(2.0, size=len(listed))
        errors[rng.random(len(listed)) < 0.2] = np.inf
        if seed % 3 == 0:
            errors = np.round(errors, 1)
        expected, within = brute_force.choose_support(errors, listed, tolerance)
        found = choose(errors, sizes(5, 3), tolerance)
        assert found.position == expected
        assert found.equivalent.tolist() == within


def test_nothing_is_chosen_where_no_support_can_be_judged():
    found = choose(np.full(15, np.inf), sizes(5, 2), 0.15)
    assert found.position == 0
    assert not found.equivalent.any()


def test_errors_that_differ_by_rounding_are_equal():
    errors = np.array([2e-20, 1.0, 1e-20])
    assert choose(errors, np.array([1, 1, 2]), 0.15).position == 2
    assert choose(errors, np.array([1, 1, 2]), 0.15, 1e-19).position == 0


def test_of_errors_that_differ_by_rounding_the_first_is_lowest():
    errors = np.array([2.0, 1.0 + 1e-12, 1.0, 1.0 - 1e-12])
    one = np.ones(4, int)
    assert choose(errors, one, 0.15).position == 3
    assert choose(errors, one, 0.15, 1e-11).position == 1
