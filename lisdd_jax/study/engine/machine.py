"""What this machine offers and what a program needs: its processor, cores and bytes."""

import os
import platform
from pathlib import Path
from typing import Any

import jax

_UNKNOWN_MACHINE_BYTES = 1 << 30
_UNLIMITED_BYTES = 1 << 62


def processor_name(device: jax.Device) -> str:
    """Model of the processor behind a device, and of a CPU the threads that XLA runs there.

    XLA splits a very large matrix product among its threads and adds up what they found.
    """
    if device.platform != "cpu":
        return str(device.device_kind)
    threads = os.environ.get("NPROC") or usable_cores()
    return f"{_cpu_model()}, {threads} threads"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


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
    return free_host_bytes()


def free_host_bytes() -> int:
    """Memory that the machine, and the container or job of this process, leave free."""
    return min(_free_machine_bytes(), _free_control_group_bytes())


def _free_machine_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return _UNKNOWN_MACHINE_BYTES


def _free_control_group_bytes() -> int:
    try:
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current")
        )
        return max(limit - used, 0)
    except (OSError, ValueError):
        return _UNLIMITED_BYTES


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


def resident_bytes() -> int:
    """Memory that this process takes up; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def as_memory(num_bytes: float) -> str:
    """A number of bytes in words.

    Example:
      >>> as_memory(3 << 20), as_memory(10**23)
      ('3.0 MiB', '86736.2 EiB')
    """
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = min(max(int(num_bytes).bit_length() - 1, 0) // 10, len(units) - 1)
    return f"{num_bytes / 1024**power:.1f} {units[power]}" if power else f"{num_bytes} bytes"
