"""Files that are whole or absent, claimed once, and read as TOML."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lisdd_jax import files

PACKAGE = Path(files.__file__).parent


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "result.json"
    for content in (b"old", b"the new one"):
        files.write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_refusal_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        files.write_whole(tmp_path / "taken", b"content")
    with pytest.raises(TypeError):
        files.write_whole(tmp_path / "kept", "no bytes")
    with pytest.raises(FileNotFoundError):
        files.write_whole(tmp_path / "nowhere" / "file", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_of_several_writers_one_creates_the_file(tmp_path, monkeypatch, links):
    if not links:
        # As on file systems without second names.
        def refuse(*_):
            raise PermissionError

        monkeypatch.setattr(os, "link", refuse)
    path, gate, won = tmp_path / "claim", threading.Barrier(8), []

    def claim(number):
        gate.wait()
        try:
            files.create_whole(path, bytes([number]) * 1000)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert path.read_bytes() == bytes(won) * 1000
    assert list(tmp_path.iterdir()) == [path]


# The module alone, without the package, which imports JAX.
WRITER = """
import runpy, sys
from pathlib import Path
write_whole = runpy.run_path(sys.argv[2])["write_whole"]
while True:
    for letter in b"ab":
        write_whole(Path(sys.argv[1]), bytes([letter]) * 200_000)
        print("written", flush=True)
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    path = tmp_path / "chunk"
    for _ in range(5):
        words = [sys.executable, "-c", WRITER, str(path), files.__file__]
        writer = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        writer.stdout.readline()
        writer.kill()
        writer.wait()
        writer.stdout.close()
        content = path.read_bytes()
        assert len(content) == 200_000
        assert len(set(content)) == 1


def test_a_link_to_nothing_is_a_name_that_is_taken(tmp_path):
    (tmp_path / "claim").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileExistsError):
        files.create_whole(tmp_path / "claim", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["claim"]


def test_sweeping_what_is_no_folder_does_nothing(tmp_path):
    files.remove_abandoned(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "plan '.*' cannot be read: it does not exist"),
        (b"a = ", "plan '.*' is not valid TOML: "),
        (b"\xff\xfe", "plan '.*' is not valid TOML: "),
        (b"a = 1\na = 2", "plan '.*' is not valid TOML: "),
        (b"a = " + 10**5 * b"[", "plan '.*' is not valid TOML: "),
    ],
    ids=["absent", "cut", "no text", "twice", "deep"],
)
def test_toml_that_cannot_be_read(tmp_path, content, message):
    path = tmp_path / "plan.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(files.FileError, match=message):
        files.read_toml(path, "plan")


def test_toml_in_a_folder_or_a_file(tmp_path):
    with pytest.raises(files.FileError, match="plan '.*' cannot be read: Is a directory"):
        files.read_toml(tmp_path, "plan")
    (tmp_path / "plan.toml").write_text("a = [1, 2]", encoding="utf-8")
    assert files.read_toml(tmp_path / "plan.toml", "plan") == {"a": [1, 2]}


def test_unknown_keys_name_their_neighbours():
    files.check_keys("key", ["alpha"], ["alpha", "beta"])
    with pytest.raises(files.FileError, match="unknown key 'alhpa'; did you mean alpha?"):
        files.check_keys("key", ["alhpa"], ["alpha", "beta"])
    with pytest.raises(files.FileError, match="unknown key 'zzz'; known are alpha, beta"):
        files.check_keys("key", ["zzz"], ["alpha", "beta"])


@pytest.mark.parametrize("words", ["tomllib", "os.replace(", "os.fsync("])
def test_there_is_one_writer_and_one_reader(words):
    found = [path.name for path in PACKAGE.rglob("*.py") if words in path.read_text()]
    assert found == ["files.py"]
