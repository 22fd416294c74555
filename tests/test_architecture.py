"""The layers of the package, read from its imports, and what it has once, read from its source."""

import ast
import collections
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
ROOT = REPOSITORY / "lisdd_jax"
# Imports point to the same line or up in this list; a module of no line has no place yet.
LAYERS = [
    {"numerics"},
    {"status", "validation", "files", "program_cache", "version"},
    {"study.engine"},
    {"config", "results"},
    {"expressions"},
    {"library"},
    {"statistics"},
    {"dataset"},
    {"published", "default"},
    {"candidates", "diagnosis"},
    {"prediction"},
    {"hybrid", "tables", "study.experiments"},
    {"study", "study.planning"},
    {"report"},
    {"fitting"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
CORE = {name for names in LAYERS[: LAYERS.index({"prediction"}) + 1] for name in names}
# Neither of these imports the other.
APART = [
    {"published", "default"},
    {"tables", "hybrid"},
    {"tables", "study.experiments"},
    {"tables", "study.planning"},
    {"hybrid", "study.experiments"},
    {"hybrid", "study.planning"},
]
# Needs an extra, and is imported only where it is used.
LAZY = {"expressions.export": {"sympy"}}
MOST_ROOT_MODULES = 12
MOST_SHARED_NAMES = 8
COMMANDS = {f"cli.{name}" for name in ("check", "diagnose", "doctor", "init", "predict")}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


@functools.cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def unit_of(name: str) -> str:
    """What a module belongs to: a folder or module of the root, or a room of the studies."""
    first, _, rest = name.partition(".")
    return f"study.{rest.partition('.')[0]}" if first == "study" and rest else first


def imports(name: str) -> list[tuple[str, bool]]:
    """What a module imports, in full, and whether the import runs when the module is loaded."""
    inside = {
        id(child)
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree_of(name)):
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
    unit = unit_of(name)
    assert unit in RANK, f"{name} has no place in LAYERS"
    for target in own_imports(name):
        other = unit_of(target)
        assert RANK[other] <= RANK[unit], f"{name} imports {target}, which lies above it"
        assert {unit, other} not in APART, f"{name} imports {target}: they share what lies below"


def test_no_import_cycle():
    graph = {name: own_imports(name) - {name} for name in MODULES if name}
    # A package's __init__ gathers names from its modules; a module may not import it back.
    while graph:
        free = {name for name, targets in graph.items() if not targets & graph.keys()}
        assert free, f"import cycle among {sorted(graph)}"
        graph = {name: targets for name, targets in graph.items() if name not in free}


@pytest.mark.parametrize("name", [name for name in MODULES if unit_of(name) in CORE])
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
extras |= {"diffrax", "equinox"}
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
        # The cache of compiled programs is set where a user asks for it.
        if name.split(".")[0] == "cli" or name == "program_cache":
            continue
        text = path.read_text()
        assert "config.update" not in text, name
        assert "jax_enable_x64=" not in text.replace(" ", ""), name


def test_the_root_holds_few_modules():
    names = {path.stem for path in ROOT.glob("*.py")} - {"__init__"}
    assert len(names) <= MOST_ROOT_MODULES, sorted(names)


def siblings(name: str) -> str:
    """Stages of the two methods share their names, and so do the commands."""
    if name in COMMANDS:
        return "a command"
    return "a method" if name.split(".")[0] in ("published", "default") else name


def test_few_names_are_defined_twice():
    places = collections.defaultdict(set)
    for name in MODULES:
        for node in tree_of(name).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(siblings(name))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert len(twice) <= MOST_SHARED_NAMES, twice


def place_of_tests(name: str) -> Path:
    *folders, module = name.split(".")
    return REPOSITORY.joinpath("tests", *folders, f"test_{module}.py")


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, path in MODULES.items()
        if name.split(".")[0] in ("default", "published", "statistics") and path.stem != "__init__"
    ],
)
def test_every_module_of_a_method_has_its_test_module(name):
    assert place_of_tests(name).is_file(), f"{place_of_tests(name)} is missing"


