"""Devices, processes and crashes: however a study is run, it gives the same bits."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest
import study_worker

from lisdd_jax.study.engine import distributed, run_study
from lisdd_jax.study.engine.assembly import read_study

WORKER = Path(study_worker.__file__)
TIMEOUT = 120


def start(runs, *, flags="", variables=None, **options):
    # Bits are the same for the same settings of the compiler.
    flags = f"{os.environ['XLA_FLAGS']} {flags}".strip()
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": flags,
        **(variables or {}),
    }
    return subprocess.Popen(
        [sys.executable, str(WORKER), json.dumps({"runs": runs, **options})],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Lines of each kind that a worker printed."""
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == 0, err
    lines = [line.partition(" ") for line in out.splitlines()]
    return {
        kind: [text for word, _, text in lines if word == kind]
        for kind in ("RESULT", "ERROR", "DEVICES")
    }


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def here(**changes):
    """The same study on the first CPU device of this process."""
    devices = jax.devices("cpu")[:1]
    return run_study(
        study_worker.simulate,
        study_worker.evaluate,
        **study_worker.settings(devices=devices, **changes),
    )


@pytest.fixture(scope="module")
def expected():
    return study_worker.numbers(here())


@pytest.fixture(scope="module")
def expected_longer():
    return study_worker.numbers(here(num_replications=75))


def test_two_devices_give_the_same_bits(expected):
    runs = [{}, {"chunk_size": 17}, {"chunk_size": 1}]
    out = finish(start(runs, flags="--xla_force_host_platform_device_count=2"))
    assert out["DEVICES"] == ["2"]
    assert out["RESULT"] == [expected] * 3


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A folder, and what two processes say that run studies together: the last one fails on one."""
    folder = tmp_path_factory.mktemp("pair")
    kept = {"out_dir": str(folder / "study")}
    runs = [
        {},
        kept,
        kept,
        {**kept, "resume": True, "num_replications": 75},
        {"share": [0, 2]},
        {"on_host": True, "quantiles": (), "out_dir": str(folder / "failed")},
    ]
    port = free_port()
    workers = [
        start(runs, processes=2, process=i, port=port, variables={"HOST_FAILS": "1"} if i else {})
        for i in range(2)
    ]
    return folder, [finish(worker) for worker in workers]


def test_two_processes_give_the_same_bits(expected, expected_longer, pair):
    folder, said = pair
    for out in said:
        # Every process holds the whole result, and the refusal of the first stops both.
        assert out["RESULT"] == [expected, expected, expected_longer]
        refused, share, _ = out["ERROR"]
        assert "already holds this study" in refused
        assert "share must be None" in share
    stored = read_study(folder / "study", quantiles=(0.1, 0.5))
    assert study_worker.numbers(stored) == expected_longer


def test_a_failure_on_one_process_stops_both_in_words(pair):
    folder, said = pair
    sound, failed = (out["ERROR"][-1] for out in said)
    assert failed.startswith("replication ")
    assert failed.endswith("failed: RuntimeError: the licence is gone")
    assert sound == f"process 1: {failed}"
    # What the sound process has done is on the disk.
    done = read_study(folder / "failed")
    assert sum(cell.num_replications for cell in done.cells) == 180


def test_jobs_that_share_a_folder_give_the_same_bits(expected, tmp_path):
    last = here(out_dir=tmp_path, share=(2, 3))
    assert not last.complete
    here(out_dir=tmp_path, resume=True, share=(0, 3))
    middle = here(out_dir=tmp_path, resume=True, share=(1, 3))
    assert middle.complete
    assert study_worker.numbers(middle) == expected


def test_a_killed_study_resumes_with_the_same_bits(expected, tmp_path):
    worker = start([{"out_dir": str(tmp_path), "chunk_size": 10}], pause=0.2)
    deadline = time.monotonic() + TIMEOUT
    while len(list(tmp_path.glob("chunk-*"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL

    survived = read_study(tmp_path)
    done = sum(cell.num_replications for cell in survived.cells)
    assert 40 <= done < 360
    reports = []
    resumed = here(out_dir=tmp_path, resume=True, progress=reports.append)
    assert reports[0].done == done
    assert reports[-1].done == reports[-1].total == 360
    assert study_worker.numbers(resumed) == expected


def test_gather_and_together_for_one_process():
    assert distributed.gather({"a": 1}) == [{"a": 1}]
    assert distributed.together(lambda: 3) == 3
    with pytest.raises(ValueError, match="the reason"):
        distributed.together(lambda: (_ for _ in ()).throw(ValueError("the reason")))
