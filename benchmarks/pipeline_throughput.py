"""Replications per second of the whole published pipeline, against plain NumPy/SciPy loops.

Both sides get the same data, starts, subsample and halves, and run every stage twice
(all rows, and split A with its test on split B). The peer is what a careful user would write: a
loop over data sets on one core, `np.partition`, normal equations for all candidates at once,
`scipy.stats` tails, `np.linalg.lstsq` per support. Both sides' results are compared. The same loop
runs on all cores too, in a process for each, which are started and given their data beforehand.

    python benchmarks/pipeline_throughput.py [--replications N] [--rows N] [--float32]

The sides take turns, and every turn gives a ratio, since other work on the machine slows now one
and now the other. Process CPU seconds are printed beside wall seconds for the same reason. Drawing
the data alone, by the study's own generator, takes a turn as well.
"""

import argparse
import itertools
import multiprocessing
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any

# The peer is a one-core loop; threads of BLAS would make it slower on such small matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from scipy import stats

from lisdd_jax import diagnosis
from lisdd_jax.config import Config
from lisdd_jax.statistics import splits
from lisdd_jax.statistics.trimmed import starts as starting
from lisdd_jax.study.engine import interval_sets
from lisdd_jax.study.engine.chunks import run_chunks
from lisdd_jax.study.engine.program import build_program
from lisdd_jax.study.engine.replication import Replication, replication_keys
from lisdd_jax.study.experiments import oscillator_runs as runs
from lisdd_jax.study.experiments import scenarios

CONFIG = Config.paper(num_starts=50)
NUM_CANDIDATES, SUBSAMPLE = 10, 300
METRICS = ("k", "c", "scale", "flags", "support", "statistic", "log_p")


NAMES = ("design", "response", "axis", "features")


def _pack(bits: Any, xp: Any) -> Any:
    return xp.sum(xp.where(bits, 2.0 ** xp.arange(len(bits)), 0.0))


def ours(sample: Any, key: jax.Array, **_: Any) -> dict[str, jax.Array]:
    arrays = {name: getattr(sample, name) for name in NAMES}
    arrays |= {"edges": runs.edges(), "mask": jnp.ones(len(sample.response), bool)}
    found = diagnosis.run(key, arrays, CONFIG.checked(sample.response.dtype))
    return {
        "k": found.coefficients[0],
        "c": found.coefficients[1],
        "scale": found.scale,
        "flags": _pack(found.cells.flagged, jnp),
        "support": _pack(found.form.support, jnp),
        "statistic": found.test.statistic,
        "log_p": found.test.log_p_value,
    }


def only_draw(sample: Any, key: jax.Array, **_: Any) -> dict[str, jax.Array]:
    """The data alone, of which the sum of each array is returned.

    A sum needs every number, and takes as long as returning the arrays does. Of a single number,
    even behind a barrier, the compiler computes what that number needs.
    """
    return {name: jnp.sum(getattr(sample, name)) for name in NAMES}


# The random choices of one replication, so that the peer makes the same ones.


