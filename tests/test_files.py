import os
import subprocess
import sys

import pytest

from lisdd_jax import files


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_as_a_whole(tmp_path, durable):
    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    files.write_whole(path, b"new", durable=durable)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["report.json"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "report.json"
    path.mkdir()
    (path / "inside").write_bytes(b"kept")
    with pytest.raises(OSError, match="report.json"):
        files.write_whole(path, b"new")
    assert os.listdir(tmp_path) == ["report.json"]
    assert (path / "inside").read_bytes() == b"kept"


WRITER = """
import sys
from pathlib import Path
from lisdd_jax import files
while True:
    for letter in b"ab":
        files.write_whole(Path(sys.argv[1]), bytes([letter]) * 200_000)
        print("written", flush=True)
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    path = tmp_path / "chunk"
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        writer.stdout.readline()
        writer.kill()
        writer.wait()
        writer.stdout.close()
        content = path.read_bytes()
        assert len(content) == 200_000
        assert len(set(content)) == 1


def test_toml_is_read_or_refused_in_one_sentence(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("rows = 3\n[grid]\nbeta = [0.1]\n")
    assert files.read_toml(path, "study") == {"rows": 3, "grid": {"beta": [0.1]}}
    path.write_text("rows = \n")
    with pytest.raises(ValueError, match=r"study '.*study.toml' is not valid TOML: "):
        files.read_toml(path, "study")
    path.write_bytes(b"rows = '\xff'")
    with pytest.raises(ValueError, match="is not valid TOML"):
        files.read_toml(path, "study")
    with pytest.raises(ValueError, match="spec 'none.toml' cannot be read: it does not exist"):
        files.read_toml("none.toml", "spec")
    with pytest.raises(ValueError, match="cannot be read: "):
        files.read_toml(tmp_path, "spec")
