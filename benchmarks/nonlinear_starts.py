"""How often a start leads to the law: the non-linear diagnosis beside two least-squares solvers.

Every case is a law, a start, and data sets with and without a missing term. "right" is an answer
within 5 % of the truth, "refused" is NOT_CONVERGED, "wrong" is any other answer. The peers run from
the same start on the same data: SciPy's with a loss that bears outliers, Optimistix's without.

    python benchmarks/nonlinear_starts.py [--seeds N]
"""

import argparse
import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from scipy.optimize import least_squares

from lisdd_jax import Config, Status
from lisdd_jax.hybrid import diagnose_nonlinear

ROWS, NOISE = 400, 0.01


def decay(theta, axis):
    return theta[0] * jnp.exp(-theta[1] * axis)


def wave(theta, axis):
    return theta[0] * jnp.sin(theta[1] * axis)


CASES = [
    (decay, (2.0, 0.7), (1.0, 0.0)),
    (decay, (2.0, 0.7), (-3.0, -2.0)),
    (decay, (2.0, 0.7), (1000.0, 5.0)),
    (wave, (2.0, 6.0), (1.0, 6.2)),
    (wave, (2.0, 6.0), (1.0, 1.0)),
    (wave, (2.0, 6.0), (1.0, 20.0)),
]


def data(model, true, seed, effect):
    rng = np.random.default_rng(seed)
    axis = np.sort(rng.uniform(0, 3, ROWS))
    missing = np.where((axis > 1) & (axis < 1.6), effect * axis, 0.0)
    return axis, np.asarray(model(jnp.array(true), axis)) + NOISE * rng.normal(size=ROWS) + missing


@functools.cache
def diagnosed(model):
    def run(start, axis, response, key):
        features = jnp.stack([axis, jnp.ones(ROWS), axis**2], axis=1)
        found = diagnose_nonlinear(
            model,
            start,
            axis,
            response,
            axis,
            features,
            key=key,
            config=Config.paper(num_starts=30),
            edges=jnp.linspace(0.0, 3.0, 13),
        )
        return found.theta, found.status

    return jax.jit(run)


@functools.cache
def by_optimistix(model):
    solver = optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-8)

    def run(start, axis, response):
        residuals = lambda theta, _: model(theta, axis) - response  # noqa: E731
        return optimistix.least_squares(residuals, solver, start, throw=False, max_steps=500).value

    return jax.jit(run)


def by_scipy(model, start, axis, response):
    slope = jax.jit(jax.jacfwd(lambda theta: model(theta, axis)))
    value = jax.jit(lambda theta: model(theta, axis) - response)
    with np.errstate(all="ignore"):
        try:
            return least_squares(
                lambda theta: np.asarray(value(theta)),
                start,
                jac=lambda theta: np.asarray(slope(theta)),
                loss="soft_l1",
                f_scale=0.1,
                x_scale="jac",
            ).x
        except ValueError:
            return np.full(len(start), np.nan)


def word(theta, true, refused=False):
    right = np.allclose(np.abs(theta), true, rtol=0.05)
    return "refused" if refused else "right" if right else "wrong"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    print(f"{'law':6} {'start':>14}   method             right wrong refused")
    for model, true, start in CASES:
        tally = collections.defaultdict(collections.Counter)
        for seed in range(arguments.seeds):
            for effect in (0.0, 0.3, 1.0):
                axis, response = data(model, true, seed, effect)
                given = jnp.array(start), jnp.asarray(axis), jnp.asarray(response)
                theta, status = diagnosed(model)(*given, jax.random.key(seed))
                refused = int(status) == Status.NOT_CONVERGED
                tally["diagnose_nonlinear"][word(theta, true, refused)] += 1
                tally["optimistix LM"][word(by_optimistix(model)(*given), true)] += 1
                tally["scipy soft_l1"][word(by_scipy(model, start, axis, response), true)] += 1
        for method, counts in tally.items():
            numbers = " ".join(f"{counts[name]:5d}" for name in ("right", "wrong", "refused"))
            print(f"{model.__name__:6} {start!s:>14}   {method:18} {numbers}", flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
