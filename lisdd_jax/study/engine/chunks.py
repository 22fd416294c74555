"""Running a set of replications chunk by chunk on every core.

JAX shows a CPU of many cores as one device. Programs called from different threads run on it side
by side, so threads fill the cores without any flag. Chunks grow until they take a second or so:
long enough to cost nothing, short enough to lose little.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from time import monotonic

import numpy as np

from lisdd_jax.study.engine import failures, interval_sets
from lisdd_jax.study.engine.program import Program

_GROWTH = 8
_SHORTEST, _LONGEST = 1.0, 30.0  # seconds


@dataclass(frozen=True, kw_only=True, eq=False)
class Chunk:
    """Finished replications.

    Attributes:
      intervals: which, as intervals of members.
      metrics: values per metric, in rising order of the members.
    """

    intervals: np.ndarray
    metrics: dict[str, np.ndarray]


class Pace:
    """Chooses how many replications the next chunk holds.

    A chunk aims at 1 % of the time elapsed, between 1 and 30 seconds, so the number of chunks
    grows with the logarithm of a long study's duration.
    """

    def __init__(self, program: Program, started: float, chunk_size: int | None) -> None:
        """Start with one batch per device, or with ``chunk_size`` for good."""
        self._layout = program.layout
        self._num_threads = program.num_threads
        self._started = started
        self._fixed = chunk_size
        self._size = self._layout.granule

    def next_size(self, remaining: int) -> int:
        """Replications of the next chunk when so many are left."""
        if self._fixed:
            return min(self._fixed, remaining)
        share = -(-remaining // self._num_threads)
        size = max(min(self._size, share), self._size // _GROWTH)
        granules = max(-(-size // self._layout.granule), 1)
        return min(granules * self._layout.granule, self._layout.capacity, remaining)

    def observe(self, size: int, seconds: float) -> None:
        """Learn from a finished chunk."""
        target = min(max(0.01 * (monotonic() - self._started), _SHORTEST), _LONGEST)
        affordable = int(size * target / max(seconds, 1e-6))
        self._size = max(min(affordable, _GROWTH * size), 1)


def run_chunks(
    program: Program,
    wanted: np.ndarray,
    *,
    started: float,
    chunk_size: int | None = None,
    save: Callable[[Chunk], None] | None = None,
) -> Iterator[Chunk]:
    """Run the wanted replications and yield them as they finish, in any order.

    Args:
      program: compiled program of their cells.
      wanted: intervals of members.
      started: ``time.monotonic()`` at the start of the study.
      chunk_size: replications per chunk, or None to choose by time.
      save: called with each chunk in the thread that computed it.

    Yields:
      Finished chunks; together they hold every wanted member once.

    Raises:
      ReplicationError: a replication failed on the host.
    """
    pace = Pace(program, started, chunk_size)
    position, total = 0, interval_sets.size(wanted)
    pending: set[Future[tuple[Chunk, float]]] = set()
    with ThreadPoolExecutor(program.num_threads) as pool:
        try:
            while position < total or pending:
                # One chunk waits in the queue, so that no thread waits for this one.
                while position < total and len(pending) <= program.num_threads:
                    stop = position + pace.next_size(total - position)
                    part = interval_sets.section(wanted, position, stop)
                    arguments = program.load(interval_sets.members(part))
                    pending.add(pool.submit(_run_chunk, program, part, arguments, save))
                    position = stop
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    chunk, seconds = future.result()
                    pace.observe(interval_sets.size(chunk.intervals), seconds)
                    yield chunk
        finally:
            for future in pending:
                future.cancel()


def _run_chunk(
    program: Program,
    part: np.ndarray,
    arguments: tuple[object, ...],
    save: Callable[[Chunk], None] | None,
) -> tuple[Chunk, float]:
    started = monotonic()
    try:
        metrics = program.run(arguments, interval_sets.size(part))
    except Exception as error:
        raise failures.explain(program, part, error) from error
    chunk = Chunk(intervals=part, metrics=metrics)
    seconds = monotonic() - started
    if save is not None:
        save(chunk)
    return chunk, seconds
