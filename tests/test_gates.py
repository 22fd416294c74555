import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.hybrid import gates

AXIS = np.linspace(-1.0, 2.0, 31)
between = jax.jit(gates.between)


def test_an_interval_fades_over_its_width_and_is_sharp_at_zero():
    sharp = between(AXIS, 0.0, 1.0, 0.0)
    np.testing.assert_array_equal(sharp, (AXIS >= 0) & (AXIS < 1))
    soft = between(AXIS, 0.0, 1.0, 0.1)
    logistic = 1 / (1 + np.exp(-AXIS / 0.1)) / (1 + np.exp((AXIS - 1) / 0.1))
    np.testing.assert_allclose(soft, logistic, rtol=1e-12)
    near = between(AXIS + 0.05, 0.0, 1.0, 1e-4)
    np.testing.assert_allclose(near, (AXIS + 0.05 >= 0) & (AXIS + 0.05 < 1), atol=1e-12)


@pytest.mark.parametrize("width", [0.0, 0.2])
def test_open_ends_have_no_nan_in_values_or_derivatives(width):
    def total(lower, upper, width):
        return jnp.sum(gates.between(AXIS, lower, upper, width))

    found = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2)))(-np.inf, 0.55, width)
    assert np.isfinite([found[0], *found[1]]).all()
    assert found[1][0] == 0


@pytest.mark.parametrize("width", [0.0, 1e-3, 0.3])
def test_every_row_is_shared_out_among_the_cells(width):
    edges = np.array([-1.0, 0.0, 0.0, 0.7, 2.0])
    share = np.asarray(jax.jit(gates.cell_membership)(AXIS, edges, width))
    np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-12)
    assert (share >= 0).all()
    np.testing.assert_array_equal(share[:, 1], 0)
    if not width:
        np.testing.assert_array_equal(share[:, 2], (AXIS >= 0) & (AXIS < 0.7))
