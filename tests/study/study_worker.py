"""A small study, and a process that runs it for the tests of devices, processes and crashes.

Usage: ``study_worker.py JSON`` with ``runs``, a list of keyword arguments of ``run_study``; each
result is printed as one line of JSON. ``processes``, ``process`` and ``port`` join a group of
processes; ``pause`` waits after every chunk. Runs ``on_host`` ask a function of the host, which
fails where the environment says so.
"""

import json
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def simulate(key, shift, scale):
    return shift + scale * jax.random.normal(key, (200,))


def evaluate(data, key, shift, scale):
    """Trimmed mean by iteration, with a NaN and a status that some replications give."""

    def trim(state):
        step, centre, _ = state
        kept = jnp.abs(data - centre) < 2 * scale
        return step + 1, jnp.mean(data, where=kept), centre

    def moving(state):
        step, centre, previous = state
        return (step < 20) & (centre != previous)

    steps, centre, _ = jax.lax.while_loop(moving, trim, (0, jnp.mean(data), jnp.inf))
    luck = jax.random.uniform(key)
    return {
        "error": centre - shift,
        "covered": jnp.abs(centre - shift) < 0.1,
        "steps": steps,
        "fragile": jnp.where(luck < 0.1, jnp.nan, luck),
        "status": jnp.where(luck < 0.1, 101, 0),
    }


def ask(x):
    if "HOST_FAILS" in os.environ:
        raise RuntimeError("the licence is gone")
    return np.asarray(x)


def evaluate_on_host(data, key, shift, scale):
    return {"mean": jax.pure_callback(ask, jax.ShapeDtypeStruct((), data.dtype), data.mean())}


GRID = {"shift": [0.0, 1.0, -3.0], "scale": [0.5, 2.0]}


def settings(**changes):
    defaults = {
        "grid": GRID,
        "num_replications": 60,
        "key": jax.random.key(7),
        "quantiles": (0.1, 0.5),
    }
    return defaults | changes


def numbers(result):
    """Everything that must agree to the last bit, as JSON."""
    content = result.to_dict()
    return json.dumps([content["cells"], content["complete"]])


def main(options):
    from lisdd_jax.study.engine import run_study

    if "processes" in options:
        # Fails if the import has touched a device.
        jax.distributed.initialize(
            f"127.0.0.1:{options['port']}", options["processes"], options["process"]
        )
    pause = options.get("pause", 0)
    for run in options["runs"]:
        run = dict(run)
        run["share"] = tuple(run["share"]) if "share" in run else None
        evaluated = evaluate_on_host if run.pop("on_host", False) else evaluate
        changes = settings(**run, progress=lambda _: time.sleep(pause))
        try:
            print("RESULT", numbers(run_study(simulate, evaluated, **changes)), flush=True)
        except (ValueError, RuntimeError) as error:
            print("ERROR", error, flush=True)
    print("DEVICES", jax.local_device_count(), flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(json.loads(sys.argv[1]))
