"""A phase chart of form recovery over width and amplitude: 40 x 40 cells, 50 data sets each.

    python benchmarks/phase_grid.py [--cells 40] [--replications 50] [--rows N] [--out phase.png]

Prints wall and process CPU time, and the peak memory of the process.
"""

import argparse
import os
import resource
import sys
import time

import jax
import numpy as np

from lisdd_jax.config import Config
from lisdd_jax.study.engine import Progress, run_study
from lisdd_jax.study.experiments import metrics, pipeline, scenarios
from lisdd_jax.study.experiments import oscillator_runs as runs


def evaluate(sample, key, **_):
    config = Config.paper(num_starts=20)
    found = pipeline.diagnose_sample(key, sample, config=config, edges=runs.edges())
    return {
        "form_recovery": metrics.form_recovered(found, sample),
        "physics_bias": abs(found.coefficients[0] - sample.coefficients[0]),
        "status": found.status,
    }


def show(progress: Progress) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{progress.done}/{progress.total}, {progress.seconds_left or 0:.0f} s ")


def draw(widths: np.ndarray, betas: np.ndarray, recovery: np.ndarray, path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 4.2), layout="constrained")
    axes = figure.subplots()
    image = axes.pcolormesh(betas, widths, recovery, vmin=0, vmax=1, cmap="viridis")
    axes.set_xlabel(r"amplitude $\beta$")
    axes.set_ylabel("width of the band")
    figure.colorbar(image, label="share of exact forms")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--replications", type=int, default=50)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.float32)
    widths = np.linspace(0.2, 1.55, options.cells)
    betas = np.linspace(0.01, 0.4, options.cells)
    clocks = time.time(), time.process_time()
    result = run_study(
        scenarios.oscillator(options.rows),
        evaluate,
        grid={"width": widths, "beta": betas},
        num_replications=options.replications,
        key=jax.random.key(0),
        progress=show,
    )
    wall, cpu = time.time() - clocks[0], time.process_time() - clocks[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    total = widths.size * betas.size * options.replications
    print(
        f"\njax {jax.__version__}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}:"
        f" {total} data sets of {options.rows} rows in {wall:.0f} s wall, {cpu:.0f} s CPU,"
        f" compile included; peak memory {peak:.0f} MB"
    )
    recovery = result.mean("form_recovery")
    for width, row in list(zip(widths, recovery, strict=True))[:: max(options.cells // 8, 1)]:
        print(
            f"width {width:.2f}: " + " ".join(f"{v:.2f}" for v in row[:: options.cells // 10 or 1])
        )
    if options.out:
        draw(widths, betas, recovery, options.out)


if __name__ == "__main__":
    main()
