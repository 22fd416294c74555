"""Small studies that the tests share, and with them their compiled programs."""

import jax
import jax.numpy as jnp
from study_worker import evaluate, settings, simulate

from lisdd_jax.study.engine import run_study

KEY = jax.random.key(3)


def simulate_mean(key, mu):
    return jnp.asarray(mu, float) + jax.random.normal(key, (20,))


def evaluate_mean(data, key, mu):
    return {"mean": data.mean()}


def run_mean(simulate=simulate_mean, evaluate=evaluate_mean, **changes):
    """A study of the mean of twenty normals; the same functions share a compiled program."""
    defaults = {"grid": {"mu": [0.0, 1.0]}, "num_replications": 30, "key": KEY}
    return run_study(simulate, evaluate, **(defaults | changes))


def run_worker(**changes):
    return run_study(simulate, evaluate, **settings(**changes))
