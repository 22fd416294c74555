"""Random rows in cells, and their sums of products, for the tests of the default method."""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from lisdd_jax.default.layout import ColumnLayout

THETA = np.array([0.7, -0.4, 0.3])


class CellRows(NamedTuple):
    """Rows along the axis in the columns ``[1, axis, physics, terms, response]``.

    Attributes:
      columns: ``(n, m)``.
      cell: ``(n,)`` int.
      gram: ``(K, m, m)`` sums of products per cell.
      count: ``(K,)`` rows of a cell, as floats.
      layout: which column is what.
    """

    columns: np.ndarray
    cell: np.ndarray
    gram: np.ndarray
    count: np.ndarray
    layout: ColumnLayout


def products(columns, groups, num_groups):
    """Sums of products of the rows of every group, ``(num_groups, m, m)``, and their numbers."""
    gram = [columns[groups == k].T @ columns[groups == k] for k in range(num_groups)]
    return np.array(gram), np.array([float(np.sum(groups == k)) for k in range(num_groups)])


def cell_rows(seed, sizes, *, num_physics=2, num_terms=2, noise=None, change=None, constant=False):
    """Rows that obey a law, in cells of given sizes.

    Args:
      seed: of the random numbers.
      sizes: rows of every cell.
      num_physics, num_terms: columns.
      noise: standard deviation in every cell; 1 where None.
      change: function of columns and cells that is added to the response.
      constant: whether the first physics column is a constant.
    """
    rng = np.random.default_rng(seed)
    num = sum(sizes)
    cell = np.repeat(np.arange(len(sizes)), sizes)
    axis = np.sort(rng.uniform(-1.7, 1.7, num))
    physics = rng.normal(size=(num, num_physics))
    if constant:
        physics[:, 0] = 1.0
    terms = rng.normal(size=(num, num_terms)) + axis[:, None] ** 2
    spread = np.ones(len(sizes)) if noise is None else np.asarray(noise)
    response = physics @ np.resize(THETA, num_physics) + spread[cell] * rng.normal(size=num)
    columns = np.column_stack([np.ones(num), axis, physics, terms, response])
    if change is not None:
        columns[:, -1] += change(columns, cell)
    layout = ColumnLayout(num_physics, num_terms)
    return CellRows(columns, cell, *products(columns, cell, len(sizes)), layout)


def assert_traced_alike(function, *arguments, rtol=1e-8, atol=1e-9):
    """NumPy arrays are worked on in NumPy, and traced ones give the same numbers."""
    expected = function(*arguments)
    for leaf in jax.tree.leaves(expected):
        assert isinstance(leaf, np.ndarray | np.generic)
    found = jax.jit(function)(*jax.device_put(arguments))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=rtol, atol=atol), found, expected)
