"""A process that opens folders as studies, for the tests of races.

It says READY when its program is compiled. Each line of its input is a JSON list of a folder, a
name and whether to resume; it is answered by one line, as soon as it comes, so that processes that
are given theirs together meet in the folder.
"""

import json
import sys
import warnings

import jax
from small_studies import KEY, evaluate_mean, simulate_mean

from lisdd_jax.study.engine import run_study

OPTIONS = {"grid": {"mu": [0.0, 1.0]}, "num_replications": 30, "key": KEY, "chunk_size": 5}


def open_folder(folder, name, resume):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = run_study(
                simulate_mean, evaluate_mean, **OPTIONS, out_dir=folder, name=name, resume=resume
            )
        return f"MEANS {result.mean('mean').tolist()}"
    except ValueError as error:
        return f"REFUSED {error}"


def main():
    run_study(simulate_mean, evaluate_mean, **OPTIONS)
    print("READY", flush=True)
    for line in sys.stdin:
        print(open_folder(*json.loads(line)), flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
