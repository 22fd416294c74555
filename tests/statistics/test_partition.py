import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lisdd_jax.numerics import cell_sums
from lisdd_jax.statistics import partition

NUM, CELLS = 40, 6
cell_index = jax.jit(partition.cell_index)
equal_width_edges = jax.jit(partition.equal_width_edges, static_argnums=1)
quantile_edges = jax.jit(partition.quantile_edges, static_argnums=1)
merge_small_cells = jax.jit(partition.merge_small_cells)
everyone = np.ones(NUM, bool)


@jax.jit
def _counts(axis, edges, mask):
    cell = partition.cell_index(axis, edges, mask)
    return cell_sums.cell_counts(cell, mask, edges.shape[0] - 1)


def counts(axis, edges, mask=everyone):
    return np.asarray(_counts(axis, edges, mask))


def test_a_point_on_an_edge_belongs_to_the_cell_above_and_the_last_to_the_last():
    axis = np.resize([0.0, 1.0, 2.0], NUM)
    mask = np.arange(NUM) < 3
    assert counts(axis, np.array([0.0, 1.0, 2.0]), mask).tolist() == [1, 2]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    hnp.arrays(
        np.float64,
        NUM,
        elements=st.floats(-100, 100, allow_subnormal=False) | st.integers(-3, 3).map(float),
    ),
    hnp.arrays(np.float64, CELLS + 1, elements=st.integers(-4, 4).map(float)),
)
def test_cells_agree_with_a_histogram(axis, edges):
    edges = np.sort(edges)
    distinct = np.unique(edges)
    cell = np.asarray(cell_index(axis, edges, everyone))
    inside = (axis >= edges[0]) & (axis <= edges[-1])
    np.testing.assert_array_equal(cell < CELLS, inside)
    found = counts(axis, edges)
    assert found.sum() == inside.sum()
    if len(distinct) > 1:
        # Of equal edges the cell between them is empty.
        expected = np.histogram(axis, distinct)[0]
        np.testing.assert_array_equal(found[np.diff(edges) > 0], expected)
        assert not found[np.diff(edges) == 0].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale, offset", [(1.0, 0.0), (1e-3, 1e3), (1e30, -1e30), (0.1, 0.0)])
def test_equal_widths_cover_every_row(scale, offset, dtype):
    axis = (offset + scale * np.random.default_rng(0).random(NUM)).astype(dtype)
    edges = np.asarray(equal_width_edges(axis, CELLS, everyone))
    assert edges.dtype == dtype
    assert edges[0] == axis.min()
    assert edges[-1] == axis.max()
    assert (np.diff(edges) >= 0).all()
    assert counts(axis, edges).sum() == NUM


def test_equal_widths_ignore_rows_out_of_use():
    axis = np.linspace(0, 1, NUM)
    axis[:2] = [np.nan, 1e9]
    edges = equal_width_edges(axis, CELLS, np.arange(NUM) >= 2)
    np.testing.assert_allclose(edges, np.linspace(axis[2], 1, CELLS + 1), rtol=1e-15)


def test_a_constant_axis_has_one_cell():
    axis = np.full(NUM, 2.5)
    found = counts(axis, equal_width_edges(axis, CELLS, everyone))
    assert sorted(found) == [0] * (CELLS - 1) + [NUM]


def test_a_nan_lies_in_no_cell():
    axis = np.linspace(0, 1, NUM)
    axis[7] = np.nan
    assert cell_index(axis, np.linspace(0, 1, CELLS + 1), everyone)[7] == CELLS


def test_quantiles_share_rows_out_evenly():
    axis = np.random.default_rng(1).lognormal(sigma=2, size=NUM)
    mask = np.arange(NUM) != 5
    edges = np.asarray(quantile_edges(axis, CELLS, mask))
    assert set(edges) <= set(axis[mask])
    found = counts(axis, edges, mask)
    assert found.sum() == NUM - 1
    assert found.max() - found.min() <= 2


def test_quantiles_of_ties_leave_cells_empty():
    axis = np.where(np.arange(NUM) < 30, 1.0, np.arange(NUM))
    edges = np.asarray(quantile_edges(axis, CELLS, everyone))
    assert (np.diff(edges) >= 0).all()
    found = counts(axis, edges)
    assert found.sum() == NUM
    assert found.max() >= 30


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    hnp.arrays(np.float64, NUM, elements=st.floats(0, 1)),
    st.integers(0, NUM + 5),
    st.integers(0, NUM),
)
def test_merged_cells_hold_the_minimum(axis, minimum, num_used):
    mask = np.arange(NUM) < num_used
    edges = np.linspace(0, 1, CELLS + 1)
    merged = np.asarray(merge_small_cells(axis, edges, mask, minimum))
    assert set(merged) <= set(edges)
    assert (merged[0], merged[-1]) == (0, 1)
    assert (np.diff(merged) >= 0).all()
    found = counts(axis, merged, mask)
    assert found.sum() == num_used
    wide = found[np.diff(merged) > 0]
    assert not found[np.diff(merged) == 0].any()
    assert (wide >= minimum).all() or len(wide) == 1


def test_merging_keeps_cells_that_are_large_enough():
    axis = np.linspace(0, 1, NUM)
    edges = np.linspace(0, 1, CELLS + 1)
    np.testing.assert_array_equal(merge_small_cells(axis, edges, everyone, 3), edges)


EDGES = np.array([0.0, 0.4, 1.0])


@pytest.mark.parametrize(
    "edges, words",
    [
        ([0.0, 1.0], "edges must bound at least 2 cells, got 2 edges"),
        ([0.0, 0.9, 0.5], "edges must not decrease"),
        ([0.0, np.nan, 1.0], "edges must not decrease"),
        ([0.0, 0.5, 0.8], "edges must cover the axis, but 1 rows in use lie outside 0 to 0.8"),
        ([[0.0, 0.5, 1.0]], r"edges must have 1 axes \(R \+ 1,\)"),
    ],
)
def test_edges_that_do_not_fit_are_refused(edges, words):
    axis = jnp.array([0.1, 0.5, 0.9])
    with pytest.raises(ValueError, match=words):
        partition.check_edges(edges, axis, jnp.ones(3, bool), 4)


def test_edges_that_fit_are_taken_and_others_made():
    axis, mask = jnp.array([0.1, 0.5, 9.0], jnp.float32), jnp.array([True, True, False])
    found = partition.check_edges(EDGES, axis, mask, 4)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, EDGES, rtol=1e-7)
    made = partition.check_edges(None, axis, mask, 4)
    np.testing.assert_allclose(made, np.linspace(0.1, 0.5, 5), rtol=1e-6)