def constants(name: str) -> list[float]:
    """Numbers that a module names in capitals."""
    found: list[float] = []
    for node in tree_of(name).body:
        if (
            not isinstance(node, ast.Assign)
            or not ast.unparse(node.targets[0]).strip("(_").isupper()
        ):
            continue
        try:
            value = ast.literal_eval(node.value)
        except ValueError:
            continue
        parts = value if isinstance(value, tuple) else (value,)
        found += [part for part in parts if isinstance(part, int | float)]
    return found


def numbers_of_the_method_page() -> dict[str, list[float]]:
    """Numbers in the tables of constants by the last name of the module that the row names."""
    found = collections.defaultdict(list)
    for line in (REPOSITORY / "docs" / "method.md").read_text().splitlines():
        where, *rest = line.strip("| ").split(" | ")
        for number, percent in re.findall(r"(?<![\w.])(\d*\.?\d+(?:e-?\d+)?)( %)?", " ".join(rest)):
            value = float(number) / (100 if percent else 1)
            for module in re.findall(r"`([\w.]+)`", where):
                for part in module.split("."):
                    found[part].append(value)
    return found


def test_the_method_page_has_every_constant_of_both_methods():
    written = numbers_of_the_method_page()
    named = [name for name in MODULES if name.split(".")[0] in ("default", "published")]
    missing = {
        name: [value for value in constants(name) if value not in written[name.split(".")[-1]]]
        for name in named
    }
    assert not {name: values for name, values in missing.items() if values}
    assert sum(len(constants(name)) for name in named) > 50


def users(pattern: str) -> set[str]:
    """Modules whose source matches a pattern."""
    return {name for name, path in MODULES.items() if re.search(pattern, path.read_text())}


ONCE = {
    "tails of F ratios": (r"tails\.f_logsf\(", {"statistics.f_tests"}),
    "the rule that chooses a support": (r"\(1 \+ tolerance\) \* ", {"statistics.supports"}),
    "the check of edges": (r"edges must not decrease", {"statistics.partition"}),
    "reading TOML": (r"\btomllib\b", {"files"}),
    "the range of a seed": (r"2\*\*32 - 1|4294967295|2\*\*63", {"validation"}),
    "replacing a file": (r"os\.replace\(|\.part\b|NamedTemporaryFile|mkstemp", {"files"}),
    "checking a key": (r"def check_key\(", {"validation"}),
    "checking a count": (r"def check_count\(", {"validation"}),
    "rounding limits": (
        r"finfo\([^)]*\)\.eps\b|\binfo\.eps\b",
        # Where a sum, a series or a bracket ends belongs to it.
        {
            "numerics.tolerances",
            "numerics.tails",
            "numerics.noncentral",
            "hybrid.soft_regime",
            "numerics.medians",
        },
    ),
}


@pytest.mark.parametrize("what", ONCE)
def test_rules_have_one_place(what):
    pattern, places = ONCE[what]
    assert users(pattern) == places


def is_membership(node: ast.AST) -> bool:
    """Whether an expression asks if one value lies between two ends."""
    parts = node.values if isinstance(node, ast.BoolOp) else getattr(node, "operands", ())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        parts = (node.left, node.right)
    compared = [part for part in parts if isinstance(part, ast.Compare) and len(part.ops) == 1]
    above, below = (
        {ast.unparse(part.left) for part in compared if isinstance(part.ops[0], kinds)}
        for kinds in ((ast.Gt, ast.GtE), (ast.Lt, ast.LtE))
    )
    ends = " ".join(ast.unparse(part.comparators[0]) for part in compared)
    return bool(above & below) and "lower" in ends and "upper" in ends


def test_membership_of_a_region_is_decided_once():
    places = {name for name in MODULES for node in ast.walk(tree_of(name)) if is_membership(node)}
    # A bracket of an order statistic is open at both ends, and no region.
    assert places <= {"results.places", "numerics.bracket"}
    source = "(x >= lower) & (x < upper)"
    assert is_membership(ast.parse(source, mode="eval").body)


def test_methods_are_called_by_two_names():
    """Beside the words that files and commands have."""
    texts = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"), *MODULES.values()]
    old = "cali" + "brated "
    for path in texts:
        assert f"{old}method" not in path.read_text().lower(), path
        assert f"{old}mode" not in path.read_text().lower(), path
