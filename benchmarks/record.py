"""Time and memory of single stages and whole diagnoses, beside peers in the same run, as JSON.

    python benchmarks/record.py [--full] [--vary num_rows] [--out record.json]

Every line is a process of its own, so that its first answer and its peak of memory are its own:
import to first answer, seconds of a call after that (median of turns), and the largest resident
size, in brackets less what the process held with its data before the first call. Processor seconds
stand beside wall seconds, since other programs may slow the machine. Peers come first, on the same
data: robustbase::ltsReg, partykit::lmtree and strucchange::breakpoints where Rscript has them,
PySINDy's STLSQ, and compare_f_test of statsmodels. They answer part of the question each; a ratio
is one of cost, not of merit.
"""

import argparse
import importlib.util
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import stage_runs

PACKAGES = ("lisdd-jax", "jax", "jaxlib", "numpy", "scipy", "pysindy", "statsmodels")
SMALL = {
    "num_rows": (600, 6000),
    "num_terms": (6,),
    "batch": (1,),
    "precision": ("float64",),
}
FULL = {
    "num_rows": (600, 6000, 60_000, 1_000_000),
    "num_terms": (6, 20, 40),
    "batch": (1, 100, 1000),
    "precision": ("float64", "float32"),
}
MOST_ROWS_OF_BATCH = 10_000_000
"""Rows of all data sets of a batch together, which bounds the memory that a line needs."""
MOST_ROWS_OF_A_SLOW_PEER = 6000


def run_child(program: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The record that a program prints as its last line, or why there is none."""
    done = subprocess.run(
        [sys.executable, str(program), json.dumps(settings)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {**settings, "error": done.stderr.strip().splitlines()[-1:] or ["killed"]}
    return {**settings, **json.loads(lines[-1])}


def lines_of(grid: dict[str, tuple[Any, ...]], vary: tuple[str, ...]) -> list[dict[str, Any]]:
    """Settings of all lines: everything at the middle values, and one setting varied at a time."""
    middle = {
        "num_rows": 6000 if 6000 in grid["num_rows"] else grid["num_rows"][0],
        **{name: grid[name][0] for name in ("num_terms", "batch", "precision")},
    }
    chosen = [{**middle, name: value} for name in vary for value in grid[name]]
    unique = {json.dumps(line, sort_keys=True): line for line in chosen}.values()
    kept = [line for line in unique if line["num_rows"] * line["batch"] <= MOST_ROWS_OF_BATCH]
    return [{"stage": stage, **line} for stage, line in itertools.product(stage_runs.STAGES, kept)]


def run_r_peers(num_rows: int, turns: int) -> list[dict[str, Any]]:
    """R's peers on the data of ``stage_runs.make_data``."""
    script = Path(__file__).with_name("peers.R")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        stage_runs.write_table(table, num_rows)
        words = ["Rscript", str(script), str(table), str(turns)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return [{"peer": "Rscript", "error": done.stderr.strip().splitlines()[-1:]}]
    return [{"num_rows": num_rows, **json.loads(line)} for line in done.stdout.splitlines()]


def has_r() -> bool:
    try:
        return subprocess.run(["Rscript", "--version"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def run_peers(sizes: tuple[int, ...], turns: int) -> Iterator[dict[str, Any]]:
    """Peers on the sizes that they can be asked to bear."""
    sizes = tuple(size for size in sizes if size <= MOST_ROWS_OF_A_SLOW_PEER)
    program = Path(__file__).with_name("python_peers.py")
    for peer, package in (("stlsq", "pysindy"), ("compare_f_test", "statsmodels")):
        if importlib.util.find_spec(package) is None:
            yield {"peer": peer, "error": [f"{package} is not installed"]}
            continue
        for num_rows in sizes:
            yield run_child(program, {"peer": peer, "num_rows": num_rows, "turns": turns})
    if not has_r():
        yield {"peer": "R", "error": ["Rscript is not installed"]}
        return
    for num_rows in sizes:
        yield from run_r_peers(num_rows, turns)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def describe_machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in PACKAGES},
    }


def show(line: dict[str, Any]) -> None:
    name = line.get("stage") or line.get("peer")
    setting = " ".join(
        f"{key} {line[key]}"
        for key in ("num_rows", "num_terms", "batch", "precision")
        if key in line
    )
    if "error" in line:
        print(f"{name:16s} {setting:55s} {line['error']}", flush=True)
        return
    first = f"first {line['first_cpu']:6.1f} s, " if "first_cpu" in line else ""
    peak = f", {line['peak_mb']:5.0f} MB" if "peak_mb" in line else ""
    peak += f" ({line['peak_mb'] - line['held_mb']:.0f})" if "held_mb" in line else ""
    print(f"{name:16s} {setting:55s} {first}then {1e3 * line['run_cpu']:9.3f} ms{peak}", flush=True)


def show_ratios(lines: list[dict[str, Any]]) -> None:
    """Processor time of the default method over that of the published one, setting by setting."""
    names = ("num_rows", "num_terms", "batch", "precision")
    times = {
        (line["stage"], *(line[name] for name in names)): line["run_cpu"]
        for line in lines
        if "run_cpu" in line
    }
    for (stage, *setting), time in times.items():
        published = times.get(("published", *setting))
        if stage == "default" and published:
            said = " ".join(f"{name} {value}" for name, value in zip(names, setting, strict=True))
            print(f"default over published   {said:55s} {time / published:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all sizes; takes an hour")
    parser.add_argument("--vary", choices=FULL, help="only this setting, not one after the other")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", default="record.json")
    options = parser.parse_args()
    grid = FULL if options.full else SMALL
    record: dict[str, Any] = {"machine": describe_machine(), "lines": [], "peers": []}
    program = Path(stage_runs.__file__)
    print("processor seconds: import to first answer, then per data set; peak of memory")

    def keep(kind: str, line: dict[str, Any]) -> None:
        record[kind].append(line)
        show(line)
        # After each line, so that an interrupted record is the shorter one.
        Path(options.out).write_text(json.dumps(record, indent=1))

    for line in run_peers(grid["num_rows"], options.turns):
        keep("peers", line)
    for settings in lines_of(grid, (options.vary,) if options.vary else tuple(grid)):
        line = run_child(program, {**settings, "turns": options.turns})
        record["device"] = line.pop("device", record.get("device"))
        keep("lines", line)
    show_ratios(record["lines"])


if __name__ == "__main__":
    main()
