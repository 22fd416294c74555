"""``lisdd-jax doctor``: what this installation consists of and whether it computes."""

import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table as Grid
from rich.text import Text

import lisdd_jax
from lisdd_jax.cli import environment, printing

HELP = "Show versions, devices, precision, the folder of compiled programs, and extras."

_CORE = ("jax", "jaxlib", "numpy", "scipy")
#: Optional packages, and what needs them.
_EXTRAS = {
    "pandas": "tables",
    "pyarrow": "Parquet, Polars, .zst files",
    "openpyxl": "Excel",
    "matplotlib": "figures and pages",
    "optax": "training",
    "sympy": "export of formulas",
    "pysindy": "its feature libraries",
}


def command() -> None:
    """Print what is found; a fault of JAX ends in its own words."""
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, found in _facts():
        grid.add_row(Text(name, style="bold"), Text(found))
    printing.show(grid)


def _facts() -> Iterator[tuple[str, str]]:
    yield "lisdd-jax", f"{lisdd_jax.__version__} in {Path(lisdd_jax.__file__).parent}"
    yield "Python", f"{platform.python_version()} on {platform.platform()} ({sys.executable})"
    for package in _CORE:
        yield package, metadata.version(package)
    try:
        yield "devices", ", ".join(f"{device.device_kind} ({device})" for device in jax.devices())
        yield "computes", _computed()
    except RuntimeError as error:
        yield "devices", f"none: {' '.join(str(error).split())}"
    yield (
        "precision",
        (
            "float64 on the command line (--float32 for single precision); from Python"
            f" {jnp.result_type(float)} as JAX is set here"
        ),
    )
    yield "compiled", _cache()
    for package, purpose in _EXTRAS.items():
        yield package, f"{_version(package)} ({purpose})"


def _computed() -> str:
    """A sum on the device, beside the same by NumPy."""
    values = np.arange(1.0, 1001.0, dtype=np.float32)
    found = float(jax.jit(lambda x: x @ x)(values))
    expected = float(values @ values)
    right = abs(found - expected) <= 1e-5 * expected
    return "yes" if right else f"wrongly: a sum of squares is {found!r}, not {expected!r}"


def _cache() -> str:
    own = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    folder = Path(own) if own else environment.cache_folder()
    if folder is None:
        return "not kept"
    if not folder.is_dir():
        return f"kept in {folder}, which the first diagnosis makes"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    access = "" if os.access(folder, os.W_OK) else ", not writable"
    return f"kept in {folder} ({size / 1e6:.0f} MB{access})"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "present" if importlib.util.find_spec(package) else "not installed"
