"""Memory of studies: its peak against the number of replications, and what many studies leave.

    python benchmarks/study_memory.py [--studies 12]

The first table is a slope of 100 rows, every size in a process of its own. The second is the whole
published pipeline, twelve studies one after another in one process, each with its own number of
rows and so its own program: what the process holds after each, and with JAX's caches of traced
functions emptied too.
"""

import argparse
import gc
import resource
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax.config import PublishedConfig
from lisdd_jax.numerics import memory
from lisdd_jax.study.engine import machine, release_programs, run_study
from lisdd_jax.study.experiments import metrics, pipeline, scenarios


def simulate(key: jax.Array, beta: Any) -> tuple[jax.Array, jax.Array]:
    x_key, noise_key = jax.random.split(key)
    x = jax.random.normal(x_key, (100,))
    return x, beta * x + jax.random.normal(noise_key, (100,))


def evaluate(data: tuple[jax.Array, jax.Array], key: jax.Array, beta: Any) -> dict[str, jax.Array]:
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


def diagnose(sample: scenarios.Sample, key: jax.Array, **_: Any) -> dict[str, jax.Array]:
    config = PublishedConfig(num_starts=20)
    return metrics.diagnosis_metrics(pipeline.diagnose_sample(key, sample, config=config), sample)


def repeat(studies: int) -> None:
    print(f"{'before any study':24s} {resident():5.0f} MB")
    for number in range(studies):
        run_study(
            scenarios.oscillator(300 + 10 * number),
            diagnose,
            grid={"beta": [0.2]},
            num_replications=20,
            key=jax.random.key(0),
        )
        print(f"{f'after study {number + 1}':24s} {resident():5.0f} MB", flush=True)
    release_programs()
    print(f"{'programs released':24s} {trimmed():5.0f} MB")
    jax.clear_caches()
    print(f"{'JAX caches emptied':24s} {trimmed():5.0f} MB")


def resident() -> float:
    return machine.resident_bytes() / 2**20


def trimmed() -> float:
    gc.collect()
    memory.return_free_memory()
    return resident()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=0)
    parser.add_argument("--studies", type=int, default=0)
    options = parser.parse_args()
    if options.replications:
        measure(options.replications)
    elif options.studies:
        repeat(options.studies)
    else:
        for size in (10**3, 10**4, 10**5, 10**6):
            subprocess.run([sys.executable, __file__, "--replications", str(size)], check=True)
        subprocess.run([sys.executable, __file__, "--studies", "12"], check=True)


if __name__ == "__main__":
    main()
