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
# some that do not takes a fifth of its time.
gc.freeze()
gc.set_threshold(50_000, 20, 50)

# Each thread of the compiler would keep a heap of its own (glibc), and what it has done with there:
# with one for all a process is smaller by a fifth, and gives up programs less often.
_M_ARENA_MAX = -8
with contextlib.suppress(OSError, TypeError, AttributeError):
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)

# What JAX compiles stays in its caches: a hundred megabytes for a diagnosis, and thousands for all
# test modules together. What is wanted again is traced again and taken from the folder of the run.
# Within a module more is left, since its tests share programs, and less where a long module begins,
# whose tests may add 700 megabytes at once.
_MOST_BYTES_WITHIN_A_MODULE = 3 << 29
_MOST_BYTES_BEFORE_A_MODULE = 11 << 27
_MOST_BYTES_BEFORE_A_LONG_ONE = 9 << 27


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
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the folder of the run."""
    node.workerinput[_PROGRAMS] = node.config.stash[_FOLDER]


# Longest first: begun last, a module that compiles for a minute would keep one worker alone.
_FIRST = (
    "test_derivatives",
    "test_experiments",
    "test_reproduce_cli",
    "test_power",
    "test_nonlinear",
    "test_smooth_diagnosis",
    "test_transforms",
    "test_batches",
    "test_method",
    "test_cases",
    "test_doctests",
    "test_reference",
    "test_candidates",
    "test_hybrid_examples",
    "test_diagnosis",
    "test_hybrid_layer",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that take longest."""
    order = {name: place for place, name in enumerate(_FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Give memory back after a test or module that has left the process large."""
    most = _MOST_BYTES_WITHIN_A_MODULE
    if nextitem is not None and nextitem.path != item.path:
        is_long = nextitem.path.stem in _FIRST
        most = _MOST_BYTES_BEFORE_A_LONG_ONE if is_long else _MOST_BYTES_BEFORE_A_MODULE
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
