"""Several processes that open one empty folder as a study at the same moment."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import study_worker
from small_studies import run_mean

from lisdd_jax.study.engine import read_study

WORKER = Path(__file__).with_name("folder_worker.py")


def means():
    """What a worker prints that ran the whole study."""
    return f"MEANS {run_mean().mean('mean').tolist()}\n"


@pytest.fixture(scope="module")
def racers():
    """Two processes that have compiled their program and wait for a folder."""
    words = [sys.executable, str(WORKER)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(subprocess.Popen(words, **pipes, cwd=WORKER.parent))
            for _ in range(2)
        ]
        for worker in workers:
            assert worker.stdout.readline() == "READY\n"
        yield workers


@pytest.fixture
def race(racers, tmp_path):
    def run(names, resume):
        lines = [json.dumps([str(tmp_path / "out"), name, resume]) for name in names]
        for worker, line in zip(racers, lines, strict=True):
            print(line, file=worker.stdin, flush=True)
        return [worker.stdout.readline() for worker in racers]

    return run


def test_of_two_studies_one_wins_and_the_other_is_told(race, tmp_path):
    printed = sorted(race(["first", "second"], resume=True))
    assert printed[0] == means()
    assert "is the folder of another study, with other settings: name was" in printed[1]
    assert study_worker.numbers(read_study(tmp_path / "out")) == study_worker.numbers(run_mean())


def test_the_same_study_twice_goes_on_together(race, tmp_path):
    assert race(["same", "same"], resume=True) == [means()] * 2
    assert study_worker.numbers(read_study(tmp_path / "out")) == study_worker.numbers(run_mean())


def test_the_same_study_twice_without_resume(race):
    printed = sorted(race(["same", "same"], resume=False))
    assert printed[0] == means()
    assert "already holds this study; pass resume=True" in printed[1]
