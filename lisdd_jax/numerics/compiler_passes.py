"""Passes of XLA's compiler for CPUs that cost programs of many short loops more than they save."""

import jax.numpy as jnp
import numpy as np

_PARALLEL_LOOPS = "cpu-parallel-task-assigner"
_SUMS_IN_A_TREE = "tree_reduction_rewriter"


def without_slow_passes(dtype: np.dtype | type, *, many_at_once: bool) -> dict[str, str]:
    """Compiler options of a program on a CPU.

    Args:
      dtype: floating-point type of its sums. Sums in a tree take half of the time of a trimmed
        fit, since each makes an array of its terms, but long sums of single precision need them.
      many_at_once: whether such programs fill all cores. Loops split over the cores then cost a
        quarter more than whole ones.
    """
    passes = [_PARALLEL_LOOPS] if many_at_once else []
    if dtype == jnp.float64:
        passes.append(_SUMS_IN_A_TREE)
    return {"xla_disable_hlo_passes": ",".join(passes)}
