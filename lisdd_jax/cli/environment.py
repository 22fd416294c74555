"""Settings of JAX for the process of the command line; the library itself never changes them."""

import contextlib
import os
import sys
import warnings
from pathlib import Path

import jax

from lisdd_jax.program_cache import compile_cache

#: Overrides the folder of compiled programs; empty turns the cache off.
CACHE_VARIABLE = "LISDD_JAX_CACHE_DIR"


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
    with contextlib.suppress(OSError):
        compile_cache(folder)


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
