"""Peak memory of a study against its number of replications: a slope of 100 rows per replication.

Run ``python benchmarks/study_memory.py``; every size runs in a process of its own.
"""

import argparse
import resource
import subprocess
import sys

import jax
import jax.numpy as jnp

from lisdd_jax.study.engine import run_study


def simulate(key, beta):
    x_key, noise_key = jax.random.split(key)
    x = jax.random.normal(x_key, (100,))
    return x, beta * x + jax.random.normal(noise_key, (100,))


def evaluate(data, key, beta):
    x, y = data
    return {"error": jnp.vdot(x, y) / jnp.vdot(x, x) - beta}


def measure(replications: int) -> None:
    result = run_study(
        simulate,
        evaluate,
        grid={"beta": [0.5]},
        num_replications=replications,
        key=jax.random.key(0),
        quantiles=(0.05, 0.95),
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spread = float(result.quantile("error", 0.95)[0] - result.quantile("error", 0.05)[0])
    print(f"{replications:>9} replications: peak {peak:.0f} MB, 90 % range {spread:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=0)
    options = parser.parse_args()
    if options.replications:
        measure(options.replications)
        return
    for size in (10**3, 10**4, 10**5, 10**6):
        subprocess.run([sys.executable, __file__, "--replications", str(size)], check=True)


if __name__ == "__main__":
    main()
