"""Data that several test modules share, and tolerances by floating-point type."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Rows of one shape, so that modules share compiled programs.
NUM_ROWS = 2048
# Relative to the size of what is compared: a few hundred rounding errors of a conditioned problem.
TOLERANCE = {jnp.float32.dtype: 2e-4, jnp.float64.dtype: 1e-9}


class Table(NamedTuple):
    design: np.ndarray
    response: np.ndarray
    axis: np.ndarray
    features: np.ndarray
    mask: np.ndarray


def oscillator(seed: int, num: int = NUM_ROWS, beta: float = 0.2, sigma: float = 0.3) -> Table:
    """A damped oscillator with a cubic term that acts where 1.7 < |x1| < 2.7 only."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.uniform(-3.3, 3.3, (2, num))
    inside = (np.abs(x1) > 1.7) & (np.abs(x1) < 2.7)
    response = -x1 - 0.3 * x2 + np.where(inside, beta * x1**3, 0.0) + sigma * rng.normal(size=num)
    features = np.column_stack([x1**2, x1**3, x2**2, x1 * x2, np.sin(x1)])
    return Table(np.column_stack([-x1, -x2]), response, x1, features, np.ones(num, bool))


def pad(table: Table, num: int = NUM_ROWS, fill: float = 0.0) -> Table:
    """Add rows out of use at the end, up to ``num``."""
    extra = num - len(table.response)

    def grow(array: np.ndarray, value: float | bool) -> np.ndarray:
        widths = [(0, extra)] + [(0, 0)] * (array.ndim - 1)
        return np.pad(array, widths, constant_values=value)

    return Table(*(grow(array, fill) for array in table[:-1]), mask=grow(table.mask, False))


def permute(table: Table, seed: int) -> Table:
    order = np.random.default_rng(seed).permutation(len(table.response))
    return Table(*(array[order] for array in table))


def as_type(table: Table, dtype: np.dtype | type) -> Table:
    return Table(*(array.astype(dtype) for array in table[:-1]), mask=table.mask)


def assert_trees_close(actual: object, expected: object, rtol: float, atol: float = 0.0) -> None:
    """Same structure, types and values, NaN equal to NaN."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    paths = jax.tree_util.tree_leaves_with_path(actual)
    for (path, left), right in zip(paths, jax.tree.leaves(expected), strict=True):
        name = jax.tree_util.keystr(path)
        assert left.dtype == right.dtype, name
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, err_msg=name)
