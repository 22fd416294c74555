"""The layers of the package, read from its imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "lisdd_jax"
# Imports point to the same line or up in this list; a module of no line has no place yet.
LAYERS = [
    {"numerics"},
    {"status", "validation", "config", "results"},
    {"expressions"},
    {"library", "partition", "prepared", "cell_fits", "localization"},
    {"elemental", "concentration", "trimmed_search"},
    {"trimming", "clean_regime", "selection", "detection", "multiplicity"},
    {"verdicts", "published", "calibrated", "candidate_regions", "prediction"},
    {"diagnosis"},
    {"tables", "study", "hybrid", "report"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
CORE = {name for names in LAYERS[:8] for name in names}
# Needs an extra, and is imported only where it is used.
LAZY = {"expressions.export": {"sympy"}}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def imports(name: str) -> list[tuple[str, bool]]:
    """What a module imports, in full, and whether the import runs when the module is loaded."""
    tree = ast.parse(MODULES[name].read_text())
    inside = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        at_load = id(node) not in inside
        if isinstance(node, ast.Import):
            found += [(alias.name, at_load) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            found += [(f"{node.module}.{alias.name}", at_load) for alias in node.names]
    return found


def own_imports(name: str) -> set[str]:
    """Modules of the package that a module imports; fails on what is no module's name."""
    found = set()
    for target, _ in imports(name):
        if target.split(".")[0] != "lisdd_jax":
            continue
        parts = target.split(".")[1:]
        while parts and ".".join(parts) not in MODULES:
            parts.pop()
        # The command line stands above the root, and takes its version from there.
        assert parts or name.startswith("cli."), f"{name} imports {target} through the root"
        found |= {".".join(parts)} if parts else set()
    return found


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_imports_point_down(name):
    unit = name.split(".")[0]
    assert unit in RANK, f"{name} has no place in LAYERS"
    for target in own_imports(name):
        other = target.split(".")[0]
        assert RANK[other] <= RANK[unit], f"{name} imports {target}, which lies above it"


def test_no_import_cycle():
    graph = {name: own_imports(name) - {name} for name in MODULES if name}
    # A package's __init__ gathers names from its modules; a module may not import it back.
    while graph:
        free = {name for name, targets in graph.items() if not targets & graph.keys()}
        assert free, f"import cycle among {sorted(graph)}"
        graph = {name: targets for name, targets in graph.items() if name not in free}


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[0] in CORE])
def test_the_core_imports_jax_numpy_scipy_and_the_standard_library(name):
    allowed = {"jax", "numpy", "scipy", "lisdd_jax"} | set(sys.stdlib_module_names)
    for target, at_load in imports(name):
        package = target.split(".")[0]
        lazily = not at_load and package in LAZY.get(name, set())
        assert package in allowed or lazily, f"{name} imports {target}"


# A platform that does not exist makes any use of a device fail.
LOADING = """
import sys
import jax
import lisdd_jax
assert not jax.config.jax_enable_x64
extras = {"pandas", "pyarrow", "typer", "rich", "matplotlib", "sympy", "optax", "yaml"}
assert not extras & set(sys.modules), extras & set(sys.modules)
for name in lisdd_jax.__all__:
    getattr(lisdd_jax, name)
print("done")
"""


def test_importing_touches_neither_settings_nor_devices_nor_extras():
    environment = {"PATH": "", "JAX_PLATFORMS": "no_such_platform"}
    done = subprocess.run(
        [sys.executable, "-c", LOADING], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "done\n", done.stderr


def test_settings_of_jax_are_never_changed():
    for name, path in MODULES.items():
        if name.split(".")[0] == "cli":
            continue
        text = path.read_text()
        assert "config.update" not in text, name
        assert "jax_enable_x64=" not in text.replace(" ", ""), name
