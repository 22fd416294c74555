"""Passes of XLA's compiler for CPUs that cost programs of many short loops more than they save."""

import os
import shlex
from pathlib import Path

import jax.numpy as jnp
import numpy as np

_PARALLEL_LOOPS = "cpu-parallel-task-assigner"
_SUMS_IN_A_TREE = "tree_reduction_rewriter"
_OPTION = "xla_disable_hlo_passes"


def without_slow_passes(dtype: np.dtype | type, *, many_at_once: bool) -> dict[str, str]:
    """Compiler options of a program on a CPU.

    Args:
      dtype: floating-point type of its sums. Sums in a tree take half of the time of a trimmed
        fit, since each makes an array of its terms, but long sums of single precision need them.
      many_at_once: whether such programs fill all cores. Loops split over the cores then cost a
        quarter more than whole ones.
    """
    passes = _left_out_by_flags()
    if many_at_once:
        passes.append(_PARALLEL_LOOPS)
    if dtype == jnp.float64:
        passes.append(_SUMS_IN_A_TREE)
    return {_OPTION: ",".join(dict.fromkeys(passes))}


def flags_of_xla() -> list[str]:
    """Flags that ``XLA_FLAGS`` holds, which XLA reads once, when the first device is used."""
    text = os.environ.get("XLA_FLAGS", "")
    if text and not text.lstrip().startswith("-"):
        # XLA takes what is no flag for a file of flags.
        path = Path(text.strip())
        text = path.read_text(encoding="utf-8") if path.is_file() else text
    return shlex.split(text, comments=True)


def _left_out_by_flags() -> list[str]:
    """Passes that flags leave out: the option of a program takes the place of the flag."""
    name = f"--{_OPTION}="
    flags = [flag for flag in flags_of_xla() if flag.startswith(name)]
    named = [part for flag in flags for part in flag.removeprefix(name).split(",")]
    return [part for part in named if part]
