"""What this library does on the accelerator at hand; needs jax, numpy, scipy and optax only.

    python benchmarks/device.py [--small] [--float64] [--out device.json]

Four parts, each printed as it ends and kept in the file: diagnoses of a batch on the device against
the same on the CPU backend of this process; data sets per second by size of batch; the bytes of the
rows read at least once per second of a trimmed fit and of an F test, against the copy bandwidth
measured just before; and a phase grid of 100 x 100 cells with 100 replications. ``--small`` takes
sizes for a CPU. The first part ends the program with exit code 1 where results differ.
"""

import argparse
import functools
import json
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.config import Config
from lisdd_jax.statistics.f_tests import f_test
from lisdd_jax.statistics.trimmed.fit import fit_trimmed
from lisdd_jax.study.engine import run_study
from lisdd_jax.study.experiments import metrics, pipeline, scenarios

LARGE = {
    "rows": 2000,
    "batches": (1, 100, 1000),
    "copied": 1 << 28,
    "wide_rows": 1 << 22,
    "cells": 100,
    "replications": 100,
}
SMALL = {
    "rows": 600,
    "batches": (1, 10),
    "copied": 1 << 22,
    "wide_rows": 1 << 15,
    "cells": 3,
    "replications": 10,
}
METHODS = {"published": Config.paper(num_starts=50), "default": Config()}
TOLERANCE = {"float32": 2e-3, "float64": 1e-8}
"""Relative difference of coefficients and scales allowed between devices: sums are ordered
differently, and the robust start is the same minimum in all but a few data sets."""
SAME_SUPPORTS = 0.98


def draw(rows: int, count: int) -> Any:
    """So many samples of the oscillator."""
    keys = jax.random.split(jax.random.key(0), count)
    return jax.vmap(partial(scenarios.oscillator(rows), beta=0.2))(keys)


@functools.cache
def diagnose_batch(method: str) -> Callable[..., Any]:
    """A compiled function of keys and samples; one for all parts, which share its programs."""
    config = METHODS[method]

    def one(key: jax.Array, sample: Any) -> Any:
        found = pipeline.diagnose_sample(key, sample, config=config)
        return found.coefficients, found.scale, found.form.support, found.status

    return jax.jit(jax.vmap(one))


def seconds(function: Callable[..., Any], *arguments: Any, turns: int = 5) -> tuple[float, float]:
    """Seconds of the first call, and the median of later ones."""
    spent = []
    for _ in range(turns + 1):
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        spent.append(time.perf_counter() - begin)
    return spent[0], float(np.median(spent[1:]))


def compare(method: str, rows: int, count: int, dtype: str) -> dict[str, Any]:
    """The same batch on the device and on the CPU, by the largest relative differences."""
    found = {}
    with jax.default_device(jax.devices("cpu")[0]):
        keys, samples = jax.random.split(jax.random.key(1), count), draw(rows, count)
    for name, device in (("device", jax.devices()[0]), ("cpu", jax.devices("cpu")[0])):
        placed = jax.device_put((keys, samples), device)
        function = diagnose_batch(method)
        if jax.devices()[0].platform == "cpu" and name == "cpu":
            # Without an accelerator the rival is one data set after the other.
            function = jax.jit(lambda k, s, f=function: jax.lax.map(lambda p: _one(f, p), (k, s)))
        found[name] = jax.tree.map(np.asarray, function(*placed))
    (theta, scale, support, status), (theta0, scale0, support0, status0) = found.values()
    same = np.all(support == support0, axis=1)
    gap = np.max(np.abs(theta - theta0) / np.maximum(np.abs(theta0), 1e-3), axis=1)
    gap = np.maximum(gap, np.abs(scale / scale0 - 1))
    return {
        "part": "correctness",
        "method": method,
        "same_supports": float(same.mean()),
        "same_status": float((status == status0).mean()),
        "median_gap": float(np.median(gap)),
        "largest_gap": float(np.max(gap)),
        "right": bool(same.mean() >= SAME_SUPPORTS and np.median(gap) <= TOLERANCE[dtype]),
    }


def _one(function: Callable[..., Any], pair: tuple[Any, Any]) -> Any:
    found = function(*jax.tree.map(lambda leaf: leaf[None], pair))
    return jax.tree.map(lambda leaf: leaf[0], found)


