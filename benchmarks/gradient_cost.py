"""Cost of value and gradient over that of the value, compile time apart.

The gradient is that of one number in all responses (reverse mode), or of the loss in all parameters
for the layer. Both run by turns in one process; the ratio is that of the medians.

    python benchmarks/gradient_cost.py [--rows N] [--repeats N]
"""

import argparse
import os
import platform
import time

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import Config, diagnose
from lisdd_jax.hybrid import from_diagnosis, refit, smooth_diagnose
from lisdd_jax.study.experiments import scenarios

KEY = jax.random.key(0)
PAPER = Config.paper(num_starts=50)


def cases(sample):
    """Name, function of one argument, and that argument."""
    rest = (sample.axis, sample.features)

    def hard(config, pick):
        return lambda y: pick(diagnose(sample.design, y, *rest, key=KEY, config=config))

    def smooth(y):
        found = smooth_diagnose(sample.design, y, *rest, key=KEY, config=PAPER, temperature=0.1)
        return found.objective + found.test_log_p_value

    inputs = {"design": sample.design, "axis": sample.axis, "features": sample.features}
    model, parameters = from_diagnosis(
        diagnose(sample.design, sample.response, *rest, key=KEY),
        physics=lambda theta, inputs: inputs["design"] @ theta,
        axis=lambda inputs: inputs["axis"],
        features=lambda inputs: inputs["features"],
    )

    def loss(parameters):
        return jnp.mean((model.apply(parameters, inputs) - sample.response) ** 2)

    def ends(y):
        return jnp.sum(refit(model, parameters, inputs, y).parameters.lower)

    first = lambda found: found.coefficients[0]  # noqa: E731
    tail = lambda found: found.test.log_p_value  # noqa: E731
    return [
        ("published: first coefficient", hard(PAPER, first), sample.response),
        ("published: log p of the test", hard(PAPER, tail), sample.response),
        ("default: first coefficient", hard(Config(), first), sample.response),
        ("default: log p of the test", hard(Config(), tail), sample.response),
        ("smooth: objective and log p", smooth, sample.response),
        ("layer: mean squared error", loss, parameters),
        ("refit: ends of the regions", ends, sample.response),
    ]


def seconds(function, argument):
    start = time.perf_counter()
    jax.block_until_ready(function(argument))
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(
        f"jax {jax.__version__}, {platform.machine()}, {os.cpu_count()} cores, load"
        f" {os.getloadavg()[0]:.1f}, n = {options.rows}, float64"
    )
    sample = scenarios.oscillator(options.rows)(jax.random.key(1), beta=0.2)
    print(f"{'':32s}{'value':>10s}{'and gradient':>15s}{'ratio':>8s}")
    for name, function, argument in cases(sample):
        value, both = jax.jit(function), jax.jit(jax.value_and_grad(function))
        gradient = both(argument)[1]
        assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(gradient))
        value(argument)
        pairs = [
            (seconds(value, argument), seconds(both, argument)) for _ in range(options.repeats)
        ]
        alone, together = 1e3 * np.median(pairs, axis=0)
        print(f"{name:32s}{alone:7.2f} ms{together:12.2f} ms{together / alone:8.2f}")


if __name__ == "__main__":
    main()
