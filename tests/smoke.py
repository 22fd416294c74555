"""Run the method end to end with the core dependencies alone; used on the oldest JAX.

python tests/smoke.py
"""

import jax
import jax.numpy as jnp

import lisdd_jax
from lisdd_jax import hybrid


def main() -> None:
    key = jax.random.key(0)
    key_x, key_noise, key_run = jax.random.split(key, 3)
    x = jax.random.uniform(key_x, (2000, 2), minval=-3.3, maxval=3.3)
    position, velocity = x[:, 0], x[:, 1]
    inside = (jnp.abs(position) > 1.7) & (jnp.abs(position) < 2.7)
    noise = 0.3 * jax.random.normal(key_noise, (2000,))
    response = -position - 0.3 * velocity + jnp.where(inside, 0.2 * position**3, 0.0) + noise
    found = lisdd_jax.diagnose(
        -x,
        response,
        position,
        features(x),
        key=key_run,
        config=lisdd_jax.Config.paper(),
    )
    lisdd_jax.raise_if_failed(found)
    assert found.form.support.tolist() == [False, True, False], found.form.support
    assert abs(float(found.coefficients[0]) - 1.0) < 0.05, found.coefficients
    assert bool(found.test.reject)
    inside_a_model(x, response, found)
    verdict = lisdd_jax.Verdict(int(found.verdict)).name
    print(f"jax {jax.__version__}, {response.dtype}: {verdict}, physics {found.coefficients}")


def features(x: jax.Array) -> jax.Array:
    return jnp.stack([x[:, 0] ** 2, x[:, 0] ** 3, x[:, 1] ** 2], axis=1)


def inside_a_model(x: jax.Array, response: jax.Array, found: lisdd_jax.Diagnosis) -> None:
    """The layer, the smooth form and their gradients."""
    model, parameters = hybrid.from_diagnosis(
        found, physics=lambda theta, x: -x @ theta, axis=lambda x: x[:, 0], features=features
    )
    loss = lambda parameters: jnp.mean((model.apply(parameters, x) - response) ** 2)  # noqa: E731
    gradient = jax.grad(loss)(parameters)
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(gradient))

    def objective(response: jax.Array) -> jax.Array:
        return hybrid.smooth_diagnose(
            -x, response, x[:, 0], features(x), key=jax.random.key(1), temperature=0.1
        ).objective

    value, slope = jax.value_and_grad(objective)(response)
    assert bool(jnp.isfinite(value)), value
    assert bool(jnp.all(jnp.isfinite(slope)))


if __name__ == "__main__":
    main()
