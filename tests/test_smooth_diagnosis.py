"""The smooth form: the hard answer in the limit, second derivatives, transforms, statuses."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differentiated import FUNCTIONS, KEY, NUM, problem, run
from differentiated import smooth_result as smooth

from lisdd_jax import Config, Status, fit_trimmed
from lisdd_jax.hybrid import (
    LOWEST_TEMPERATURE,
    SmoothDiagnosis,
    smooth_diagnose,
    smooth_fit_trimmed,
)


class Hard(NamedTuple):
    """What is compared of hard answers, each with a first axis over the problems."""

    coefficients: np.ndarray
    form: np.ndarray
    flagged: np.ndarray
    scale: np.ndarray
    test_log_p_value: np.ndarray


def one_by_one(function, problems, **options):
    """Values of one problem after the other, in the program of its derivatives."""
    *data, mask = stacked(problems)
    still = [np.zeros_like(part) for part in data]
    # With an offset, though of nothing, no derivative is asked for.
    found = run(FUNCTIONS[function], 1.0, data, still, mask, **options)
    numbers, _, decisions, beside, _ = found
    return numbers, decisions, beside


def stacked(results):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(results))


@pytest.fixture(scope="module")
def several():
    """Problems whose hard iteration ends at a fixed point, with the hard answers."""
    problems = [problem(seed) for seed in range(30)]
    numbers, (flagged, *_), beside = one_by_one("published", problems)
    kept = np.flatnonzero(beside["status"] == Status.OK)
    assert len(kept) >= 25
    names = ("coefficients", "scale", "log_p")
    coefficients, scale, log_p = (numbers[name] for name in names)
    hard = Hard(coefficients, beside["form"], flagged, scale, log_p)
    return [problems[i] for i in kept], Hard(*(part[kept] for part in hard))


def run_smooth(temperature, problems):
    numbers, (status, test_status), _ = one_by_one("smooth", problems, temperature=temperature)
    return SmoothDiagnosis(**numbers, status=status, test_status=test_status)


def in_single_precision(design, response, axis, features, mask):
    data = (design, response, axis, features)
    return *(part.astype(np.float32) for part in data), mask


def gap(found, hard):
    """Largest relative difference of physics and form, for every problem."""
    pairs = (
        (found.coefficients, hard.coefficients),
        (found.form_coefficients, hard.form),
    )
    sizes = [np.max(np.abs(b), axis=1) for _, b in pairs]
    gaps = [np.max(np.abs(a - b), axis=1) for a, b in pairs]
    # Where nothing is missing the form is zero, and a gap is absolute.
    return np.max([g / np.where(s > 0, s, 1.0) for g, s in zip(gaps, sizes, strict=True)], axis=0)


def test_it_tends_to_the_hard_answer(several):
    """All but where a decision of the hard answer lies within the lowest temperature."""
    problems, hard = several
    found = run_smooth(LOWEST_TEMPERATURE, problems)
    assert (found.status == Status.OK).all()
    np.testing.assert_allclose(found.flagged, hard.flagged, atol=1e-3)
    # Two supports whose errors are within the temperature of each other share the weight.
    decided = (found.support_weights.max(axis=1) > 0.999) | ~hard.flagged.any(axis=1)
    assert decided.sum() >= len(decided) - 2
    assert gap(found, hard)[decided].max() < 1e-3
    # Between two order statistics of 90 rows the smoothed median lies where it is balanced.
    np.testing.assert_allclose(found.scale, hard.scale, rtol=1e-2)
    certified = np.isfinite(hard.test_log_p_value)
    ratio = found.test_log_p_value[certified] / hard.test_log_p_value[certified]
    # Split A's hard iteration may stop at its limit, where no fixed point is.
    assert np.sum(np.abs(ratio - 1) < 1e-2) >= certified.sum() - 1
    warmer = gap(run_smooth(0.1, problems), hard)
    assert np.median(warmer) > np.median(gap(found, hard))


@pytest.mark.slow
def test_second_derivatives_of_the_objective():
    *data, mask = map(jax.device_put, problem(1))
    direction = jnp.asarray(np.random.default_rng(0).normal(size=data[1].shape))

    def slope(shift):
        def objective(shift):
            moved = data[1] + shift * direction
            return smooth(0.2, data[0], moved, *data[2:], mask).objective

        return jax.grad(objective)(shift)

    slope = jax.jit(slope)
    curvature = jax.jit(jax.jacfwd(slope))(0.0)
    step = 1e-5
    expected = (8 * (slope(step) - slope(-step)) - (slope(2 * step) - slope(-2 * step))) / (
        12 * step
    )
    np.testing.assert_allclose(curvature, expected, rtol=1e-6)


def test_a_batch_equals_a_loop():
    problems = [problem(seed) for seed in range(4)]
    batch = jax.jit(jax.vmap(partial(smooth, 0.1)))(*stacked(problems))
    loop = run_smooth(0.1, problems)
    for name, value in vars(loop).items():
        np.testing.assert_allclose(getattr(batch, name), value, rtol=1e-7, atol=1e-10)


def test_a_temperature_does_not_recompile(compilations):
    data = in_single_precision(*problem(2))
    smooth(0.1, *data)
    before = len(compilations)
    smooth(0.25, *data)
    assert len(compilations) == before


def test_float32_gives_the_same_answer():
    data = problem(1)
    found = smooth(0.1, *in_single_precision(*data))
    double = run_smooth(0.1, [data])
    assert found.coefficients.dtype == jnp.float32
    assert double.coefficients.dtype == jnp.float64
    assert found.status == Status.OK
    np.testing.assert_allclose(found.coefficients, double.coefficients[0], rtol=2e-4)


def test_failures_are_said():
    *data, mask = in_single_precision(*problem(1))
    data[1] = np.zeros_like(data[1])
    found = smooth(0.1, *data, mask)
    assert found.status == found.test_status == Status.ZERO_SCALE
    assert np.isnan(found.coefficients).all()
    assert np.isnan(found.objective)


def test_bad_input_is_named():
    *data, mask = problem(1)
    for temperature in (0.0, 0.6, np.nan):
        with pytest.raises(ValueError, match="temperature must lie between 0.001 and 0.5"):
            smooth(temperature, *data, mask)
    with pytest.raises(TypeError, match="config must be settings of the published method"):
        smooth_diagnose(*data, key=KEY, config=Config())


def contaminated(seed, shift=0.0):
    """A line with a cluster of outliers at high leverage, moved along a fixed direction."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=NUM)
    response = 1 + 2 * x + 0.1 * rng.normal(size=NUM)
    x[:15], response[:15] = 4 + 0.1 * rng.normal(size=15), -5.0
    return np.column_stack([np.ones(NUM), x]), response + shift * rng.normal(size=NUM)


