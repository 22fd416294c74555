"""What this machine offers and what a program needs: cores and bytes."""

import os
from pathlib import Path
from typing import Any

import jax

_UNKNOWN_MACHINE_BYTES = 1 << 30


def usable_cores() -> int:
    """Cores that this process may run on; a job scheduler may have granted a part of them."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def available_bytes(device: jax.Device) -> int:
    """Memory that a device offers.

    For an accelerator that is the limit of its runtime, whatever is in use at the moment, so that
    the same machine chooses the same batch every time. For a CPU it is what is free.
    """
    statistics = device.memory_stats() if device.platform != "cpu" else None
    if statistics and "bytes_limit" in statistics:
        return int(statistics["bytes_limit"])
    return min(_free_host_bytes(), _control_group_bytes())


def _free_host_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return _UNKNOWN_MACHINE_BYTES


def _control_group_bytes() -> int:
    """Memory that the control group of a container or job leaves free."""
    try:
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current")
        )
        return max(limit - used, 0)
    except (OSError, ValueError):
        return 1 << 62


def working_bytes(compiled: Any) -> int:
    """Bytes that one call of a compiled program holds beside its inputs; 0 where unknown."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        return 0
    return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes)


def smaller_batch(batch_size: int, needed: int, limit: int) -> int:
    """The next power of two to try when a batch needs more bytes than the limit."""
    proportional = max(batch_size * limit // needed, 1)
    return min(batch_size // 2, 1 << (proportional.bit_length() - 1))
