"""The engine knows nothing of the method: read from its imports, and from what they load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from lisdd_jax.study import engine

FOLDER = Path(engine.__file__).parent
OWN = "lisdd_jax.study.engine"
# Helpers that know as little of the method.
HELPERS = {
    "lisdd_jax.files",
    "lisdd_jax.validation",
    "lisdd_jax.numerics.memory",
    "lisdd_jax.numerics.compiler_passes",
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_the_engine_stands_alone(path):
    for name in imported(path):
        if name.split(".")[0] == "lisdd_jax":
            assert name.startswith(OWN) or name in HELPERS, f"{path.name} imports {name}"
        else:
            assert name.split(".")[0] in {"jax", "numpy", *sys.stdlib_module_names}, name


@pytest.mark.parametrize("helper", sorted(HELPERS))
def test_its_helpers_import_nothing_of_the_package(helper):
    path = FOLDER.parents[2].joinpath(*helper.split(".")).with_suffix(".py")
    assert not [name for name in imported(path) if name.startswith("lisdd_jax")]


def test_planning_and_experiments_do_not_reach_into_the_engine():
    """They use what it shows, so that its inside can change."""
    shown = {f"{OWN}.{name}" for name in engine.__all__}
    allowed = shown | {f"{OWN}.machine"}
    for room in ("experiments", "planning"):
        for path in (FOLDER.parent / room).glob("*.py"):
            reached = {name for name in imported(path) if name.startswith(OWN)}
            assert reached <= allowed, f"{path.name} imports {reached - allowed}"


def test_the_public_place_of_the_engine():
    code = f"from {OWN} import {', '.join(engine.__all__)}; print(run_study.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == f"{OWN}.study\n", done.stderr
