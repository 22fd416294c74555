"""A neural network beside a localised correction, trained together with Optax.

The oscillator of the paper also feels an effect of a third variable that nobody has a formula for.
The diagnosis finds the missing cubic term in its region, with the unknown effect as noise; then the
corrected model is trained together with a small network for the rest. Physics, ends of the regions
and weights stay readable numbers.
"""

import jax
import jax.numpy as jnp
import optax

from lisdd_jax import diagnose
from lisdd_jax.hybrid import from_diagnosis
from lisdd_jax.hybrid.training import train

ROWS = 3000


@jax.jit
def simulate(key):
    key_x, key_z, key_noise = jax.random.split(key, 3)
    x, v = jax.random.uniform(key_x, (2, ROWS), minval=-3.3, maxval=3.3)
    z = jax.random.uniform(key_z, (ROWS,), minval=-1, maxval=1)
    missing = jnp.where((abs(x) > 1.7) & (abs(x) < 2.7), 0.2 * x**3, 0.0)
    rate = -x - 0.3 * v + missing + 0.5 * jnp.sin(4 * z)
    return (x, v, z), rate + 0.1 * jax.random.normal(key_noise, (ROWS,))


def design(inputs):
    return -jnp.stack(inputs[:2], axis=1)


def library(inputs):
    x, v = inputs[:2]
    return jnp.stack([x**2, x**3, x * abs(x), jnp.sin(x), v**2, x * v], axis=1)


def network(key, sizes):
    """Weights and biases of a multilayer perceptron."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [(jax.random.normal(k, (a, b)) / a**0.5, jnp.zeros(b)) for k, a, b in pairs]


def evaluate(layers, columns):
    for weights, biases in layers[:-1]:
        columns = jnp.tanh(columns @ weights + biases)
    return (columns @ layers[-1][0] + layers[-1][1])[:, 0]


def rmse(error):
    return float(jnp.sqrt(jnp.mean(error**2)))


def main():
    inputs, rate = simulate(jax.random.key(1))
    new, new_rate = simulate(jax.random.key(2))
    found = diagnose(design(inputs), rate, inputs[0], library(inputs), key=jax.random.key(3))
    layer, parameters = from_diagnosis(
        found,
        physics=lambda theta, inputs: design(inputs) @ theta,
        axis=lambda inputs: inputs[0],
        features=library,
        width=0.02,
    )

    def hybrid(model, inputs):
        correction, layers = model
        return layer.apply(correction, inputs) + evaluate(layers, inputs[2][:, None])

    def black_box(layers, inputs):
        return evaluate(layers, jnp.stack(inputs, axis=1))

    def loss(predict):
        return lambda model, inputs, rate: jnp.mean((predict(model, inputs) - rate) ** 2)

    optimizer = optax.adam(optax.cosine_decay_schedule(0.01, 1500))
    options = {"optimizer": optimizer, "num_steps": 1500}
    start = (parameters, network(jax.random.key(4), [1, 16, 1]))
    both = train(loss(hybrid), start, inputs, rate, **options)
    alone = train(loss(black_box), network(jax.random.key(5), [3, 16, 1]), inputs, rate, **options)
    errors = {
        "physics alone": rmse(design(new) @ found.coefficients - new_rate),
        "physics and localised term": rmse(layer.apply(parameters, new) - new_rate),
        "network alone": rmse(black_box(alone.parameters, new) - new_rate),
        "hybrid, trained together": rmse(hybrid(both.parameters, new) - new_rate),
    }
    for name, error in errors.items():
        print(f"{name:28s} {error:.3f} on new rows (noise 0.1)")
    trained = both.parameters[0]
    print("physics", trained.physics.round(3), "true [1, 0.3]")
    print("regions", jnp.stack([trained.lower, trained.upper], axis=1).round(2).tolist())
    print("weight of x^3", trained.weights[:, 1].round(3), "true 0.2")
    return errors | {"stiffness": float(trained.physics[0]), "weight": float(trained.weights[0, 1])}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
