"""Kinks, sharp and soft, found in the tables of a diagnosis."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rows_data as data
from hinge_data import hinge, left_of, region_to_the_end

from lisdd_jax.default import kinks


def kinked(seed, place=6.0, width=0.0, slope=1.5, noise=0.5):
    """A hinge from ``place`` on, which bends over ``2 width``; two columns that do not matter."""
    rng = np.random.default_rng(seed)
    axis, others = rng.uniform(0, 10, data.NUM), rng.normal(size=(data.NUM, 2))
    along = axis - place
    bent = (along + width) ** 2 / (4 * width) if width else 0 * axis
    hinge = np.where(along <= -width, 0.0, np.where(along >= width, along, bent))
    response = 3.0 + slope * hinge + noise * rng.normal(size=data.NUM)
    design = np.column_stack([np.ones(data.NUM), others])
    return data.Table(design, response, axis, data.library(axis, others[:, 0]))


def test_an_exact_kink_is_found_with_its_interval():
    found = data.run(kinked(0))
    lower, upper = np.asarray(found.regions.lower_interval[0])
    assert bool(found.place.certified)
    assert int(found.regions.present.sum()) == 1
    assert lower < 6.0 < upper
    assert upper - lower < 1.0
    assert found.regions.softness[0, 0] == 0 or found.regions.softness[0, 0] < 1.0
    assert bool(found.regions.open_above[0])


def test_a_jump_has_no_softness():
    table = kinked(3, slope=0.0)
    table = table._replace(response=table.response + 3.0 * (table.axis > 6))
    found = data.run(table)
    assert np.isnan(found.regions.softness[0, 0])
    assert abs(float(found.regions.lower[0]) - 6) < 0.1


def test_a_clear_jump_may_be_anywhere_between_the_rows_beside_it():
    table = kinked(3, slope=0.0)
    table = table._replace(response=table.response + 30.0 * (table.axis > 6))
    found = data.run(table)
    beside = [table.axis[table.axis < 6].max(), table.axis[table.axis > 6].min()]
    np.testing.assert_array_equal(found.regions.lower_interval[0], beside)
    assert float(found.regions.lower[0]) == pytest.approx(np.mean(beside))


def test_the_interval_of_a_jump_holds_a_kink_that_is_as_likely():
    """Rows of a weak kink that a term without one serves a little better."""
    table = kinked(3, slope=0.8)
    found = data.run(table)
    assert np.isnan(found.regions.softness[0, 0])
    lower, upper = np.asarray(found.regions.lower_interval[0])
    assert lower < 6.0 < upper


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_intervals_of_jumps_cover(size):
    """At least 0.90, with a tolerance of five standard errors; between rows they held none."""
    num, covered = 24, 0
    for seed in range(num):
        table = kinked([5, seed], slope=0.0)
        found = data.run(table._replace(response=table.response + size * (table.axis > 6)))
        covered += any(low <= 6.0 <= high for low, high in np.asarray(found.regions.lower_interval))
    assert covered / num > 0.90 - 5 * np.sqrt(0.9 * 0.1 / num)


@pytest.mark.parametrize("width", [0.0, 1.0, 2.0])
@pytest.mark.slow
def test_intervals_of_soft_onsets_cover(width):
    """At least 0.90, with a tolerance of five standard errors."""
    num, covered = 120, 0
    for seed in range(num):
        found = data.run(kinked([2, seed], width=width))
        lower, upper = np.asarray(found.regions.lower_interval[0])
        covered += bool(lower <= 6.0 <= upper)
    assert covered / num > 0.90 - 5 * np.sqrt(0.9 * 0.1 / num)


def reference(axis, residual, corrected, height, kept, window, searched, rising, end):
    """Every place and width by least squares on the rows themselves."""
    low, high = axis[searched[0]], axis[searched[1] - 1]
    rows = np.arange(*window)
    rows = rows[kept[rows]]
    places = 0.5 * (low + high) + (high - low) * np.linspace(-0.5, 0.5, 96)
    widths = (high - low) * np.array([0.0, 0.04, 0.08, 0.16, 0.32])
    sign = 1 if rising else -1
    z, r = axis[rows], residual[rows]
    line = np.stack([z**0, z], 1)
    left, jump = np.empty((96, 5)), np.empty(96)
    for i, place in enumerate(places):
        for j, width in enumerate(widths):
            bent = hinge(sign * (z - place), width)
            left[i, j] = left_of(np.column_stack([line, bent]), r)
        below = z < place
        jump[i] = left_of(line[below], r[below]) + left_of(line[~below], r[~below])
    best, count = left.min(), len(rows)
    variance = min(best, jump.min()) / (count - 5)
    price = variance * np.log(count)
    by_correction = np.sum(corrected[rows] ** 2)
    by_terms = by_correction + 3 * price * (int(height < 0.2) - int(height > 0.9))
    rival = min(jump.min(), by_terms)
    profile, sharp = left.min(1), left[:, 0]
    likely = places[profile <= best + 3.84 * variance]
    either = np.append(likely, places[sharp <= sharp.min() + 3.84 * variance])
    if jump.min() + 4 * variance < best:
        likely = np.concatenate([likely, places[jump <= jump.min() + 7.35 * variance]])
    chosen = int(np.argmin(profile))
    soft = left[chosen]
    which = 0 if soft[0] <= best + 3.84 * variance else int(np.argmin(soft))
    step = places[1] - places[0]
    allowed = best <= min(jump.min(), by_correction) + price + 3.84 * variance
    possible = [either.min() - step, either.max() + step] if allowed else [np.nan, np.nan]
    lower, upper = likely.min() - step, likely.max() + step
    if by_correction + 4 * variance < best:
        lower, upper = min(lower, end), max(upper, end)
    return {
        "is_kink": best <= rival + price,
        "place": places[chosen],
        "lower": lower,
        "upper": upper,
        "softness": widths[which],
        "possible": possible,
    }


@pytest.mark.parametrize(
    "seed, jump, slope, width", [(0, 0, 2, 0), (1, 3, 0, 0), (2, 0.7, 0.3, 0), (3, 0, 2, 1.5)]
)
def test_kinks_are_those_of_least_squares_on_rows(seed, jump, slope, width):
    rng = np.random.default_rng(seed)
    num = 120
    axis = np.sort(rng.uniform(-3, 9, num))
    residual = jump * (axis > 5) + slope * hinge(axis - 5, width) + 0.3 * rng.normal(size=num)
    kept = rng.random(num) > 0.05
    beyond = residual - 0.9 * jump - 0.9 * slope * (axis - 5)
    corrected = np.where(axis > 5, beyond, residual)
    made = region_to_the_end(axis, residual, corrected, kept)
    height = np.array([[(0.1, 0.1, 0.5, 1.0)[seed], 0.0], [(0.5, 0.95, 0.0, 0.3)[seed], 0.0]])
    inflation = jnp.asarray(1.0)
    found = jax.jit(kinks.fit_kinks)(
        made.rows, jax.device_put(height), made.spans, made.placed, inflation
    )
    windows = ((0, num), True), ((made.start, num), False)
    for side, (window, rising) in enumerate(windows):
        expected = reference(
            axis,
            residual,
            corrected,
            height[side, 0],
            kept,
            window,
            (made.low, made.high),
            rising,
            axis[(made.start, num - 1)[side]],
        )
        for name, value in expected.items():
            np.testing.assert_allclose(
                np.asarray(getattr(found, name))[side, 0], value, rtol=1e-8, atol=1e-9
            )
