"""Folders of studies: what they hold, refuse and survive."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from small_studies import run_mean, run_worker

from lisdd_jax import files
from lisdd_jax.study.engine import StudyFolderError, read_study


@pytest.fixture(scope="module")
def expected():
    return run_worker(keep_records=True)


class TestFolder:
    def test_holds_the_study(self, tmp_path, expected):
        first = run_worker(out_dir=tmp_path)
        assert first.cells == run_worker().cells
        stored = read_study(tmp_path, quantiles=(0.1, 0.5), keep_records=True)
        assert stored.cells == expected.cells
        assert stored.settings == first.settings
        np.testing.assert_array_equal(stored.records["error"], expected.records["error"])

    def test_grows_to_more_replications_and_serves_fewer(self, tmp_path):
        run_mean(out_dir=tmp_path, num_replications=10)
        reports = []
        options = {"out_dir": tmp_path, "resume": True, "progress": reports.append}
        longer = run_mean(**options, num_replications=30)
        assert (reports[0].done, reports[0].total) == (20, 60)
        assert longer.cells == run_mean().cells
        assert run_mean(**options, num_replications=7).cells == run_mean(num_replications=7).cells

    def test_is_not_continued_unasked(self, tmp_path):
        run_mean(out_dir=tmp_path)
        with pytest.raises(ValueError, match="already holds this study; pass resume=True"):
            run_mean(out_dir=tmp_path)

    @pytest.mark.parametrize(
        "changes, message",
        [
            ({"key": jax.random.key(4)}, r'key was \["threefry2x32", 0, 3\] and is now .*0, 4\]'),
            ({"grid": {"mu": [0.0, 2.0]}}, r'grid was {"mu": \[0.0, 1.0\]} and is now'),
            ({"grid": {"mu": np.float32([0, 1])}}, 'dtypes was {"mu": "float64"} and is now'),
            ({"static": ("mu",)}, "static was"),
            ({"paired": True}, "paired was false and is now true"),
            ({"batch_size": 2}, "batch_size was null and is now 2"),
            ({"name": "other"}, "name was .* and is now"),
            ({"evaluate": lambda data, key, mu: {"mean": data.sum()}}, "program was"),
            ({"evaluate": lambda data, key, mu: {"sum": data.sum()}}, "metrics was"),
        ],
    )
    def test_refuses_other_settings(self, tmp_path_factory, changes, message):
        folder = tmp_path_factory.mktemp("study")
        run_mean(out_dir=folder, num_replications=2)
        with pytest.raises(ValueError, match=f"of another study, .*{message}"):
            run_mean(out_dir=folder, resume=True, **changes)

    def test_notices_a_changed_constant(self, tmp_path):
        def evaluate_with(weights):
            return lambda data, key, mu: {"mean": (weights * data).mean()}

        weights = np.ones(20)
        run_mean(evaluate=evaluate_with(weights), out_dir=tmp_path)
        weights = weights.copy()
        run_mean(evaluate=evaluate_with(weights), out_dir=tmp_path, resume=True)
        weights[3] = 2
        with pytest.raises(ValueError, match="program was"):
            run_mean(evaluate=evaluate_with(weights), out_dir=tmp_path, resume=True)

    def test_name_stands_for_the_program(self, tmp_path):
        options = {"out_dir": tmp_path, "name": "mean, version 1"}
        first = run_mean(**options)
        again = run_mean(
            evaluate=lambda data, key, mu: {"mean": data.sum()}, resume=True, **options
        )
        assert first.cells == again.cells

    @pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
    def test_damaged_chunks_are_computed_again(self, tmp_path, damage):
        whole = run_mean(out_dir=tmp_path, chunk_size=10)
        victim = sorted(tmp_path.glob("chunk-*.npz"))[2]
        content = bytearray(victim.read_bytes())
        content[len(content) // 2] ^= 1
        damaged = {"truncate": content[:-40], "flip": content, "empty": b""}[damage]
        victim.write_bytes(damaged)
        reports = []
        with pytest.warns(RuntimeWarning, match="1 chunk files .* are damaged"):
            again = run_mean(out_dir=tmp_path, resume=True, progress=reports.append)
        assert reports[0].done == 50
        assert again.cells == whole.cells

    def test_counts_what_two_runs_did_once(self, tmp_path):
        whole = run_mean(out_dir=tmp_path / "a", chunk_size=7)
        run_mean(out_dir=tmp_path / "b", chunk_size=11)
        for file in (tmp_path / "b").glob("chunk-*.npz"):
            file.rename(tmp_path / "a" / file.name)
        assert read_study(tmp_path / "a").cells == whole.cells

    def test_must_be_a_folder(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ValueError, match="out_dir must be a folder, or one that can be made"):
            run_mean(out_dir=tmp_path / "file")
        with pytest.raises(ValueError, match="must hold the settings of a study"):
            read_study(tmp_path)


class TestDamage:
    """Folders that something happened to: a sentence, and nothing lost."""

    @pytest.mark.parametrize(
        "content", ["[1, 2]", "3", "null", "{}", "", "{", '"a"', "[" * 100_000], ids=range(8)
    )
    def test_settings_that_are_none(self, tmp_path, content):
        whole = run_mean(out_dir=tmp_path, chunk_size=10)
        (tmp_path / "settings.json").write_text(content)
        for attempt in (
            lambda: run_mean(out_dir=tmp_path, resume=True),
            lambda: read_study(tmp_path),
        ):
            with pytest.raises(StudyFolderError, match=r"settings.json .* is damaged: .*; delete"):
                attempt()
        # What the sentence advises works.
        (tmp_path / "settings.json").unlink()
        reports = []
        again = run_mean(out_dir=tmp_path, resume=True, progress=reports.append)
        assert reports[0].done == 60
        assert again.cells == whole.cells

    def test_a_flipped_bit_in_the_settings(self, tmp_path):
        run_mean(out_dir=tmp_path, num_replications=2)
        file = tmp_path / "settings.json"
        file.write_text(file.read_text().replace("threefry2x32", "threefry2x33"))
        with pytest.raises(StudyFolderError, match="checksum does not fit"):
            read_study(tmp_path)

    @pytest.mark.parametrize("shape", ["folder", "link to nothing"])
    def test_settings_that_are_no_file(self, tmp_path, shape):
        make_obstacle(tmp_path / "settings.json", shape)
        with pytest.raises(StudyFolderError, match="must hold the settings of a study"):
            run_mean(out_dir=tmp_path, resume=True)

    @pytest.mark.parametrize("shape", ["folder", "link to nothing"])
    def test_what_stands_in_the_place_of_a_chunk(self, tmp_path, shape):
        whole = run_mean(out_dir=tmp_path, chunk_size=10)
        victim = sorted(tmp_path.glob("chunk-*"))[2]
        victim.unlink()
        make_obstacle(victim, shape)
        # Chunks of the same size are written under the same names.
        with pytest.warns(RuntimeWarning, match="1 chunk files .* are damaged"):
            again = run_mean(out_dir=tmp_path, resume=True, chunk_size=10)
        assert again.cells == whole.cells
        if shape == "folder":
            with pytest.warns(RuntimeWarning, match="they can be deleted"):
                assert read_study(tmp_path).cells == whole.cells
            victim.rmdir()
        assert read_study(tmp_path).cells == whole.cells

    @pytest.mark.parametrize("shape", ["folder's file", "link to nothing"])
    def test_an_out_dir_that_cannot_be_made(self, tmp_path, shape):
        if shape == "link to nothing":
            (tmp_path / "out").symlink_to(tmp_path / "nothing" / "here")
        else:
            (tmp_path / "out").write_text("")
        for out_dir in (tmp_path / "out", tmp_path / "out" / "deeper"):
            with pytest.raises(StudyFolderError, match="out_dir must be a folder, or one that can"):
                run_mean(out_dir=out_dir)


def make_obstacle(path, shape):
    if shape == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.with_name("nothing"))


class TestTemporaryFiles:
    def test_of_dead_processes_are_swept_and_of_living_ones_are_not(self, tmp_path):
        run_mean(out_dir=tmp_path, num_replications=2)
        words = [sys.executable, "-c", LEAVE_A_PART, str(tmp_path), files.__file__]
        dead = subprocess.run(words, check=False)
        assert dead.returncode == -signal.SIGKILL
        (left,) = tmp_path.glob(".lisdd-*.part")
        machine = left.name.split("-")[1]
        living = tmp_path / f".lisdd-{machine}-{os.getppid()}-00000000.part"
        elsewhere = tmp_path / ".lisdd-00000000-1-00000000.part"
        forgotten = tmp_path / ".lisdd-00000000-1-00000001.part"
        foreign = tmp_path / ".notes.part"
        for path in (living, elsewhere, forgotten, foreign):
            path.write_text("")
        os.utime(forgotten, (0, 0))
        run_mean(out_dir=tmp_path, resume=True, num_replications=2)
        assert not left.exists()
        assert not forgotten.exists()
        assert living.exists()
        assert elsewhere.exists()
        assert foreign.exists()

    def test_reading_a_study_changes_nothing(self, tmp_path):
        run_mean(out_dir=tmp_path, num_replications=2)
        (tmp_path / ".lisdd-00000000-1-00000001.part").write_text("")
        os.utime(tmp_path / ".lisdd-00000000-1-00000001.part", (0, 0))
        before = sorted(tmp_path.iterdir())
        read_study(tmp_path)
        assert sorted(tmp_path.iterdir()) == before

    def test_a_file_too_large_for_the_system_leaves_none(self, tmp_path):
        """As on a full disk, the write itself fails: here by a limit on the size of files."""
        out = tmp_path / "out"
        done = subprocess.run(
            [sys.executable, "-c", WITH_SMALL_FILES, str(out)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        )
        assert done.stdout.startswith(f"out_dir {out} cannot be written: File too large; what it")
        assert "resume=True goes on" in done.stdout
        assert not list(out.glob(".*"))
        kept = len(list(out.glob("chunk-*")))
        reports = []
        resumed = run_worker(out_dir=out, resume=True, progress=reports.append, quantiles=())
        assert (kept > 0) == (reports[0].done > 0)
        assert resumed.cells == run_worker(quantiles=()).cells


LEAVE_A_PART = """
import os, runpy, signal, sys
write_whole = runpy.run_path(sys.argv[2])["write_whole"]
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_whole(os.path.join(sys.argv[1], "some"), b"content")
"""

WITH_SMALL_FILES = """
import resource, sys
import jax
jax.config.update("jax_enable_x64", True)
from small_studies import run_worker
limits = []
def limit(progress):
    # Two chunks of one replication fit, one of many does not.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, -1))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    run_worker(out_dir=sys.argv[1], quantiles=(), progress=limit, num_threads=1)
except ValueError as error:
    print(error)
"""
