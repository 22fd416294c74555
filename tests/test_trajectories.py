"""Rows from records, with their gaps, segments and missing samples: identities and filters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import savgol_filter

from lisdd_jax import hybrid

TIMES = np.linspace(0.0, 3.0, 301)


def project(*args, **options):
    return jax.device_get(hybrid.project(*args, **options))


def local_polynomial(*args, **options):
    return jax.device_get(hybrid.local_polynomial(*args, **options))


def uneven(num=240, seed=0):
    gaps = np.random.default_rng(seed).uniform(0.5, 1.5, num)
    return 3 * (np.cumsum(gaps) - gaps[0]) / (np.sum(gaps) - gaps[0])


@pytest.mark.parametrize("derivative", [0, 1])
def test_smoothing_is_the_savitzky_golay_filter(derivative):
    values = np.random.default_rng(0).normal(size=(301, 2))
    found = local_polynomial(TIMES, values, half_window=4, derivative=derivative)
    expected = savgol_filter(values, 9, 3, deriv=derivative, delta=0.01, axis=0)
    size = np.abs(expected).max()
    np.testing.assert_allclose(found.values, expected, atol=1e-9 * size)


def test_smoothing_keeps_cubics_at_uneven_times():
    times = uneven()
    cubic = times**3 - 2 * times + 1
    found = local_polynomial(times, cubic, half_window=5)
    np.testing.assert_allclose(found.values, cubic, atol=1e-9)
    slope = local_polynomial(times, cubic, half_window=5, derivative=1)
    np.testing.assert_allclose(slope.values, 3 * times**2 - 2, atol=1e-7)


def test_the_noise_gain_is_that_of_simulated_noise():
    noise = np.random.default_rng(0).normal(size=(301, 4000))
    found = local_polynomial(TIMES, noise, half_window=3, derivative=1)
    spread = np.std(found.values, axis=1)
    # Five standard errors of a standard deviation from 4000 values.
    np.testing.assert_allclose(spread / found.noise_gain, 1.0, atol=5 / np.sqrt(2 * 4000))


@pytest.mark.parametrize("times", [TIMES, uneven()], ids=["even", "uneven"])
def test_projection_is_exact_for_an_exact_law(times):
    rows = project(times, *law(times), window=10, num_tests=3)
    assert rows.response.shape == (3 * (len(times) // 10),)
    assert rows.mask.all()
    assert worst(rows) < 2e-8


def test_the_noise_of_the_rows_is_white_with_the_variance_of_the_measurements():
    noise = 0.3 * np.random.default_rng(1).normal(size=(3000, 60))
    times, options = TIMES[:60], {"window": 12, "num_tests": 3}
    several = jax.vmap(lambda state: hybrid.project(times, state, times[:, None], **options))
    rows = jax.device_get(several(noise))
    covariance = rows.response.T @ rows.response / 3000 / 0.09
    np.testing.assert_allclose(covariance, np.eye(15), atol=5 * np.sqrt(2 / 3000))


LAW = np.array([1.5, 0.7])


def law(times):
    """State and rates: ``u' = a cos(t) + b t`` for ``u = a sin(t) + b t^2 / 2``."""
    times = np.asarray(times)
    state = LAW[0] * np.sin(times) + LAW[1] * times**2 / 2
    return state, np.stack([np.cos(times), times], axis=1)


def worst(rows):
    """How far the identity of the integral form is from holding, in the rows of a window."""
    left = np.asarray(rows.response) - np.asarray(rows.columns) @ LAW
    mask = np.asarray(rows.mask)
    assert np.isnan(left[~mask]).all()
    return np.max(np.abs(left[mask]))


def test_no_window_straddles_a_gap():
    times = np.concatenate([TIMES[:154], TIMES[154:] + 40.0])
    state, rates = law(times)
    rows = project(times, state, rates, window=10, num_tests=2)
    assert worst(rows) < 2e-8
    # 154 and 147 samples hold 15 and 14 windows.
    assert rows.mask.sum() == 2 * 29
    assert rows.num_left_over == 301 - 290
    bridged = project(times, state, rates, window=10, num_tests=2, largest_gap=np.inf)
    assert bridged.mask.all()
    assert worst(bridged) > 1


