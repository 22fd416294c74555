"""Agreement and exchange among the processes of ``jax.distributed``; trivial for one process.

Replications need no communication. Processes talk twice: before the study, to make sure that they
do the same one, and after it, to merge what they have.
"""

import pickle
from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

T = TypeVar("T")


def gather(value: T) -> list[T]:
    """Values of all processes in order of their index; every process must call this.

    Args:
      value: anything that can be pickled.

    Returns:
      One value per process.
    """
    if jax.process_count() == 1:
        return [value]
    content = np.frombuffer(pickle.dumps(value), np.uint8)
    lengths = np.ravel(multihost_utils.process_allgather(np.array([content.size], np.int32)))
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: content.size] = content
    rows = np.reshape(multihost_utils.process_allgather(padded), (jax.process_count(), -1))
    return [pickle.loads(row[:n].tobytes()) for row, n in zip(rows, lengths, strict=True)]


def together(step: Callable[[], T]) -> T:
    """Run a step on every process and go on only if it succeeded on all.

    Otherwise a process that fails alone leaves the others waiting for it.

    Raises:
      Exception: what the step raised on this process.
      ValueError: the step failed on another process only.
    """
    try:
        value = step()
    except Exception as error:
        gather(str(error))
        raise
    messages = gather(None)
    failures = [f"process {i}: {text}" for i, text in enumerate(messages) if text is not None]
    if failures:
        raise ValueError("; ".join(failures))
    return value
