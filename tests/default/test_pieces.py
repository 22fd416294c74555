"""Breaks against dependence in short tables."""

import itertools

import autoregression
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import pieces

SIZE = 72
explain = jax.jit(pieces.breaks_explain)


def said(axis, response, order=None):
    """What the library says, rows out of use filled with nonsense."""
    num = len(axis)
    order = np.arange(num) if order is None else order
    return bool(
        explain(
            jnp.asarray(np.append(axis, np.full(SIZE - num, np.inf))),
            jnp.asarray(np.append(response, np.full(SIZE - num, 7.0))),
            jnp.asarray(np.append(order, np.zeros(SIZE - num)), jnp.int32),
            jnp.int32(num),
        )
    )


def line_left(axis, response):
    columns = np.column_stack([np.ones(len(axis)), axis])
    return np.sum((response - columns @ np.linalg.lstsq(columns, response)[0]) ** 2)


def criterion(axis, response, order):
    """Schwarz's criterion of the best smooth description, less that of two or three lines."""
    num = len(axis)
    columns = np.column_stack([np.ones(num), axis])
    residual = response - columns @ np.linalg.lstsq(columns, response)[0]
    errors = []
    for series in (residual, residual[np.argsort(order)]):
        rho = series[1:] @ series[:-1] / (series[:-1] @ series[:-1])
        rho = np.clip(rho, -1, 1)
        left = np.sum((series[1:] - rho * series[:-1]) ** 2) + (1 - rho**2) * series[0] ** 2
        errors.append(num * np.log(left) + 3 * np.log(num))
    cubic = np.column_stack([axis**k for k in range(4)])
    left = np.sum((residual - cubic @ np.linalg.lstsq(cubic, residual)[0]) ** 2)
    errors.append(num * np.log(left) + 4 * np.log(num))
    best = np.inf
    for count in (2, 3):
        for cuts in itertools.combinations(range(3, num - 2), count - 1):
            bounds = [0, *cuts, num]
            parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
            if min(part.stop - part.start for part in parts) >= 3:
                left = sum(line_left(axis[part], residual[part]) for part in parts)
                best = min(best, num * np.log(left) + (3 * count - 1) * np.log(num))
    return min(errors) - best


@pytest.mark.parametrize("seed", range(8))
def test_decides_as_loops_over_all_breaks_do(seed):
    rng = np.random.default_rng(seed)
    num = 20
    axis = np.sort(rng.uniform(-3, 9, num))
    size = rng.choice([1.0, 4.0, 8.0, 16.0])
    response = rng.normal(size=num) + size * (axis > 4) - 0.5 * size * (axis > 6)
    order = rng.permutation(num) if seed % 2 else np.arange(num)
    assert said(axis, response, order) == (criterion(axis, response, order) > pieces.DECISIVE)


def test_an_exact_kink_is_no_dependence():
    axis = np.arange(15.0)
    assert said(axis, np.maximum(axis - 6, 0))


def test_a_law_that_bends_everywhere_does_not_break():
    rng = np.random.default_rng(0)
    axis = np.arange(40.0)
    assert not said(axis, 0.1 * axis**2 + 0.1 * rng.normal(size=40))


@pytest.mark.parametrize("num", [20, 50])
@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_dependence_is_seldom_taken_for_breaks(num, rho):
    """At most one in a hundred, with a tolerance of five standard errors."""
    rng = np.random.default_rng(num)
    count = 300
    axis = np.arange(float(num))
    found = sum(said(axis, autoregression.simulate(rng, rho, num)) for _ in range(count))
    assert found / count < 0.01 + 5 * np.sqrt(0.01 * 0.99 / count)


def test_long_tables_are_left_to_the_median_of_their_cells():
    axis = np.arange(66.0)
    assert not said(axis, 100.0 * (axis > 40))
    assert said(axis[:64], 100.0 * (axis[:64] > 40) + np.sin(axis[:64] ** 2))
