"""Why rows are held out: a test on the rows that chose the place rejects a sound law too often.

One of ten cells is chosen, the one with the largest mean residual, and a shift in it is tested at
level 0.05: on all rows (naive), and on rows that took no part in the choice (held out).
"""

import jax
import jax.numpy as jnp

from lisdd_jax import f_test
from lisdd_jax.study.engine import run_study

ROWS, CELLS, LEVEL = 200, 10, 0.05


def simulate(key, shift):
    """A constant law; beyond 0.9 of the axis it is off by ``shift``."""
    axis = jnp.arange(ROWS) / ROWS
    return axis, jnp.where(axis >= 0.9, shift, 0.0) + jax.random.normal(key, (ROWS,))


def evaluate(data, key, shift):
    axis, response = data
    cell = jnp.floor(axis * CELLS)
    half = jax.random.permutation(key, ROWS) < ROWS // 2
    ones = jnp.ones((ROWS, 1))

    def rejects(chooses, tests):
        there = (cell[None] == jnp.arange(CELLS)[:, None]) & chooses
        residual = response - jnp.mean(response, where=chooses)
        means = jnp.sum(there * residual, 1) / jnp.maximum(jnp.sum(there, 1), 1)
        chosen = (cell == jnp.argmax(jnp.abs(means))).astype(response.dtype)
        test = f_test(ones, chosen[:, None], response, mask=tests)
        return test.p_value < LEVEL

    every = jnp.ones(ROWS, bool)
    return {"naive": rejects(every, every), "held_out": rejects(half, ~half)}


def main():
    found = run_study(
        simulate, evaluate, grid={"shift": [0.0, 1.0]}, num_replications=2000, key=jax.random.key(0)
    )
    for row, shift in enumerate((0.0, 1.0)):
        rates = ", ".join(
            f"{name} {found.mean(name)[row]:.3f} +- {found.standard_error(name)[row]:.3f}"
            for name in ("naive", "held_out")
        )
        print(f"shift {shift}: rejected {rates}")


if __name__ == "__main__":
    main()
