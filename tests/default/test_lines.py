"""Residual sums of lines against least squares on the rows."""

import jax.numpy as jnp
import numpy as np

from lisdd_jax.default.lines import LineSums, line_left


def sums(place, values):
    parts = (place**0, place, place**2, values, values * place, values**2)
    return LineSums(*(jnp.asarray(part.sum(-1)) for part in parts))


def test_left_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    place, values = rng.normal(size=(2, 3, 17))
    expected = [
        np.linalg.lstsq(np.column_stack([np.ones(17), z]), y)[1][0]
        for z, y in zip(place, values, strict=True)
    ]
    np.testing.assert_allclose(line_left(sums(place, values)), expected, rtol=1e-12)


def test_at_one_place_a_line_is_a_level():
    values = np.array([[1.0, 2.0, 6.0]])
    np.testing.assert_allclose(line_left(sums(0.5 + 0 * values, values)), [14.0], rtol=1e-12)