def throughput(method: str, rows: int, count: int) -> dict[str, Any]:
    keys, samples = jax.random.split(jax.random.key(2), count), draw(rows, count)
    first, later = seconds(diagnose_batch(method), keys, samples)
    return {
        "part": "throughput",
        "method": method,
        "rows": rows,
        "batch": count,
        "first_seconds": first,
        "sets_per_second": count / later,
    }


def bandwidth(copied: int, rows: int) -> list[dict[str, Any]]:
    """Bytes per second: of a copy, and of rows that a stage must read at least once."""
    values = jnp.ones(copied, jnp.float32)
    _, copying = seconds(jax.jit(lambda x: x + 1), values)
    copy_rate = 2 * values.nbytes / copying
    keys = jax.random.split(jax.random.key(3), 3)
    design = jax.random.normal(keys[0], (rows, 2))
    extra = jax.random.normal(keys[1], (rows, 2))
    response = design @ jnp.ones(2, design.dtype) + jax.random.normal(keys[2], (rows,))
    stages = {
        "f_test": (lambda d, e, r: f_test(d, e, r), (design, extra, response)),
        "fit_trimmed": (
            lambda d, r: fit_trimmed(d, r, key=jax.random.key(4), trim=0.25, num_starts=500),
            (design, response),
        ),
    }
    found: list[dict[str, Any]] = [{"part": "copy", "bytes_per_second": copy_rate}]
    for name, (function, arguments) in stages.items():
        _, later = seconds(jax.jit(function), *arguments)
        rate = sum(part.nbytes for part in arguments) / later
        found.append(
            {
                "part": "bandwidth",
                "stage": name,
                "rows": rows,
                "seconds": later,
                "bytes_per_second": rate,
                "share_of_copy": rate / copy_rate,
            }
        )
    return found


def phase_grid(rows: int, cells: int, replications: int) -> dict[str, Any]:
    """Recovery of the exact form over width and amplitude."""

    def evaluate(sample: Any, key: jax.Array, **_: Any) -> dict[str, jax.Array]:
        found = pipeline.diagnose_sample(key, sample, config=METHODS["published"])
        return {"recovered": metrics.form_recovered(found, sample), "status": found.status}

    begin = time.perf_counter()
    result = run_study(
        scenarios.oscillator(rows),
        evaluate,
        grid={
            "width": np.linspace(0.2, 1.55, cells),
            "beta": np.linspace(0.01, 0.4, cells),
        },
        num_replications=replications,
        key=jax.random.key(0),
    )
    spent = time.perf_counter() - begin
    total = cells**2 * replications
    return {
        "part": "phase grid",
        "rows": rows,
        "data_sets": total,
        "seconds_with_compiling": spent,
        "sets_per_second": total / spent,
        "mean_recovery": float(np.mean(result.mean("recovered"))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--out", default="device.json")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", options.float64)
    dtype, sizes = "float64" if options.float64 else "float32", SMALL if options.small else LARGE
    device = jax.devices()[0]
    record: dict[str, Any] = {
        "device": device.device_kind,
        "platform": device.platform,
        "host": platform.machine(),
        "versions": {"jax": jax.__version__, "numpy": np.__version__},
        "precision": dtype,
        "parts": [],
    }
    print(f"{record['device']} ({record['platform']}), jax {jax.__version__}, {dtype}", flush=True)

    def keep(line: dict[str, Any]) -> None:
        record["parts"].append(line)
        print(json.dumps(line), flush=True)
        # Kept after each part, so that what a time limit cuts off costs no more than itself.
        with open(options.out, "w") as file:
            json.dump(record, file, indent=1)

    most = max(sizes["batches"])
    for method in METHODS:
        keep(compare(method, sizes["rows"], most, dtype))
    for line in bandwidth(sizes["copied"], sizes["wide_rows"]):
        keep(line)
    for method in METHODS:
        for count in sizes["batches"]:
            keep(throughput(method, sizes["rows"], count))
    keep(phase_grid(sizes["rows"], sizes["cells"], sizes["replications"]))
    if not all(part.get("right", True) for part in record["parts"]):
        sys.exit("results on the device differ from those on the CPU")


if __name__ == "__main__":
    main()
