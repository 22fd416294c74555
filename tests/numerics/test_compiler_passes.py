"""Which passes of the compiler a program leaves out."""

import numpy as np
import pytest

from lisdd_jax.numerics.compiler_passes import without_slow_passes

OPTION = "xla_disable_hlo_passes"


@pytest.mark.parametrize(
    "flags, kept",
    [
        ("", []),
        ("--xla_cpu_enable_fast_math=false", []),
        (f"--xla_cpu_enable_fast_math=false --{OPTION}=algsimp,cse", ["algsimp", "cse"]),
        (f"--{OPTION}=algsimp --{OPTION}=cse", ["algsimp", "cse"]),
        (f"--{OPTION}=", []),
    ],
)
def test_what_the_flags_leave_out_stays_out(monkeypatch, flags, kept):
    """As XLA reads them: those of several flags add up."""
    monkeypatch.setenv("XLA_FLAGS", flags)
    sums, loops = "tree_reduction_rewriter", "cpu-parallel-task-assigner"
    for dtype, many_at_once, own in [
        (np.float32, False, []),
        (np.float64, False, [sums]),
        (np.float64, True, [loops, sums]),
    ]:
        found = without_slow_passes(dtype, many_at_once=many_at_once)
        assert found == {OPTION: ",".join([*kept, *own])}


def test_a_pass_is_named_once(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", f"--{OPTION}=tree_reduction_rewriter")
    assert without_slow_passes(np.float64, many_at_once=False) == {
        OPTION: "tree_reduction_rewriter"
    }


def test_flags_may_stand_in_a_file(monkeypatch, tmp_path):
    path = tmp_path / "flags"
    path.write_text(f"--xla_cpu_enable_fast_math=false\n--{OPTION}=cse  # of no use\n")
    monkeypatch.setenv("XLA_FLAGS", str(path))
    assert without_slow_passes(np.float32, many_at_once=False) == {OPTION: "cse"}