@partial(jax.jit, static_argnums=1)
def draw(key: jax.Array, num_rows: int) -> dict[str, jax.Array]:
    keys = jax.random.split(key, 5)
    everything = jnp.ones(num_rows, bool)
    half = splits.random_half(keys[4], everything)
    stages = {}
    for name, (key_start, key_fit), mask in (
        ("full", keys[:2], everything),
        ("half", keys[2:4], half),
    ):
        draws = starting.draw(key_start, SUBSAMPLE, CONFIG.num_starts, 2)
        row = jnp.arange(num_rows, dtype=float)
        rows = starting.make_columns(row[None], row, mask)
        judge = starting.subsample(draws, rows, *starting.row_table(mask))
        starts = starting.random_ranks(draws.starts, jnp.int32(SUBSAMPLE))
        coins = jax.random.bernoulli(key_fit, 0.5, (num_rows // 2 + 1,))
        stages[name] = (judge.basis[0].astype(int), starts, coins)
    return {"split": half, **stages}


def random_half(coins: np.ndarray, inside: np.ndarray) -> np.ndarray:
    rank = np.cumsum(inside) - 1
    return inside & ((rank % 2 == 1) == coins[np.maximum(rank, 0) // 2])


def num_kept(count: int) -> int:
    return int(np.ceil((1 - CONFIG.trim) * count - 4 * np.finfo(float).eps * count))


def concentrate(design, response, solutions, num):
    """One C-step for all candidates, and their objectives before it."""
    squares = (response - solutions @ design.T) ** 2
    threshold = np.partition(squares, num - 1, axis=1)[:, num - 1]
    weights = (squares <= threshold[:, None]).astype(design.dtype)
    objectives = np.einsum("sn,sn->s", weights, squares)
    first, second = design.T
    products = (first**2, first * second, second**2, first * response, second * response)
    moments = weights @ np.column_stack(products)
    a, b, c, u, v = moments.T
    determinant = a * c - b * b
    return np.stack([(c * u - b * v), (a * v - b * u)], axis=1) / determinant[:, None], objectives


def converge(design, response, solutions, num):
    best, objectives = solutions, np.full(len(solutions), np.inf)
    trial, active = solutions, np.ones(len(solutions), bool)
    while active.any():
        moved, value = concentrate(design, response, trial, num)
        better = value < objectives
        best = np.where(better[:, None], trial, best)
        objectives = np.where(better, value, objectives)
        trial, active = moved, better
    return best, objectives


def lead(design, response, solutions, num, num_steps, num_leading):
    """So many steps for all candidates, then those with the lowest objectives."""
    for _ in range(num_steps):
        solutions, _ = concentrate(design, response, solutions, num)
    _, objectives = concentrate(design, response, solutions, num)
    return solutions[np.argsort(objectives, kind="stable")[:num_leading]]


def trimmed_fit(design, response, judge, starts):
    sub_design, sub_response = design[judge], response[judge]
    sub_num, num = num_kept(len(judge)), num_kept(len(response))
    # The library draws a new pair where a row came twice; one start fewer changes nothing here.
    starts = starts[starts[:, 0] != starts[:, 1]]
    pairs = sub_design[starts]
    solutions = np.linalg.solve(pairs, sub_response[starts][..., None])[..., 0]
    chosen = lead(sub_design, sub_response, solutions, sub_num, 5, NUM_CANDIDATES)
    leading = lead(design, response, chosen, num, 2, 2)
    best, objectives = converge(design, response, leading, num)
    return best[np.argmin(objectives)]


def clean_regime(design, response, cell, theta):
    previous = None
    for _ in range(CONFIG.max_iterations):
        residual = response - design @ theta
        scale = 1.4826 * np.median(np.abs(residual - np.median(residual)))
        energy = np.bincount(cell, residual**2, minlength=runs.NUM_CELLS) / scale**2
        count = np.bincount(cell, minlength=runs.NUM_CELLS)
        flagged = stats.chi2.sf(energy, count) < CONFIG.alpha_cell
        clean = ~flagged[cell]
        theta = np.linalg.lstsq(design[clean], response[clean], rcond=None)[0]
        if previous is not None and np.array_equal(flagged, previous):
            break
        previous = flagged
    return theta, flagged, scale


SUPPORTS = [s for size in (1, 2) for s in itertools.combinations(range(6), size)]


def select(features, residual, fit, score):
    errors = []
    for support in SUPPORTS:
        columns = features[:, support]
        weights = np.linalg.lstsq(columns[fit], residual[fit], rcond=None)[0]
        errors.append(np.mean((residual[score] - columns[score] @ weights) ** 2))
    errors = np.array(errors)
    within = errors <= (1 + CONFIG.tolerance) * errors.min()
    sizes = np.array([len(support) for support in SUPPORTS])
    eligible = within & (sizes == sizes[within].min())
    return SUPPORTS[int(np.argmin(np.where(eligible, errors, np.inf)))]


def stages(design, response, cell, features, choices):
    judge, starts, coins = choices
    theta = trimmed_fit(design, response, judge, starts)
    theta, flagged, scale = clean_regime(design, response, cell, theta)
    inside = flagged[cell]
    support = ()
    if inside.any():
        fit = random_half(coins, inside)
        support = select(features, response - design @ theta, fit, inside & ~fit)
    return theta, flagged, scale, support


def peer(sample: dict[str, np.ndarray], choices: dict[str, Any]) -> np.ndarray:
    """The same algorithm on one data set, in NumPy and SciPy."""
    design, response, features = sample["design"], sample["response"], sample["features"]
    edges = np.linspace(-scenarios.HALF_WIDTH, scenarios.HALF_WIDTH, runs.NUM_CELLS + 1)
    cell = np.clip(np.searchsorted(edges, sample["axis"], side="right") - 1, 0, runs.NUM_CELLS - 1)
    theta, flagged, scale, support = stages(design, response, cell, features, choices["full"])
    half = choices["split"]
    judge, starts, coins = choices["half"]
    place = np.cumsum(half) - 1
    own = (place[judge], starts, coins)
    part = (design[half], response[half], cell[half], features[half], own)
    _, half_flagged, _, half_support = stages(*part)
    rest = ~half
    inside = half_flagged[cell[rest]]
    statistic, log_p = np.nan, np.nan
    if inside.any():
        extra = np.where(inside[:, None], features[rest][:, half_support], 0.0)
        columns = np.column_stack([design[rest], extra])
        sums = [
            np.sum((response[rest] - a @ np.linalg.lstsq(a, response[rest], rcond=None)[0]) ** 2)
            for a in (design[rest], columns)
        ]
        degrees = rest.sum() - columns.shape[1]
        statistic = (sums[0] - sums[1]) / extra.shape[1] / (sums[1] / degrees)
        log_p = stats.f.logsf(statistic, extra.shape[1], degrees)
    chosen = np.isin(np.arange(6), support)
    return np.array([*theta, scale, _pack(flagged, np), _pack(chosen, np), statistic, log_p], float)


class PeerProcesses:
    """The loop in as many processes as there are cores, each over a part of the inputs."""

    def __init__(self, inputs: list[tuple[Any, Any]]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        cores = os.cpu_count() or 1
        for part in (inputs[i::cores] for i in range(cores)):
            pipe, far_end = context.Pipe()
            process = context.Process(target=_serve, args=(far_end, part), daemon=True)
            process.start()
            self._pipes.append(pipe)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def run(self) -> list[float]:
        """One pass over all inputs: processor seconds of each process."""
        for pipe in self._pipes:
            pipe.send(None)
        return [pipe.recv() for pipe in self._pipes]

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join()


def _serve(pipe: Any, inputs: list[tuple[Any, Any]]) -> None:
    """Run the loop over these inputs whenever asked; the first time unasked, to be warm."""
    while True:
        begin = time.process_time()
        for pair in inputs:
            peer(*pair)
        pipe.send(time.process_time() - begin)
        try:
            pipe.recv()
        except EOFError:
            return


def build(simulate: Any, evaluate: Any, key: jax.Array) -> Any:
    params = {"beta": np.array([0.2])}
    return build_program(Replication(simulate, evaluate), key, params, devices=jax.local_devices())


class Turns:
    """Seconds per data set, wall and CPU, of the turns of one side."""

    def __init__(self) -> None:
        self.seconds: list[tuple[float, float]] = []

    def take(self, count: int, work: Callable[[], Any]) -> Any:
        """Time one turn over so many data sets."""
        clocks = time.time(), time.process_time()
        result = work()
        spent = time.time() - clocks[0], time.process_time() - clocks[1]
        self.seconds.append((spent[0] / count, spent[1] / count))
        return result

    def array(self) -> np.ndarray:
        return np.array(self.seconds)


def run_all(program: Any, replications: int) -> list[Any]:
    wanted = interval_sets.share_of_cells(np.array([0]), replications)
    return list(run_chunks(program, wanted, started=time.monotonic()))


def peer_inputs(simulate: Any, key: jax.Array, count: int, rows: int) -> list[tuple[Any, Any]]:
    """Data and random choices of the first replications."""
    simulated, inputs = jax.jit(simulate), []
    for i in range(count):
        key_data, key_fit = replication_keys(key, 0, i)
        sample = simulated(key_data, beta=0.2)
        arrays = {name: np.asarray(value) for name, value in vars(sample).items()}
        inputs.append((arrays, jax.tree.map(np.asarray, draw(key_fit, rows))))
    return inputs


def compare(chunks: list[Any], expected: np.ndarray, replications: int) -> None:
    """Print the largest difference of every number."""
    records = {name: np.empty(replications) for name in METRICS}
    for chunk in chunks:
        _, numbers = interval_sets.split_members(interval_sets.members(chunk.intervals))
        for name in METRICS:
            records[name][numbers] = chunk.metrics[name]
    for j, name in enumerate(METRICS):
        values = records[name][: len(expected)]
        # The log tail of SciPy underflows where this library's does not.
        usable = np.isfinite(expected[:, j])
        gap = np.abs(values - expected[:, j])[usable] / np.abs(expected[usable, j])
        note = "" if usable.all() else f", {len(usable) - usable.sum()} underflow in SciPy"
        largest = f"{gap.max():.1e}" if usable.any() else "none comparable"
        print(f"{name:10s} largest relative difference {largest}{note}")


def quartiles(ratios: np.ndarray) -> str:
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return f"{middle:5.1f} ({low:.1f} to {high:.1f})"


def report(turns: dict[str, np.ndarray]) -> None:
    """Print medians of the turns, and of the ratios of turns taken next to each other."""
    ours, data, one_core, all_cores = turns.values()
    for name, seconds in turns.items():
        wall, cpu = 1e3 * np.median(seconds, axis=0)
        print(f"{name:32s}{wall:7.2f} ms wall {cpu:7.2f} ms CPU per data set")
    cores = os.cpu_count() or 1
    for name, spent in (("with simulating", ours), ("data given to both", ours - data)):
        by_wall = quartiles(one_core[:, 0] / spent[:, 0])
        # What the ratio by wall time is where nothing else runs: replications fill all cores.
        by_cpu = quartiles(cores * one_core[:, 1] / spent[:, 1])
        print(f"one core over ours, {name:20s}{by_wall} by wall time, {by_cpu} by CPU and cores")
        by_wall = quartiles(all_cores[:, 0] / spent[:, 0])
        by_cpu = quartiles(all_cores[:, 1] / spent[:, 1])
        print(f"all cores over ours, {name:20s}{by_wall} by wall time, {by_cpu} by CPU time")
    by_wall, by_cpu = (quartiles(ours[:, k] / data[:, k]) for k in (0, 1))
    print(f"ours over drawing the data {by_wall} by wall time, {by_cpu} by CPU time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--peer-replications", type=int, default=20)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--float32", action="store_true")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.float32)
    print(
        f"jax {jax.__version__}, numpy {np.__version__}, scipy {scipy.__version__},"
        f" {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f},"
        f" n = {options.rows}, {'float32' if options.float32 else 'float64'}"
    )
    key, simulate = jax.random.key(0), scenarios.oscillator(options.rows)
    start, whole, data, theirs, together = (Turns() for _ in range(5))
    program = start.take(1, lambda: build(simulate, ours, key))
    only_data = build(simulate, only_draw, key)
    inputs = peer_inputs(simulate, key, options.peer_replications, options.rows)
    print("compile and start {:.1f} s wall, {:.1f} s CPU".format(*start.seconds[0]))
    count = options.replications
    run_all(program, count)
    run_all(only_data, count)
    processes = PeerProcesses(inputs)
    for _ in range(options.turns):
        chunks = whole.take(count, lambda: run_all(program, count))
        # The peer is given its data; what it costs to simulate them is measured apart.
        data.take(count, lambda: run_all(only_data, count))
        expected = theirs.take(len(inputs), lambda: np.array([peer(*pair) for pair in inputs]))
        spent = together.take(len(inputs), processes.run)
        together.seconds[-1] = together.seconds[-1][0], sum(spent) / len(inputs)
    processes.close()
    report(
        {
            "this library": whole.array(),
            "  of which drawing the data": data.array(),
            "NumPy/SciPy on one core": theirs.array(),
            "NumPy/SciPy on all cores": together.array(),
        }
    )
    compare(chunks, expected, count)


if __name__ == "__main__":
    main()
