"""Settings of JAX for the process of the command line; the library itself never changes them."""

import os
import sys
import warnings
from importlib import metadata
from pathlib import Path

import jax
import jaxlib.version

#: Overrides the folder of compiled programs; empty turns the cache off.
CACHE_VARIABLE = "LISDD_JAX_CACHE_DIR"

_QUICK_FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def set_precision(*, float32: bool) -> None:
    """Set the precision, and keep compiled programs so that the next run starts quickly.

    Args:
      float32: single precision instead of double.
    """
    jax.config.update("jax_enable_x64", not float32)
    # Who asks for single precision need not be told.
    warnings.filterwarnings("ignore", message="float64 input is computed in float32.*")
    folder = cache_folder()
    if folder is None or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    # A cache that cannot be read or written costs time, nothing else.
    warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")


def compile_quickly() -> None:
    """Trade speed of the compiled program for a third of the compile time, for a program run once.

    Left alone where the user has flags of their own, where JAX may run on an accelerator, and where
    the flags are not known to exist: an unknown one ends the process.
    """
    known = (0, 7) <= jaxlib.version.__version_info__[:2] < (0, 11)
    if known and not metadata.entry_points(group="jax_plugins"):
        os.environ.setdefault("XLA_FLAGS", _QUICK_FLAGS)


def cache_folder() -> Path | None:
    """Folder of compiled programs, or None where the user wants none."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "lisdd-jax"
