"""One line of ``benchmarks/record.py``: a stage or a diagnosis, in a process of its own."""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

STAGES = ("fit_trimmed", "select_form", "f_test", "published", "default")


def make_data(num_rows: int, num_terms: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Two regressors, a cubic term beyond ``|x| = 2``, noise 0.3; powers and sines as a library."""
    rng = np.random.default_rng(seed)
    x, v = rng.uniform(-3, 3, num_rows), rng.normal(size=num_rows)
    noise = 0.3 * rng.normal(size=num_rows)
    powers = [x**k for k in range(2, 6)]
    terms = powers + [np.sin((k + 1) * x) for k in range(max(num_terms - len(powers), 0))]
    return {
        "design": np.column_stack([x, v]),
        "response": -2 * x - 0.5 * v + np.where(np.abs(x) > 2, 0.2 * x**3, 0.0) + noise,
        "axis": x,
        "features": np.column_stack(terms[:num_terms]),
    }


def write_table(path: Path, num_rows: int) -> None:
    """The data as a file for other programs."""
    data = make_data(num_rows, 6)
    columns = [data["design"], data["response"], data["features"]]
    names = "x,v,y," + ",".join(f"f{j}" for j in range(6))
    np.savetxt(path, np.column_stack(columns), delimiter=",", header=names, comments="")


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_mb() -> float:
    """Memory of this process now, where the system tells it; else NaN."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * resource.getpagesize() / 2**20


def stage_of(name: str) -> Any:
    """A function of arrays by name, whose result holds a status and a number to keep."""
    import jax
    import jax.numpy as jnp

    import lisdd_jax
    from lisdd_jax import Config

    key = jax.random.key(0)

    def diagnosed(arrays: dict[str, Any], config: Any) -> tuple[Any, Any]:
        found = lisdd_jax.diagnose(**arrays, key=key, config=config)
        return found.status, found.scale

    def run(arrays: dict[str, Any]) -> tuple[Any, Any]:
        design, response, features = (arrays[k] for k in ("design", "response", "features"))
        if name == "fit_trimmed":
            fit = lisdd_jax.fit_trimmed(design, response, key=key, trim=0.25, num_starts=500)
            return fit.status, fit.objective
        if name == "select_form":
            first = jnp.arange(response.shape[0]) % 2 == 0
            chosen = lisdd_jax.select_form(
                features, response, first, ~first, max_terms=2, tolerance=0.1
            )
            return chosen.status, chosen.error
        if name == "f_test":
            test = lisdd_jax.f_test(design, features[:, :2], response)
            return test.status, test.log_p_value
        return diagnosed(arrays, Config.paper() if name == "published" else Config())

    return run


def main() -> None:
    settings = json.loads(sys.argv[1])
    import jax

    jax.config.update("jax_enable_x64", settings["precision"] == "float64")
    stage, batch = stage_of(settings["stage"]), settings["batch"]
    sets = [make_data(settings["num_rows"], settings["num_terms"], seed) for seed in range(batch)]
    arrays = {
        name: np.stack([part[name] for part in sets]).astype(settings["precision"])
        for name in sets[0]
    }
    function = stage
    if batch == 1:
        arrays = {name: value[0] for name, value in arrays.items()}
    else:
        # One after the other keeps the rows of a data set in cache, which serves a CPU best.
        function = jax.jit(lambda parts: jax.lax.map(stage, parts))
        arrays = jax.device_put(arrays)
    held_mb = resident_mb()
    found = jax.block_until_ready(function(arrays))
    first = {"first_cpu": processor_seconds(), "first_wall": time.monotonic() - STARTED}
    turns = []
    for _ in range(settings["turns"]):
        begin = processor_seconds(), time.perf_counter()
        found = jax.block_until_ready(function(arrays))
        turns.append((processor_seconds() - begin[0], time.perf_counter() - begin[1]))
    cpu, wall = np.median(turns, axis=0) / batch
    status, value = (np.ravel(np.asarray(part)) for part in found)
    statuses, counts = np.unique(status, return_counts=True)
    print(
        json.dumps(
            {
                **first,
                "run_cpu": cpu,
                "run_wall": wall,
                "run_wall_spread": float(np.ptp([turn[1] for turn in turns])) / batch,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "held_mb": held_mb,
                "data_mb": sum(value.nbytes for value in arrays.values()) / 2**20,
                "statuses": {int(k): int(n) for k, n in zip(statuses, counts, strict=True)},
                "value": float(value[0]),
                "device": jax.devices()[0].device_kind,
            }
        )
    )


STARTED = time.monotonic()

if __name__ == "__main__":
    main()
