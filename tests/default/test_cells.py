"""Cells of equal counts that begin where the axis changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default import cells as laid
from lisdd_jax.default.cells import MOST_CELLS

lay_cells = jax.jit(laid.lay_cells)
fine_cells = jax.jit(laid.fine_cells, static_argnums=2)
coarse_cells = jax.jit(laid.coarse_cells, static_argnums=2)


def lay(axis, wanted, least=1):
    return lay_cells(
        jax.device_put(axis), jnp.int32(len(axis)), jnp.int32(wanted), jnp.int32(least)
    )


def test_distinct_places_make_equal_counts():
    cells = lay(np.arange(96.0), 12)
    counts = np.bincount(np.asarray(cells.of_row), minlength=MOST_CELLS)
    assert cells.num == 12
    assert counts[:12].tolist() == [8] * 12
    np.testing.assert_array_equal(np.asarray(cells.bounds[:13]), 8 * np.arange(13))


@pytest.mark.parametrize("seed", range(4))
def test_rows_at_one_place_stay_together(seed):
    axis = np.sort(np.random.default_rng(seed).integers(0, 15, 120)).astype(float)
    cells = lay(axis, 10, least=5)
    cell = np.asarray(cells.of_row)
    assert all(len(set(cell[axis == place])) == 1 for place in set(axis))
    assert (np.diff(cell) >= 0).all()
    assert cell[-1] == cells.num - 1
    assert np.bincount(cell).min() >= 5


def test_rows_out_of_use_have_no_cell():
    axis = jnp.append(jnp.arange(40.0), jnp.full(8, jnp.inf))
    cells = lay_cells(axis, jnp.int32(40), jnp.int32(4), jnp.int32(3))
    assert (np.asarray(cells.of_row[40:]) == MOST_CELLS).all()
    assert cells.bounds[-1] == 40


def test_one_place_is_one_cell():
    assert lay(np.zeros(50), 10).num == 1


@pytest.mark.parametrize(("num", "full"), [(100, False), (251, False), (252, True), (4000, True)])
def test_full_cells_need_rows_for_a_fit_of_their_own(num, full):
    """Twelve cells of ``3 (p + 2) + 6 = 21`` rows for three physics columns."""
    axis = jnp.arange(float(num))
    cells, found = fine_cells(axis, jnp.int32(num), 3, jnp.ones(()))
    counts = np.bincount(np.asarray(cells.of_row))
    assert bool(found) == full
    assert counts.min() >= (21 if full else 4)
    assert cells.num <= MOST_CELLS


def test_dependent_rows_make_longer_cells():
    axis, num = jnp.arange(600.0), jnp.int32(600)
    short, _ = fine_cells(axis, num, 3, jnp.ones(()))
    long, _ = fine_cells(axis, num, 3, jnp.full((), 3.0))
    assert short.num == 24
    assert long.num == 600 // 63
    assert coarse_cells(axis, jnp.int32(60), 3).num == 2
