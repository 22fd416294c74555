import jax
import jax.numpy as jnp
import numpy as np
import pytest
import testbed
from scipy import stats
from testbed import TOLERANCE

from lisdd_jax import Config, Status, fit_clean_regime

NUM, CELLS = 400, 8
CONFIG = Config.paper()


def data(seed: int, beta: float = 0.2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = testbed.oscillator(seed, NUM, beta)
    cell = np.clip(((table.axis + 3.3) / 6.6 * CELLS).astype(int), 0, CELLS - 1)
    return table.design, table.response, cell


def fit(design, response, cell, initial=(1.0, 0.3), *, config=CONFIG, mask=None):
    initial = jnp.asarray(initial, design.dtype)
    return fit_clean_regime(
        design, response, cell, initial, num_cells=CELLS, config=config, mask=mask
    )


traced = jax.jit(lambda design, response, initial, cell: fit(design, response, cell, initial))


def published(design, response, cell, theta, alpha=1e-3, max_iterations=4):
    """Algorithm 1 of the paper, lines 2 to 6, row by row."""
    before = None
    for iteration in range(1, max_iterations + 1):
        residual = response - design @ theta
        scale = 1.4826 * np.median(np.abs(residual - np.median(residual)))
        statistic, log_p = np.full(CELLS, np.nan), np.full(CELLS, np.nan)
        for c in range(CELLS):
            rows = cell == c
            if rows.any():
                statistic[c] = np.sum(residual[rows] ** 2) / scale**2
                log_p[c] = stats.chi2.logsf(statistic[c], rows.sum())
        flagged = log_p < np.log(alpha)
        clean = ~flagged[cell]
        theta = np.linalg.lstsq(design[clean], response[clean])[0]
        if before is not None and (flagged == before).all():
            break
        before = flagged
    return theta, scale, statistic, log_p, flagged, iteration


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_is_the_published_iteration(dtype):
    tolerance = TOLERANCE[np.dtype(dtype)]
    for seed, beta in enumerate([0.2, 0.2, 0.1, 0.0, 0.3]):
        design, response, cell = data(seed, beta)
        theta, scale, statistic, log_p, flagged, iterations = published(
            design, response, cell, np.array([1.0, 0.3])
        )
        found = fit(design.astype(dtype), response.astype(dtype), cell)
        assert found.coefficients.dtype == found.log_p_value.dtype == dtype
        np.testing.assert_array_equal(found.flagged, flagged)
        np.testing.assert_allclose(found.coefficients, theta, rtol=tolerance)
        assert found.scale == pytest.approx(scale, rel=tolerance)
        np.testing.assert_allclose(found.statistic, statistic, rtol=10 * tolerance)
        finite = np.isfinite(log_p)
        np.testing.assert_allclose(
            np.asarray(found.log_p_value)[finite], log_p[finite], rtol=50 * tolerance, atol=1e-12
        )
        assert found.num_iterations == iterations


def test_estimates_are_least_squares_on_the_clean_cells():
    design, response, cell = data(0)
    found = fit(design, response, cell)
    clean = ~np.asarray(found.flagged)[cell]
    residual = response - design @ np.asarray(found.coefficients)
    variance = np.sum(residual[clean] ** 2) / (clean.sum() - 2)
    covariance = variance * np.linalg.inv(design[clean].T @ design[clean])
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-10)
    for c in range(CELLS):
        assert int(found.count[c]) == np.sum(cell == c)
        assert found.mean[c] == pytest.approx(np.mean(residual[cell == c]), abs=1e-12)
        assert found.rms[c] == pytest.approx(np.sqrt(np.mean(residual[cell == c] ** 2)), rel=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_offsets_and_units(dtype):
    """An intercept takes up any offset; flags and statistics stay."""
    design, response, cell = data(1)
    response = response - 0.3 * design[:, 1]
    design = np.column_stack([np.ones(NUM), design[:, 0]])
    first = fit(design, response, cell, (0.0, 1.0))
    offset, unit = (100.0, 1e-3) if dtype == np.float32 else (1e6, 1e-9)
    moved = (design + [0, offset]) * [1, unit]
    initial = (500.0 - offset, 1 / unit)
    found = fit(moved.astype(dtype), (response + 500).astype(dtype), cell, initial)
    tolerance = 1e-3 if dtype == np.float32 else 1e-8
    np.testing.assert_array_equal(found.flagged, first.flagged)
    np.testing.assert_allclose(found.statistic, first.statistic, rtol=10 * tolerance)
    np.testing.assert_allclose(
        np.asarray(found.coefficients)[1] * unit, np.asarray(first.coefficients)[1], rtol=tolerance
    )
    assert found.scale == pytest.approx(float(first.scale), rel=tolerance)


def test_order_of_rows_and_padding_change_nothing():
    design, response, cell = data(2)
    design[-60:], response[-60:], cell[-60:] = np.nan, np.nan, 3
    mask = np.arange(NUM) < NUM - 60
    first = fit(design, response, cell, mask=mask)
    order = np.random.default_rng(0).permutation(NUM)
    found = fit(design[order], response[order], cell[order], mask=mask[order])
    testbed.assert_trees_close(found, first, rtol=1e-8, atol=1e-12)
    # A row of no cell counts as out of use.
    elsewhere = np.where(mask, cell, np.where(np.arange(NUM) % 2, -1, CELLS))
    found = fit(np.nan_to_num(design), np.nan_to_num(response, nan=7.0), elsewhere)
    testbed.assert_trees_close(found, first, rtol=1e-8, atol=1e-12)


def test_empty_and_tiny_cells_are_safe():
    design, response, cell = data(3)
    cell = np.where(cell == 2, 1, cell)
    cell[0], cell[cell == 5] = 5, 4
    cell[0] = 5
    found = fit(design, response, cell)
    assert found.status == Status.OK
    assert found.count[2] == 0
    assert found.count[5] == 1
    for field in (found.mean, found.rms, found.statistic, found.log_p_value):
        assert np.isnan(field[2])
        assert np.isfinite(field[5])
    assert not found.flagged[2]


def failures() -> dict[str, tuple]:
    design, response, cell = data(4)
    everyone = np.ones(NUM, bool)
    line = design @ [1.0, 0.3]
    return {
        "exact physics": (design, line, cell, everyone, Status.ZERO_SCALE),
        "zero response": (design, 0 * line, cell, everyone, Status.ZERO_SCALE),
        "exact for most": (
            design,
            line + np.where(cell == 0, 1.0, 0.0),
            cell,
            everyone,
            Status.ZERO_SCALE,
        ),
        "no rows": (design, response, cell, ~everyone, Status.TOO_FEW_ROWS),
        "two rows": (design, response, cell, np.arange(NUM) < 2, Status.TOO_FEW_ROWS),
        "twin columns": (
            np.column_stack([design[:, 0], 2 * design[:, 0]]),
            response,
            cell,
            everyone,
            Status.RANK_DEFICIENT_DESIGN,
        ),
        "every cell flagged": (design, response, cell, everyone, Status.NO_CLEAN_CELLS),
    }


@pytest.mark.parametrize("name", list(failures()))
def test_status(name):
    design, response, cell, mask, expected = failures()[name]
    config = CONFIG
    if expected == Status.NO_CLEAN_CELLS:
        config = Config.paper(alpha_cell=1.0)
    found = fit(design, response, cell, config=config, mask=mask)
    assert found.status == expected
    assert np.isnan(found.covariance).all()
    assert not found.flagged.any()
    if expected == Status.ZERO_SCALE:
        # No cell can be tested; the start stands.
        np.testing.assert_allclose(found.coefficients, [1.0, 0.3], rtol=1e-12)
        assert found.scale == 0
        assert np.isnan(found.statistic).all()
    else:
        assert np.isnan(found.coefficients).all()
        assert np.isnan(found.scale)


def test_a_limit_on_the_iterations_is_a_note():
    design, response, cell = data(0)
    limited = fit(design, response, cell, (0.0, 0.0), config=Config.paper(max_iterations=1))
    assert limited.status == Status.ITERATION_LIMIT
    assert limited.num_iterations == 1
    assert np.isfinite(limited.coefficients).all()


@pytest.mark.parametrize("place", ["design", "response", "initial"])
def test_values_that_are_not_finite_end_in_a_status_under_jit(place):
    design, response, cell = data(5)
    arrays = {"design": design, "response": response, "initial": np.array([1.0, 0.3])}
    arrays[place].flat[1] = np.nan
    found = traced(*arrays.values(), cell)
    assert found.status == Status.NONFINITE_INPUT
    assert np.isnan(found.coefficients).all()
    with pytest.raises(ValueError, match=f"{place} must be finite"):
        fit(arrays["design"], arrays["response"], cell, arrays["initial"])


def test_derivatives_are_those_of_the_final_clean_cells():
    design, response, cell = data(0)
    rng = np.random.default_rng(1)
    tangents = rng.normal(size=design.shape), rng.normal(size=NUM)

    def values(design, response):
        found = fit_clean_regime(
            design, response, cell, jnp.array([1.0, 0.3]), num_cells=CELLS, config=CONFIG
        )
        numbers = [found.coefficients, found.scale[None], found.statistic / 100, found.mean]
        return jnp.concatenate([*numbers, jnp.diag(found.covariance) * 1e4])

    @jax.jit
    def derived(arrays, weights):
        """Values, their changes along the tangents, and the gradient of a weighted sum."""
        numbers, linear = jax.linearize(values, *arrays)
        return numbers, linear(*tangents), jax.linear_transpose(linear, *arrays)(weights)

    weights = rng.normal(size=2 + 1 + 2 * CELLS + 2)
    _, slope, back = derived((design, response), weights)
    step = 1e-6
    up, down = (
        derived((design + s * tangents[0], response + s * tangents[1]), weights)[0]
        for s in (step, -step)
    )
    np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-6, atol=1e-7)
    total = sum(np.sum(g * t) for g, t in zip(back, tangents, strict=True))
    assert total == pytest.approx(float(slope @ weights), rel=1e-9)


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"cell": np.zeros(NUM)}, TypeError, "cell must hold integers"),
        ({"cell": np.zeros(3, int)}, ValueError, r"cell must have shape \(n,\) with n = 400"),
        ({"initial": np.zeros(3)}, ValueError, r"initial must have shape \(p,\) with p = 2"),
        ({"initial": np.zeros(2, np.float32)}, TypeError, "share one floating-point type"),
        ({"num_cells": 0}, ValueError, "num_cells must be"),
        (
            {"config": Config.paper(alpha_cell=2.0)},
            ValueError,
            "alpha_cell must lie between 0 and 1",
        ),
    ],
)
def test_bad_arguments(changes, error, words):
    design, response, cell = data(6)
    arguments = {
        "design": design,
        "response": response,
        "cell": cell,
        "initial": np.zeros(2),
        "num_cells": CELLS,
        "config": CONFIG,
    } | changes
    with pytest.raises(error, match=words):
        fit_clean_regime(**arguments)
