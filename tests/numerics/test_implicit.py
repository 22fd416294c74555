import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.numerics import implicit


def circle_and_line(data):
    """Where a circle of radius ``data[0]`` meets the line ``y = data[1] x``."""

    def equations(point):
        return jnp.stack([point @ point - data[0] ** 2, point[1] - data[1] * point[0]])

    return implicit.find_root(equations, jnp.array([1.0, 0.5]))


def exact(data):
    x = data[0] / jnp.sqrt(1 + data[1] ** 2)
    return jnp.stack([x, data[1] * x])


DATA = np.array([2.0, 0.7])


def test_root_and_derivatives_of_both_orders_are_those_of_the_formula():
    found = jax.jit(circle_and_line)(DATA)
    assert found.converged
    np.testing.assert_allclose(found.solution, exact(DATA), rtol=1e-12)

    def solution(data):
        return circle_and_line(data).solution

    for order in (jax.jacfwd, jax.jacrev, lambda f: jax.jacfwd(jax.jacrev(f))):
        found, expected = (jax.jit(order(one))(DATA) for one in (solution, exact))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_batch_equals_a_loop():
    several = jnp.array([[2.0, 0.7], [1.0, -0.3], [5.0, 3.0]])
    batch = jax.jit(jax.vmap(circle_and_line))(several)
    assert batch.converged.all()
    expected = [exact(data) for data in np.asarray(several)]
    np.testing.assert_allclose(batch.solution, expected, rtol=1e-12)


def test_no_root_is_said_and_has_finite_derivatives():
    @jax.jit
    def nowhere(shift):
        return implicit.find_root(lambda x: x**2 + 1 + shift, jnp.ones(1))

    assert not nowhere(0.5).converged
    assert np.isfinite(jax.jit(jax.grad(lambda shift: nowhere(shift).solution[0]))(0.5))


def test_a_fixed_point_and_its_derivative():
    @jax.jit
    def cosine(scale):
        return implicit.fixed_point(lambda x: (scale * jnp.cos(x), None), jnp.ones(1), 200)[0]

    found = cosine(1.0)
    assert found.converged
    root = 0.7390851332151607
    np.testing.assert_allclose(found.solution, root, rtol=1e-7)
    slope = np.cos(root) / (1 + np.sin(root))
    derivative = jax.jit(jax.grad(lambda scale: cosine(scale).solution[0]))(1.0)
    np.testing.assert_allclose(derivative, slope, rtol=1e-7)
    slow = jax.jit(lambda x: implicit.fixed_point(lambda x: (3 * x * (1 - x), None), x, 30)[0])
    assert not slow(jnp.full(1, 0.2)).converged


def test_the_inverse_has_zero_rows_for_dependent_columns():
    matrix = jnp.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.5, 0.0]])
    inverse = jax.jit(implicit.inverse)
    found = inverse(matrix)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[2], 0)
    square = jnp.array([[2.0, 1.0], [-1.0, 3.0]])
    np.testing.assert_allclose(
        np.asarray(inverse(square)) @ np.asarray(square), np.eye(2), atol=1e-14
    )
