"""Rows set aside that may be the noise's own, and what they do to the errors of a law."""

import jax
import numpy as np
import pytest
import rows_data as data

from lisdd_jax.default.noise_tail import continue_tail

NUM, BOUND = 1000, 5.0


def returned(residual, used=NUM):
    aside = (np.abs(residual) > BOUND) & (np.arange(NUM) < used)
    arrays = (residual, np.full(NUM, BOUND), aside, ~aside & (np.arange(NUM) < used))
    return aside, np.asarray(continue_tail(*map(jax.device_put, arrays)))


def test_gross_errors_stand_apart():
    rng = np.random.default_rng(0)
    residual = rng.normal(size=NUM)
    for distance in (6, 8, 300):
        some = residual + distance * (np.arange(NUM) % 20 == 0)
        aside, found = returned(some)
        assert aside.sum() > 30
        assert not found.any()
    residual[5] = 300.0
    assert not returned(residual)[1].any()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_long_tail_goes_on_on_its_side(sign):
    rng = np.random.default_rng(1)
    residual = (np.exp(rng.normal(size=NUM)) - 1.5) / 0.57
    # A gross error on the other side is none of it.
    residual[7] = -40.0
    aside, found = returned(sign * residual)
    assert aside.sum() > 10
    np.testing.assert_array_equal(found, aside & (residual > 0))


@pytest.mark.parametrize("sign", [1, -1])
def test_noise_that_leans_to_a_side_goes_on_beyond_a_gap(sign):
    """None of the rows is in the tail up to the bound, of three scales and more."""
    rng = np.random.default_rng(2)
    drawn = np.exp(0.8 * rng.normal(size=NUM)) - 1.3
    residual = sign * np.where(drawn > 2.9, drawn + 3.0, drawn)
    aside, found = returned(residual)
    assert aside.sum() > 10
    np.testing.assert_array_equal(found, aside)
    # The same rows beside noise that leans to neither side stand apart.
    even = np.where(aside, residual, np.where(rng.random(NUM) < 0.5, 1, -1) * residual)
    assert not returned(even)[1].any()


def test_a_hundred_rows_tell_a_long_tail_from_gross_errors():
    """A law beside lognormal noise lies about at 1.2, with scales of 0.9."""
    rng = np.random.default_rng(3)
    told = {"skewed": 0, "errors": 0}
    for _ in range(60):
        skewed = (np.exp(rng.normal(size=NUM)) - 1.2) / 0.9
        errors = rng.normal(size=NUM) + 8 * (rng.random(NUM) < 0.05)
        for name, residual in (("skewed", skewed), ("errors", errors)):
            aside, found = returned(residual, used=100)
            told[name] += bool(found.any()) or not aside.any()
    assert told["skewed"] > 0.85 * 60
    assert told["errors"] < 0.15 * 60


def test_intervals_cover_under_noise_with_one_long_tail():
    """At least 0.90 of the coefficients; the intercept alone was covered in a quarter."""

    def skewed(rng, axis):
        drawn = np.exp(rng.normal(size=len(axis)))
        return (drawn - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)

    covered = []
    for seed in range(24):
        found = data.run(data.straight([31, seed], data.step(2.0, 7), noise=skewed))
        error = np.sqrt(np.diag(found.covariance))
        covered.append(np.abs(found.coefficients - np.array([1.0, 2.0, -1.0])) < 1.96 * error)
    share = np.mean(covered)
    assert share > 0.90 - 5 * np.sqrt(0.9 * 0.1 / np.size(covered))
    assert np.mean(covered, axis=0)[0] > 0.6
