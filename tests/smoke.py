"""Run the method end to end with the core dependencies alone; used on the oldest JAX.

python tests/smoke.py
"""

import jax
import jax.numpy as jnp

import lisdd_jax


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
        jnp.stack([position**2, position**3, velocity**2], axis=1),
        key=key_run,
        config=lisdd_jax.Config.paper(),
    )
    lisdd_jax.raise_if_failed(found)
    assert found.form.support.tolist() == [False, True, False], found.form.support
    assert abs(float(found.coefficients[0]) - 1.0) < 0.05, found.coefficients
    assert bool(found.test.reject)
    verdict = lisdd_jax.Verdict(int(found.verdict)).name
    print(f"jax {jax.__version__}, {response.dtype}: {verdict}, physics {found.coefficients}")


if __name__ == "__main__":
    main()
