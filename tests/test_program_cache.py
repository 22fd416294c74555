import concurrent.futures
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from lisdd_jax.program_cache import ProgramStore

VALUES = jnp.arange(3.0)

# Makes a data set ready in a new process; prints the sum of its basis and how many programs were
# compiled for it.
PROGRAM = """
import sys
import jax, numpy as np
import lisdd_jax
from lisdd_jax import dataset
from lisdd_jax.numerics.compilation import compiled, quick_options

seen = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: seen.append(event) if "backend_compile" in event else None
)
jax.config.update("jax_enable_x64", True)
lisdd_jax.compile_cache(sys.argv[1])
quick_options()
x = np.linspace(0.0, 1.0, 40)
design = np.column_stack([np.ones_like(x), x])
arrays = dataset.check_arguments(design, 2 * x, x, design, num_cells=4)
before = len(seen)
data, _ = compiled(dataset.prepare)(**arrays)
print(float(np.abs(data.basis).sum()), len(seen) - before)
"""


class Counted:
    """A function that notes how often it is lowered."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self):
        self.times += 1
        return jax.jit(lambda values: 2 * values).lower(VALUES)


def fetch(folder, lower, description="twice"):
    """What a new process would get: nothing is left in memory."""
    return ProgramStore(folder).fetch(description, lower)(VALUES).tolist()


def test_a_second_process_compiles_nothing(tmp_path):
    def run():
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path / "made")],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [float(word) for word in done.stdout.split()]

    first = run()
    assert first[1] > 0
    assert run() == [first[0], 0]
    # What JAX takes from its own cache cannot be written whole again: such a file would not run.
    for path in (tmp_path / "made").glob("*.program"):
        path.unlink()
    assert run() == [first[0], first[1]]
    assert run() == [first[0], 0]


def test_programs_are_kept_by_description(tmp_path):
    lower = Counted()
    assert fetch(tmp_path, lower) == fetch(tmp_path, lower) == [0.0, 2.0, 4.0]
    assert lower.times == 1
    fetch(tmp_path, lower, "another")
    assert lower.times == 2


@pytest.mark.parametrize("damage", ["emptied", "cut", "first byte", "last byte", "foreign"])
def test_a_damaged_file_is_made_again(tmp_path, damage):
    lower = Counted()
    fetch(tmp_path, lower)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(
        {
            "emptied": b"",
            "cut": whole[:-9],
            "first byte": bytes([whole[0] ^ 1]) + whole[1:],
            "last byte": whole[:-1] + bytes([whole[-1] ^ 1]),
            "foreign": b"no program of this library",
        }[damage]
    )
    assert fetch(tmp_path, lower) == [0.0, 2.0, 4.0]
    assert lower.times == 2
    fetch(tmp_path, lower)
    assert lower.times == 2


def test_a_program_that_loads_but_does_not_run_is_made_again(tmp_path):
    lower = Counted()
    fetch(tmp_path, lower)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.unlink()
    both = jax.jit(lambda first, second: first + second).lower(VALUES, VALUES)
    ProgramStore(tmp_path).fetch("of two", lambda: both)
    (other,) = tmp_path.iterdir()
    other.rename(path)
    assert path.read_bytes() != whole
    assert fetch(tmp_path, lower) == [0.0, 2.0, 4.0]
    assert lower.times == 2
    assert fetch(tmp_path, lower) == [0.0, 2.0, 4.0]
    assert lower.times == 2


def test_other_code_makes_other_programs(tmp_path, monkeypatch):
    lower = Counted()
    fetch(tmp_path, lower)
    monkeypatch.setattr("lisdd_jax.program_cache._surroundings", lambda: ("other code",))
    fetch(tmp_path, lower)
    assert lower.times == 2


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path):
    lower = Counted()
    missing = tmp_path / "file" / "below"
    (tmp_path / "file").write_text("no folder")
    assert fetch(missing, lower) == [0.0, 2.0, 4.0]


def test_a_task_knows_its_programs_while_all_are_kept(tmp_path):
    lower = Counted()
    fetch(tmp_path, lower, "first")
    fetch(tmp_path, lower, "second")
    store = ProgramStore(tmp_path)
    assert store.recall("both") == []
    store.note("both", ["first", "second"])
    later = ProgramStore(tmp_path)
    assert later.recall("both") == ["first", "second"]
    later.load("first")
    assert later.fetch("first", lower)(VALUES).tolist() == [0.0, 2.0, 4.0]
    assert lower.times == 2
    for path in tmp_path.glob("*.program"):
        path.unlink()
        break
    assert ProgramStore(tmp_path).recall("both") == []


def test_threads_may_make_programs_at_the_same_time(tmp_path):
    before = jax.config.values["jax_enable_compilation_cache"]
    store, lower = ProgramStore(tmp_path), Counted()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda i: store.fetch(f"program {i}", lower), range(8)))
    assert [program(VALUES).tolist() for program in made] == [[0.0, 2.0, 4.0]] * 8
    assert jax.config.values["jax_enable_compilation_cache"] == before
    assert len(list(tmp_path.iterdir())) == 8


def test_programs_that_are_let_go_meanwhile_are_still_returned(tmp_path):
    """As another thread may do at any time; later they are taken from their files."""

    class Forgetful(dict):
        def __setitem__(self, name, program):
            super().__setitem__(name, program)
            store.release()

    store, lower = ProgramStore(tmp_path), Counted()
    store._loaded = Forgetful()
    for _ in range(2):
        assert store.fetch("of one", lower)(VALUES).tolist() == [0.0, 2.0, 4.0]
    assert lower.times == 1