def trimmed(temperature, design, response):
    """The hard fit, the smooth one, and their numbers in a row."""
    options = {"key": KEY, "trim": 0.25, "num_starts": 50}
    hard = fit_trimmed(design, response, **options)
    soft = smooth_fit_trimmed(design, response, temperature=temperature, **options)
    numbers = [hard.coefficients, jnp.stack([hard.objective, hard.scale])]
    numbers += [soft.coefficients, soft.objective[None]]
    return jnp.concatenate(numbers), (hard, soft)


@jax.jit
def in_both_modes(temperature, shift, design, response, change):
    """Values, and forward and reverse derivatives along a change, with one search for the fits."""
    values, linear, fits = jax.linearize(
        lambda shift: trimmed(temperature, design, response + shift * change), shift, has_aux=True
    )
    rows = jax.vmap(jax.linear_transpose(linear, shift))(jnp.eye(len(values)))
    return values, linear(jnp.ones_like(shift)), rows[0], fits


def test_the_smooth_trimmed_fit_tends_to_the_hard_one():
    for seed in range(5):
        arrays = contaminated(seed)
        still = np.zeros(NUM)
        *_, (hard, found) = in_both_modes(LOWEST_TEMPERATURE, 0.0, *arrays, still)
        assert found.status == Status.OK
        np.testing.assert_allclose(found.coefficients, hard.coefficients, rtol=1e-3)
        np.testing.assert_allclose(found.objective, hard.objective, rtol=1e-2)
        assert ((found.weights > 0.5) == hard.kept).mean() > 0.95
        np.testing.assert_allclose(found.weights.sum(), np.ceil(0.75 * NUM), rtol=1e-9)
        *_, (_, warm) = in_both_modes(0.3, 0.0, *arrays, still)
        assert warm.weights[:15].max() < 0.01
        np.testing.assert_allclose(warm.coefficients, [1.0, 2.0], atol=0.1)


def test_derivatives_of_trimmed_fits_against_finite_differences():
    """Smooth, and hard with the derivative of least squares on the rows kept."""
    step = 1e-6
    for seed in range(5):
        design, response = contaminated(seed)
        change = contaminated(seed, 1.0)[1] - response
        right, left, far_right, far_left = (
            in_both_modes(0.1, k * step, design, response, change)[0] for k in (1, -1, 2, -2)
        )
        expected = (8 * (right - left) - (far_right - far_left)) / (12 * step)
        _, forward, reverse, _ = in_both_modes(0.1, 0.0, design, response, change)
        for slope in (forward, reverse):
            np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_a_trimmed_fit_must_leave_out_a_row():
    with pytest.raises(ValueError, match="trim must leave out at least one row"):
        smooth_fit_trimmed(*contaminated(0), key=KEY, trim=0.0, num_starts=50)