def test_no_window_straddles_joined_trajectories():
    """Time goes on evenly, so only ``segment`` tells; where it starts anew, the message says so."""
    first, second = law(TIMES[:154]), law(TIMES[:147] + 2.0)
    state, rates = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    segment = np.arange(301) >= 154
    assert worst(project(TIMES, state, rates, window=10)) > 0.1
    rows = project(TIMES, state, rates, window=10, segment=segment.astype(int))
    assert worst(rows) < 2e-8
    anew = np.concatenate([TIMES[:154], TIMES[:147]])
    with pytest.raises(ValueError, match="another trajectory begins, say so with segment"):
        project(anew, state, rates, window=10)
    again = project(anew, state, rates, window=10, segment=segment.astype(int))
    np.testing.assert_allclose(again.columns[:15], rows.columns[:15], rtol=1e-9)
    assert worst(again) < 2e-8


def test_missing_samples_are_left_out():
    """Single ones are bridged; many in a row are a gap. Padding changes nothing."""
    mask = np.random.default_rng(0).random(301) > 0.1
    mask[200:230] = False
    state, rates = law(TIMES)
    lost = np.where(mask, state, np.nan), np.where(mask[:, None], rates, np.nan)
    rows = project(TIMES, *lost, window=10, num_tests=2, mask=mask)
    assert worst(rows) < 1e-6
    assert 5 * int(rows.mask.sum()) + int(rows.num_left_over) == mask.sum()
    left, right = mask[:200].sum(), mask[230:].sum()
    assert rows.mask.sum() == 2 * (left // 10 + right // 10)
    kept = project(TIMES[mask], state[mask], rates[mask], window=10, num_tests=2)
    num = len(kept.response)
    for name in ("response", "columns", "means", "time", "mask"):
        np.testing.assert_array_equal(getattr(rows, name)[:num], getattr(kept, name))
    total = lambda state: jnp.nansum(  # noqa: E731
        hybrid.project(TIMES, state, lost[1], window=10, mask=mask).response
    )
    slope = np.asarray(jax.jit(jax.grad(total))(lost[0]))
    assert np.isfinite(slope).all()
    assert (slope[~mask] == 0).all()


def test_short_pieces_are_integrated_by_the_trapezoid():
    times = np.array([0.0, 1.0, 2.0, 50.0, 51.0, 52.0, 53.0])
    rows = project(times, times**2 / 2, times[:, None], window=2)
    assert rows.mask.tolist() == [True, True, True]
    assert rows.num_left_over == 1
    np.testing.assert_allclose(rows.response, rows.columns[:, 0], rtol=1e-12)


def test_smoothing_stays_within_pieces():
    times = np.concatenate([TIMES[:154], TIMES[154:] + 40.0])
    jump = np.where(times < 20, 0.0, 100.0)
    mask = np.ones(301, bool)
    mask[[5, 200]] = False
    values = np.where(mask, TIMES**3 + jump, np.nan)
    found = local_polynomial(times, values, half_window=4, derivative=1, mask=mask)
    np.testing.assert_allclose(found.values[mask], 3 * TIMES[mask] ** 2, atol=1e-6)
    assert np.isnan(found.values[~mask]).all()
    short = np.arange(301) >= 296
    found = local_polynomial(TIMES, TIMES, half_window=4, segment=short.astype(int))
    np.testing.assert_array_equal(np.isnan(found.values), short)


def test_under_jit_it_is_the_same():
    mask = np.arange(301) % 50 != 7
    state, rates = law(TIMES)

    def rows(times, mask):
        return hybrid.project(times, state, rates, window=10, mask=mask, largest_gap=0.1)

    eager, traced = rows(TIMES, mask), jax.jit(rows)(TIMES, mask)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), eager, traced)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: project(TIMES[::-1], TIMES, TIMES[:, None], window=5), "times must increase"),
        (lambda: project(TIMES, TIMES[1:], TIMES[:, None], window=5), "state must have one row"),
        (lambda: project(TIMES, TIMES, TIMES[:, None], window=400), "window must be at most"),
        (lambda: project(TIMES, TIMES, TIMES[:, None], window=3, num_tests=3), "window must be"),
        (lambda: local_polynomial(TIMES, TIMES, half_window=1), "degree < 2 half_window"),
        (lambda: project(TIMES[:0], TIMES[:0], TIMES[:0, None], window=5), "at least one entry"),
        (lambda: project(TIMES, TIMES, TIMES[:, None], window=5, largest_gap=0), "largest_gap"),
        (lambda: project(TIMES, TIMES, TIMES[:, None], window=5, segment=[1]), "segment must have"),
        (
            lambda: project(TIMES, TIMES, TIMES[:, None], window=50, mask=np.arange(301) < 40),
            "window must be at most the 40 samples of the longest piece",
        ),
        (
            lambda: local_polynomial(TIMES, TIMES, half_window=3, segment=np.arange(301)),
            "half_window must leave some piece",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
