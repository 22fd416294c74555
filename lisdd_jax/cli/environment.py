"""Settings of JAX for the process of the command line; the library itself never changes them."""

import os
import sys
import warnings
from pathlib import Path

import jax

#: Overrides the folder of compiled programs; empty turns the cache off.
CACHE_VARIABLE = "LISDD_JAX_CACHE_DIR"


def prepare(*, float32: bool) -> None:
    """Set the precision, and keep compiled programs so that the next run starts quickly.

    Args:
      float32: single precision instead of double.
    """
    jax.config.update("jax_enable_x64", not float32)
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
