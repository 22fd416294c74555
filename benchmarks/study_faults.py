"""What a study survives: kills, full and read-only disks, races, damaged files, a lost process.

    python benchmarks/study_faults.py [--repeats 20] [--only NAME ...]

Every fault is done to real processes and files, in folders of their own. A fault counts as survived
where the study ends with the same bits as an undisturbed one or is refused in one sentence, without
a traceback, with what was finished still there. Prints a Markdown table; ends with code 1 where
anything else happened. Full and read-only disks need Linux with user namespaces (``unshare``).
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax.study.engine import Progress, read_study, run_study

PYTHON = (sys.executable, __file__)
NUM_REPLICATIONS, NUM_CELLS = 400, 6
# Between chunks, so that most moments of a run are moments of work and not of compiling.
_PAUSE = 0.1
SAME, REFUSED = "same bits", "refused in a sentence"


def simulate(key: jax.Array, shift: Any, scale: Any) -> jax.Array:
    return shift + scale * jax.random.normal(key, (200,))


def evaluate(data: jax.Array, key: jax.Array, shift: Any, scale: Any) -> dict[str, jax.Array]:
    luck = jax.random.uniform(key)
    return {
        "error": jnp.median(data) - shift,
        "covered": jnp.abs(jnp.mean(data) - shift) < 0.1,
        "status": jnp.where(luck < 0.1, 101, 0),
    }


def run(**options: Any) -> Any:
    defaults = {
        "grid": {"shift": [0.0, 1.0, -3.0], "scale": [0.5, 2.0]},
        "num_replications": NUM_REPLICATIONS,
        "key": jax.random.key(7),
        "chunk_size": 20,
    }
    return run_study(simulate, evaluate, **(defaults | options))


def numbers(result: Any) -> str:
    """Everything that must agree to the last bit."""
    return json.dumps([result.to_dict()["cells"], result.complete])


# One attempt in a process of its own, which prints one line of JSON.


def attempt(options: dict[str, Any]) -> None:
    pause = options.pop("pause", 0.0)
    if "port" in options:
        jax.distributed.initialize(
            f"127.0.0.1:{options.pop('port')}",
            options.pop("processes"),
            options.pop("process"),
            heartbeat_timeout_seconds=10,
        )
    print("STARTED", flush=True)
    print(json.dumps(outcome(options, lambda _: time.sleep(pause))), flush=True)


def outcome(options: dict[str, Any], progress: Callable[[Progress], None] | None) -> dict[str, Any]:
    seen: list[int] = []

    def note(state: Progress) -> None:
        seen.append(state.done)
        if progress is not None:
            progress(state)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = numbers(run(**options, progress=note))
        except ValueError as error:
            return {"refused": str(error)}
    return {"numbers": result, "found": seen[0], "warned": [str(w.message) for w in caught]}


def start(**options: Any) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*PYTHON, "--attempt", json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "STARTED\n"
    return process


def finish(process: subprocess.Popen[str], expected: str) -> str:
    """What came of an attempt, in words."""
    out, err = process.communicate(timeout=300)
    if process.returncode < 0:
        return f"ended by signal {-process.returncode}"
    if process.returncode != 0:
        return f"ended with code {process.returncode}: {err.splitlines()[-1] if err else ''}"
    # The communication of several processes prints lines of its own.
    return judge(json.loads(out.splitlines()[-1]), expected)


def judge(said: dict[str, Any], expected: str) -> str:
    if "refused" in said:
        return REFUSED if "\n" not in said["refused"] else f"several lines: {said['refused']}"
    return SAME if said["numbers"] == expected else "OTHER BITS"


def replications_in(folder: Path) -> int:
    """Replications that can be read; a folder without settings holds none."""
    with contextlib.suppress(ValueError):
        return sum(cell.num_replications for cell in read_study(folder).cells)
    return 0


def await_more(folder: Path, num: int, worker: subprocess.Popen[str]) -> None:
    """Wait until a folder holds more replications than these, or its worker has ended."""
    while worker.poll() is None and replications_in(folder) <= num:
        time.sleep(_PAUSE)


# The faults: each yields rows of (what was done, how often, what came of it).

Rows = list[tuple[str, int, str]]


def tell(outcomes: Counter[str]) -> str:
    return ", ".join(f"{words} ({count})" for words, count in sorted(outcomes.items()))


def kills(folder: Path, expected: str, repeats: int, draw: random.Random) -> Rows:
    """kill -9 at random moments; then a resume by another process."""
    outcomes: Counter[str] = Counter()
    kept, parts = [], 0
    began = time.monotonic()
    assert finish(start(out_dir=str(folder / "undisturbed"), pause=_PAUSE), expected) == SAME
    whole = time.monotonic() - began
    for number in range(repeats):
        out = folder / str(number)
        worker = start(out_dir=str(out), pause=_PAUSE)
        time.sleep(draw.uniform(0.0, whole))
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        kept.append(replications_in(out))
        parts += len(list(out.glob(".*"))) if out.is_dir() else 0
        outcomes[finish(start(out_dir=str(out), resume=True), expected)] += 1
        if list(out.glob(".*")):
            outcomes["TEMPORARY FILES LEFT"] += 1
    total = NUM_REPLICATIONS * NUM_CELLS
    note = (
        f"{tell(outcomes)}; {min(kept)} to {max(kept)} of {total} replications were on the disk,"
        f" {parts} temporary files, all swept"
    )
    return [("`kill -9` at a random moment, then resume", repeats, note)]


def chain_of_kills(folder: Path, expected: str, repeats: int, draw: random.Random) -> Rows:
    """The same study killed again and again while it resumes; every life adds a little."""
    out, kept = folder / "chain", [0]
    for _ in range(repeats):
        worker = start(out_dir=str(out), resume=True, pause=5 * _PAUSE)
        await_more(out, kept[-1], worker)
        time.sleep(draw.uniform(0.0, 20 * _PAUSE))
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        kept.append(replications_in(out))
    words = finish(start(out_dir=str(out), resume=True), expected)
    grew = all(before < after for before, after in itertools.pairwise(kept))
    note = f"{words}; {kept[-1]} replications kept, {'more' if grew else 'NOT MORE'} after each"
    return [("`kill -9` of one study again and again, then resume", repeats, note)]


def races(folder: Path, expected: str, repeats: int, draw: random.Random) -> Rows:
    """Two processes open an empty folder at one moment."""
    rows: Rows = []
    for title, names in (
        ("two different studies started at once in an empty folder", ("first", "second")),
        ("one study started twice at once, with resume", ("same", "same")),
    ):
        racers = [
            subprocess.Popen(
                [*PYTHON, "--race", json.dumps([str(folder), title, name, repeats])],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in names
        ]
        outcomes: Counter[str] = Counter()
        for number in range(repeats):
            for racer in racers:
                assert racer.stdout is not None
                assert racer.stdout.readline() == "READY\n"
            (folder / f"{title} {number}.gate").touch()
            said = [json.loads(racer.stdout.readline()) for racer in racers if racer.stdout]
            words = sorted(judge(one, expected) for one in said)
            outcomes[" and ".join(words)] += 1
            if numbers(read_study(folder / f"{title} {number}")) != expected:
                outcomes["FOLDER DAMAGED"] += 1
        for racer in racers:
            racer.communicate()
        rows.append((title, repeats, tell(outcomes)))
    return rows


def race(folder: str, title: str, name: str, repeats: int) -> None:
    """One side of the races."""
    run()
    for number in range(repeats):
        place = Path(folder) / f"{title} {number}"
        print("READY", flush=True)
        while not place.with_name(f"{place.name}.gate").exists():
            time.sleep(0.0002)
        said = outcome({"out_dir": str(place), "name": name, "resume": True}, None)
        print(json.dumps(said), flush=True)


def damage(folder: Path, expected: str, repeats: int, draw: random.Random) -> Rows:
    """One file of a finished study is cut, or one of its bits flipped."""
    whole = folder / "whole"
    run(out_dir=whole)
    rows: Rows = []
    for kind in ("chunk", "settings"):
        for how in ("cut short", "one bit flipped"):
            outcomes: Counter[str] = Counter()
            for number in range(repeats):
                out = shutil.copytree(whole, folder / f"{kind} {how} {number}")
                file = draw.choice(sorted(out.glob(f"{kind}*")))
                file.write_bytes(damaged(file.read_bytes(), how, draw))
                said = outcome({"out_dir": str(out), "resume": True}, None)
                words = judge(said, expected)
                outcomes[words + (", with a warning" if said.get("warned") else "")] += 1
                if kind == "settings":
                    file.unlink()
                    again = outcome({"out_dir": str(out), "resume": True}, None)
                    lost = NUM_REPLICATIONS * NUM_CELLS - again.get("found", 0)
                    words = f"that file deleted: {judge(again, expected)}, {lost} lost"
                    outcomes[words] += 1
            rows.append((f"a {kind} file {how}", repeats, tell(outcomes)))
    return rows


def damaged(content: bytes, how: str, draw: random.Random) -> bytes:
    if how == "cut short":
        return content[: draw.randrange(len(content))]
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def disks(folder: Path, expected: str, repeats: int, draw: random.Random) -> Rows:
    """A disk that fills, and one that cannot be written, in a namespace of its own."""
    inside = [*PYTHON, "--disks", json.dumps([str(folder), repeats, draw.random()])]
    command = ["unshare", "--user", "--map-root-user", "--mount", *inside]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return [("a full or read-only disk", 0, f"not tried: {done.stderr.strip()[-200:]}")]
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]


def disks_inside(folder: str, repeats: int, seed: float) -> None:
    expected, draw = numbers(run()), random.Random(seed)
    full: Counter[str] = Counter()
    written: list[int] = []
    for _ in range(repeats):
        # A study needs about 500 kB here.
        mount(folder, f"size={draw.randrange(20, 90) * 4096}")
        said = outcome({"out_dir": f"{folder}/study"}, None)
        left = len(list(Path(folder, "study").glob(".*")))
        written.append(replications_in(Path(folder, "study")))
        mount(folder, "remount,size=10m")
        again = outcome({"out_dir": f"{folder}/study", "resume": True}, None)
        kept = again.get("found") == written[-1]
        full[
            f"{judge(said, expected)}, {left} temporary files, all chunks kept: {kept},"
            f" then with room again {judge(again, expected)}"
        ] += 1
        subprocess.run(["umount", folder], check=True)
    rows = [
        (
            "a disk that fills up (tmpfs of 80 to 360 kB), then resume with room",
            repeats,
            f"{tell(full)}; {min(written)} to {max(written)} replications were on it",
        ),
        *read_only(folder, expected),
    ]
    print(json.dumps(rows))


def read_only(folder: str, expected: str) -> Rows:
    mount(folder, "size=10m")
    run(out_dir=f"{folder}/whole")
    run(out_dir=f"{folder}/part", num_replications=10)
    mount(folder, "remount,ro")
    tried = {
        "a new study on a read-only disk": outcome({"out_dir": f"{folder}/new"}, None),
        "an unfinished study on a read-only disk": outcome(
            {"out_dir": f"{folder}/part", "resume": True}, None
        ),
        "a finished study on a read-only disk": outcome(
            {"out_dir": f"{folder}/whole", "resume": True}, None
        ),
    }
    subprocess.run(["umount", folder], check=True)
    return [(title, 1, judge(said, expected)) for title, said in tried.items()]


def mount(folder: str, options: str) -> None:
    kind = [] if options.startswith("remount") else ["-t", "tmpfs", "tmpfs"]
    subprocess.run(["mount", "-o", options, *kind, folder], check=True)


def lost_process(folder: Path, expected: str, repeats: int, draw: random.Random) -> Rows:
    """One of two processes of ``jax.distributed`` is killed; then both start again."""
    survivors: Counter[str] = Counter()
    resumed: Counter[str] = Counter()
    kept = []
    repeats = min(repeats, 5)
    for number in range(repeats):
        out = str(folder / str(number))
        pair = start_pair(out_dir=out, pause=2 * _PAUSE)
        await_more(Path(out), 0, pair[0])
        time.sleep(draw.uniform(0.0, 40 * _PAUSE))
        victim, survivor = draw.sample(pair, 2)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        survivors[finish(survivor, expected)] += 1
        kept.append(replications_in(Path(out)))
        for worker in start_pair(out_dir=out, resume=True):
            resumed[finish(worker, expected)] += 1
    note = (
        f"the other one {tell(survivors)}; {min(kept)} to {max(kept)} replications were on the"
        f" disk; both started again: {tell(resumed)}"
    )
    return [("`kill -9` of one of two processes of `jax.distributed`", repeats, note)]


def start_pair(**options: Any) -> list[subprocess.Popen[str]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    # Each waits for the other before it says that it has started.
    pair = [
        subprocess.Popen(
            [
                *PYTHON,
                "--attempt",
                json.dumps({"port": port, "processes": 2, "process": i} | options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    for process in pair:
        assert process.stdout is not None
        while process.stdout.readline() != "STARTED\n":
            assert process.poll() is None, process.communicate()[1]
    return pair


FAULTS = {
    "kills": kills,
    "chain": chain_of_kills,
    "races": races,
    "damage": damage,
    "disks": disks,
    "lost": lost_process,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", nargs="*", choices=list(FAULTS), default=list(FAULTS))
    parser.add_argument("--seed", type=int, default=0)
    for name in ("attempt", "race", "disks"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if options.attempt:
        attempt(json.loads(options.attempt))
    elif options.race:
        race(*json.loads(options.race))
    elif options.disks:
        disks_inside(*json.loads(options.disks))
    else:
        sys.exit(report(options))


def report(options: argparse.Namespace) -> int:
    expected = numbers(run())
    print(f"jax {jax.__version__}, Python {sys.version.split()[0]}, {os.uname().sysname}\n")
    print("| what was done | times | what came of it |\n|---|---|---|", flush=True)
    survived = True
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            draw = random.Random(f"{options.seed} {name}")
            for title, count, note in FAULTS[name](Path(folder), expected, options.repeats, draw):
                survived &= not any(word.isupper() and len(word) > 3 for word in note.split())
                print(f"| {title} | {count} | {note} |", flush=True)
    return 0 if survived else 1


if __name__ == "__main__":
    main()
