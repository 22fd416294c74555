"""A process that opens a folder as a study, for the tests of races and of denied folders.

Usage: ``folder_worker.py FOLDER NAME RESUME [GATE]``; with a gate it waits for that file to appear,
so that several processes start at one moment.
"""

import os
import sys
import time
import warnings

import jax
from small_studies import KEY, evaluate_mean, simulate_mean

from lisdd_jax.study.engine import run_study


def main(folder, name, resume, gate=None):
    options = {"grid": {"mu": [0.0, 1.0]}, "num_replications": 30, "key": KEY, "chunk_size": 5}
    # Compiled before the race, so that the processes meet in the folder.
    run_study(simulate_mean, evaluate_mean, **options)
    if gate is not None:
        print("READY", flush=True)
        while not os.path.exists(gate):
            time.sleep(0.0005)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = run_study(
                simulate_mean,
                evaluate_mean,
                **options,
                out_dir=folder,
                name=name,
                resume=resume == "resume",
            )
        print("MEANS", result.mean("mean").tolist(), flush=True)
    except ValueError as error:
        print("REFUSED", error, flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(*sys.argv[1:])
