"""A parameter inside the physics, trained through the diagnosis.

The rate of an oscillator is ``-k sin(w x) / w - c v``, with an unknown wave number ``w`` behind the
design. Between 1.7 and 2.7 on either side of the rest position a cubic force is missing from the
law, which bends any fit to all rows. The noise scale of the smooth diagnosis says how well the law
holds where it holds, so gradient descent on it finds ``w``; Gauss-Newton steps around the hard
diagnosis polish it and give it a standard error.
"""

import jax
import jax.numpy as jnp
import optax
from scipy.optimize import least_squares

from lisdd_jax import Config, Verdict
from lisdd_jax.hybrid import diagnose_nonlinear, smooth_diagnose
from lisdd_jax.hybrid.training import train

STIFFNESS, DAMPING, WAVE_NUMBER, NOISE, ROWS = 1.0, 0.3, 0.9, 0.05, 2000
STEPS = 40
KEY = jax.random.key(0)


def simulate(key):
    key_x, key_noise = jax.random.split(key)
    x, v = jax.random.uniform(key_x, (2, ROWS), minval=-3.3, maxval=3.3)
    missing = jnp.where((abs(x) > 1.7) & (abs(x) < 2.7), 0.2 * x**3, 0.0)
    law = -STIFFNESS * jnp.sin(WAVE_NUMBER * x) / WAVE_NUMBER - DAMPING * v
    return (x, v), law + missing + NOISE * jax.random.normal(key_noise, (ROWS,))


def law(theta, inputs):
    """The trusted physics with parameters k, c and w."""
    k, c, w = theta
    x, v = inputs
    return -k * jnp.sin(w * x) / w - c * v


def library(x):
    return jnp.stack([x**2, x**3, x * abs(x), jnp.cos(x)], axis=1)


def loss(w, inputs, rate):
    """Log noise scale of the diagnosis in which ``w`` is taken as known."""
    x, v = inputs
    design = jnp.stack([-jnp.sin(w * x) / w, -v], axis=1)
    config = Config.paper(num_starts=20)
    found = smooth_diagnose(design, rate, x, library(x), key=KEY, temperature=0.05, config=config)
    return jnp.log(found.scale)


def main():
    inputs, rate = simulate(jax.random.key(3))
    everywhere = least_squares(lambda theta: law(theta, inputs) - rate, [1.0, 0.1, 0.3]).x
    optimizer = optax.adam(optax.cosine_decay_schedule(0.05, STEPS))
    trained = train(loss, jnp.asarray(0.6), inputs, rate, optimizer=optimizer, num_steps=STEPS)
    start = (1.0, 0.1, trained.parameters)
    polished = diagnose_nonlinear(law, start, inputs, rate, inputs[0], library(inputs[0]), key=KEY)
    w, found = polished.theta[2], polished.diagnosis
    print(f"wave number, true value                  {WAVE_NUMBER}")
    print(f"  least squares on all rows              {everywhere[2]:.4f}")
    print(f"  trained through the diagnosis          {trained.parameters:.4f}")
    print(
        f"  Gauss-Newton around the diagnosis      {w:.4f} +- {found.covariance[2, 2] ** 0.5:.4f}"
    )
    print(f"{Verdict(int(found.verdict)).name}: the law lacks 0.2 x^3 for")
    for k in found.regions.present.nonzero()[0]:
        print(f"  {found.regions.lower[k]:.2f} <= x < {found.regions.upper[k]:.2f}")
    return {"everywhere": everywhere[2], "trained": trained.parameters, "polished": w}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
