"""Passes of XLA's compiler for CPUs that cost programs of many short loops more than they save."""

import os

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


def _left_out_by_flags() -> list[str]:
    """Passes that ``XLA_FLAGS`` leaves out: the option of a program takes the place of the flag."""
    name = f"--{_OPTION}="
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if flag.startswith(name)]
    named = [part for flag in flags for part in flag.removeprefix(name).split(",")]
    return [part for part in named if part]
