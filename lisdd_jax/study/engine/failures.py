"""Which replication failed, where a chunk of them did.

A compiled program fails as a whole, when Python code behind a callback raises. Parts of the chunk
are then run again until one replication is left.
"""

import contextlib
import logging
import re
from collections.abc import Iterator
from threading import Lock
from typing import Any

import numpy as np

from lisdd_jax.study.engine import interval_sets
from lisdd_jax.study.engine.program import Program

_EXHAUSTED = "RESOURCE_EXHAUSTED"
_quiet_lock = Lock()


class ReplicationError(RuntimeError):
    """A replication that failed on the host.

    Attributes:
      cell, replication: which, as ``replication_keys`` takes them; the first of several that only
        fail together.
    """

    def __init__(self, message: str, cell: int = 0, replication: int = 0) -> None:
        """Say what happened."""
        super().__init__(message)
        self.cell = cell
        self.replication = replication


def explain(program: Program, part: np.ndarray, error: Any) -> Exception:
    """The error to raise in the place of that of a chunk.

    Args:
      program: what was run.
      part: intervals of the members that failed.
      error: what the runtime raised.

    Returns:
      A ``ReplicationError`` that names cell, replication and parameters, or a ``MemoryError``.
    """
    if _EXHAUSTED in str(error):
        return MemoryError(
            f"{interval_sets.size(part)} replications do not fit into memory; pass a smaller"
            f" batch_size or memory_limit, or make the data sets smaller ({last_words(error)})"
        )
    with _quiet():
        found, error = _narrow(program, part, error)
    member = int(found[0, 0])
    cell, number = member // interval_sets.STRIDE, member % interval_sets.STRIDE
    values = {name: column[cell].item() for name, column in program.params.items()}
    values |= dict(program.static)
    params = ", ".join(f"{name}={value!r}" for name, value in values.items())
    several = interval_sets.size(found) - 1
    others = f" (or one of the {several} after it)" if several else ""
    return ReplicationError(
        f"replication {number} of cell {cell} ({params}){others} failed: {last_words(error)}",
        cell,
        number,
    )


def last_words(error: Exception) -> str:
    """The last line of a runtime's message, which is the exception of the host code."""
    tail = re.split(r'\n\s*File "[^\n]*', str(error))[-1]
    return " ".join(tail.split()) or type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep JAX from logging every repetition of a failure that it has logged once."""
    logger = logging.getLogger("jax")
    # Chunks fail in several threads, and each must find the level as the user has set it.
    with _quiet_lock:
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(level)


def _narrow(program: Program, part: np.ndarray, error: Any) -> tuple[np.ndarray, Any]:
    """The smallest part that still fails, by halves, with its error."""
    while (length := interval_sets.size(part)) > 1:
        middle = length // 2
        for start, stop in ((0, middle), (middle, length)):
            half = interval_sets.section(part, start, stop)
            try:
                program.run(program.load(interval_sets.members(half)), stop - start)
            except Exception as again:
                part, error = half, again
                break
        else:
            break
    return part, error
