"""Fixtures that all tests share; float64 is on unless a test asks for float32."""

import contextlib
import ctypes
import gc
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

# Most of the time of the tests is compile time, which these settings of XLA cut to a fifth. What
# they compile runs several times as slowly, so long simulations are run with XLA_FLAGS set empty.
# The passes left out move work out of loops, and cost the compiler more than they save; sums in a
# tree and loops split over the cores would take half of the time of a trimmed fit. The verifier is
# the compiler's check of its own work between passes, and a tenth of its time. Loops must still be
# simplified: each gather is at first a loop, most of them of one turn, and under ``vmap`` there are
# so many that they would double the time of the compiler, and its memory.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_prefer_vector_width=128 "
    "--xla_disable_hlo_passes="
    "while-loop-invariant-code-motion,while-loop-constant-sinking,"
    "tree_reduction_rewriter,cpu-parallel-task-assigner,hlo-verifier",
)

import hypothesis
import jax
import pytest

from lisdd_jax.numerics import memory
from lisdd_jax.study.engine import machine, release_programs

# Where in the source an operation stands is read by nobody, and costs the compiler 4 %.
jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_enable_x64", True)
# Mixed types and shapes of different rank hide mistakes; the library writes each conversion out.
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

_PROGRAMS = "compiled programs"
_FOLDER = pytest.StashKey[str]()

# The same examples in every run, as keys are fixed; a failure found elsewhere becomes an example.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")

# Tracing makes millions of objects that live on: looking through them at the usual rate for
# some that do not takes a fifth of its time. All of them are looked through where memory is given
# back, and hardly ever before.
gc.freeze()
gc.set_threshold(50_000, 20, 1000)

# Each thread of the compiler would keep a heap of its own (glibc), and what it has done with there:
# with one for all a process is smaller by a fifth, and gives up programs less often.
_M_ARENA_MAX = -8
with contextlib.suppress(OSError, TypeError, AttributeError):
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)

# What JAX compiles stays in its caches: a hundred megabytes for a diagnosis, and thousands for all
# test modules together. What is wanted again is traced again and taken from the folder of the run.
# Within a module more is left, since its tests share programs, and less where a long one begins.
_MOST_BYTES_WITHIN_A_MODULE = 25 << 26
_MOST_BYTES_BEFORE_A_MODULE = 23 << 26
_MOST_BYTES_BEFORE_A_LONG_ONE = 1 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Compile what several modules or processes of one run need once.

    Only these processes share the folder: those that tests start are set up as a user's are.
    """
    folder = getattr(config, "workerinput", {}).get(_PROGRAMS)
    if folder is None:
        folder = tempfile.mkdtemp(prefix="lisdd_jax_tests_")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    config.stash[_FOLDER] = folder
    jax.config.update("jax_compilation_cache_dir", folder)
    # What compiles in less is made anew as fast as it is found, and to keep it costs as much again.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the folder of the run."""
    node.workerinput[_PROGRAMS] = node.config.stash[_FOLDER]


# Longest first: begun last, what compiles for a minute would keep one worker alone. Modules of one
# line share programs, and run one after the other in one process, which need not trace them again.
_LINES = (
    (
        "default/test_method",
        "default/test_noise_tail",
        "default/test_noise_shape",
        "default/test_row_noise",
        "default/test_ordering",
        "default/test_narrow_runs",
        "default/test_kinks",
        "default/test_leaks",
        "default/test_final_sums",
        "default/test_first_look",
        "default/test_rows",
        "default/test_settling",
        "default/test_turns",
        "default/test_whole_axis",
        "default/test_batches",
    ),
    ("test_smooth_diagnosis", "test_derivatives"),
    ("study/test_experiments", "study/test_reproduce_cli"),
    (
        "test_transforms",
        "test_diagnosis",
        "test_cases",
        "statistics/trimmed/test_fit",
        "statistics/test_holdout",
        "test_tracing",
        "test_real_tables",
        "test_prediction",
    ),
    (
        "test_hostile_data",
        "test_estimator",
        "default/test_programs",
        "test_cli",
        "test_case_tables",
        "test_doctests",
    ),
    ("test_guides",),
    ("test_nonlinear",),
    ("test_hybrid_examples",),
    ("default/test_single_precision",),
    ("study/test_power",),
    ("test_hybrid_layer", "default/test_transforms", "default/test_conclusion"),
    ("test_fit",),
    ("test_reference",),
    ("test_candidates",),
    ("published/test_certificate", "published/test_form"),
)
_PLACES = {
    f"tests/{module}.py": (line, place)
    for line, modules in enumerate(_LINES)
    for place, module in enumerate(modules)
}
# Their first test may add 700 megabytes at once.
_LONG = {f"tests/{modules[0]}.py" for modules in _LINES}
_LONG |= {"tests/default/test_batches.py", "tests/test_derivatives.py"}


def _line_of(module: str) -> str:
    """The first module of the line of a module ``tests/test_....py``; itself where it has none."""
    line, place = _PLACES.get(module, (0, 0))
    return f"tests/{_LINES[line][0]}.py" if place else module


def _module_of(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that take longest, and keep those that share programs together."""
    last = (len(_LINES), 0)
    items.sort(key=lambda item: _PLACES.get(_module_of(item), last))


def pytest_collection_finish() -> None:
    """What collecting has made stays to the end: giving memory back need not look through it."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where workers take whole modules, let them take lines of modules."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class LoadLines(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _line_of(super()._split_scope(nodeid))

    return LoadLines(config, log)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Give memory back after a test or module that has left the process large."""
    most = _MOST_BYTES_WITHIN_A_MODULE
    if nextitem is not None and nextitem.path != item.path:
        before, after = _module_of(item), _module_of(nextitem)
        if after in _LONG:
            most = _MOST_BYTES_BEFORE_A_LONG_ONE
        elif _line_of(before) != _line_of(after):
            most = _MOST_BYTES_BEFORE_A_MODULE
    if machine.resident_bytes() <= most:
        return
    # The compiler leaves hundreds of megabytes with the allocator: no reason to trace again.
    memory.return_free_memory()
    if machine.resident_bytes() > most:
        release_programs()
        jax.clear_caches()
        gc.collect()
        memory.return_free_memory()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with reference values and real tables that are not part of the product."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder shared/ with reference values is not beside the checkout")
    return folder


@pytest.fixture
def compilations():
    """Grows by one entry for every program that is compiled or taken from the folder of the run."""
    seen = []

    def note(event, *_, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield seen
    jax.monitoring.unregister_event_duration_listener(note)


@pytest.fixture
def cli(capsys):
    """Run a command line in this process; returns exit code, stdout and stderr."""
    from lisdd_jax.cli import main

    def call(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call
