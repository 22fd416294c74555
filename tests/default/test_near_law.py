"""Rows near to a law, and gross errors that kept their cell from obeying it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import near_law
from lisdd_jax.numerics import medians

NUM, CELLS = 480, 12
CELL = np.repeat(np.arange(CELLS), NUM // CELLS).astype(np.int32)
EVERY = np.ones(NUM, bool)
keep_near = jax.jit(near_law.keep_near, static_argnums=5)


def kept(residual, clean=(True,) * CELLS, scale=1.0, least=1.0):
    arrays = (residual, EVERY, np.full(CELLS, scale), np.float64(least), CELL)
    return np.asarray(keep_near(*map(jax.device_put, arrays), CELLS, np.asarray(clean)).keep)


def without(cell):
    return np.arange(CELLS) != cell


def test_rows_near_a_law_stay_where_their_cell_obeys_it():
    residual = np.zeros(NUM)
    residual[CELL == 2] = 50.0
    residual[7] = 50.0
    keep = kept(residual)
    assert not keep[7]
    assert keep[CELL == 2].all()
    assert keep.sum() == NUM - 1


def test_a_scale_that_gross_errors_have_widened_is_found_anew():
    """Of twelve in a hundred rows at eight scales, which five scales of theirs would hold."""
    rng = np.random.default_rng(0)
    residual = rng.normal(size=NUM)
    bad = rng.random(NUM) < 0.12
    residual[bad] = 8.0
    together = np.sqrt(np.mean(residual**2))
    assert 5 * together > 8
    keep = kept(residual, scale=together)
    np.testing.assert_array_equal(keep, ~bad)


def test_errors_at_the_bound_hardly_widen_the_scale_that_lets_them_in():
    """Nine in a hundred rows at 6.4 scales; the scale is that of the rows kept the last time."""
    rng = np.random.default_rng(4)
    bad = rng.random(NUM) < 0.09
    residual = rng.normal(size=NUM) + 6.4 * bad
    keep = np.abs(residual) < 6
    for _ in range(8):
        law = residual - residual[keep].mean()
        keep = kept(law, scale=np.sqrt(np.mean(law[keep] ** 2)))
    assert (keep & bad).sum() < 0.6 * bad.sum()
    assert keep[~bad].all()


@pytest.mark.parametrize("num", [2, 6])
def test_a_cell_obeys_but_for_rows_that_stand_among_the_others(num):
    residual = np.random.default_rng(1).normal(size=NUM)
    rows = np.flatnonzero(CELL == 4)[3 : 3 + 4 * num : 4]
    residual[rows] = 8.0
    keep = kept(residual, without(4))
    assert not keep[rows].any()
    assert keep.sum() == NUM - num


def test_a_run_of_rows_is_the_end_of_a_region():
    residual = np.random.default_rng(1).normal(size=NUM)
    residual[np.flatnonzero(CELL == 4)[-6:]] = 8.0
    assert kept(residual, without(4)).all()
    # In a cell that obeys the law they are set aside, as any row.
    assert kept(residual).sum() == NUM - 6


def test_a_cell_that_lies_elsewhere_keeps_its_rows():
    residual = np.random.default_rng(1).normal(size=NUM)
    residual[CELL == 4] += 3.0
    residual[np.flatnonzero(CELL == 4)[::10]] += 8.0
    assert kept(residual, without(4))[CELL == 4].all()


def test_of_many_rows_some_tell_the_scales(monkeypatch):
    rng = np.random.default_rng(0)
    residual = rng.normal(size=NUM)
    bad = rng.random(NUM) < 0.12
    residual[bad] = 8.0
    monkeypatch.setattr(medians, "_MANY_ROWS", NUM // 3)
    arrays = (residual, EVERY, np.full(CELLS, 3.0), np.float64(1.0), CELL)
    found = jax.jit(lambda *given: near_law.keep_near(*given, CELLS, jnp.ones(CELLS, bool)))(
        *map(jax.device_put, arrays)
    )
    np.testing.assert_array_equal(found.keep, ~bad)
