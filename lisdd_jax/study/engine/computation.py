"""What a study computes: one program per combination of static parameters, run chunk by chunk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from lisdd_jax.study.engine import interval_sets
from lisdd_jax.study.engine.chunks import Chunk, run_chunks
from lisdd_jax.study.engine.fingerprint import fingerprint
from lisdd_jax.study.engine.grid import Grid
from lisdd_jax.study.engine.program import CAPACITY, build_program
from lisdd_jax.study.engine.replication import Replication, find_replication, keep_replication


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How to run, which changes no number but by ``batch_size``."""

    devices: Sequence[jax.Device]
    chunk_size: int | None
    batch_size: int | None
    memory_limit: int | None
    num_threads: int | None


class Computation:
    """The user's functions over the cells of a study."""

    def __init__(
        self,
        simulate: Callable[..., Any],
        evaluate: Callable[..., Any],
        *,
        cells: Grid,
        key: jax.Array,
        execution: Execution,
    ) -> None:
        """Find the groups of cells that share a program; nothing is traced yet."""
        self._groups: list[tuple[Replication, np.ndarray]] = [
            (find_replication(simulate, evaluate, group.static), group.cells)
            for group in cells.groups()
        ]
        self._params = cells.columns(static=False)
        self._key = key
        self._execution = execution

    def metrics(self) -> dict[str, str]:
        """Dtypes of the metrics.

        Raises:
          ValueError: they differ between groups, or ``evaluate`` returns no dict of scalars.
        """
        metrics: dict[str, str] = {}
        for replication, _ in self._groups:
            _, shapes = replication.trace(self._key.dtype, self._dtypes)
            found = {name: str(shape.dtype) for name, shape in shapes.items()}
            metrics = metrics or found
            if found != metrics:
                raise ValueError(
                    "evaluate must return the same metrics for all static parameters, got"
                    f" {metrics} and, for {dict(replication.static)}, {found}"
                )
        return metrics

    def fingerprint(self) -> str:
        """Text that changes with the computation of any group."""
        platform = self._execution.devices[0].platform
        return " ".join(
            fingerprint(replication, self._key.dtype, self._dtypes, platform)
            for replication, _ in self._groups
        )

    def run(
        self, wanted: np.ndarray, *, started: float, save: Callable[[Chunk], None] | None
    ) -> Iterator[Chunk]:
        """Compile and run group by group; groups with nothing to do are not compiled.

        Can be called once, since the programs of a group are let go when it is done.

        Args:
          wanted: intervals of members.
          started: ``time.monotonic()`` at the start of the study.
          save: called with each chunk in the thread that computed it.

        Yields:
          Finished chunks.
        """
        while self._groups:
            replication, cells = self._groups.pop(0)
            of_group = wanted[np.isin(wanted[:, 0] // interval_sets.STRIDE, cells)]
            if len(of_group):
                # What failed or was stopped is often run again: its program is as good as any.
                try:
                    yield from self._run_group(replication, of_group, started, save)
                finally:
                    keep_replication(replication)

    def _run_group(
        self,
        replication: Replication,
        wanted: np.ndarray,
        started: float,
        save: Callable[[Chunk], None] | None,
    ) -> Iterator[Chunk]:
        how = self._execution
        program = build_program(
            replication,
            self._key,
            self._params,
            devices=how.devices,
            batch_size=how.batch_size,
            memory_limit=how.memory_limit,
            num_threads=how.num_threads,
            capacity=max(CAPACITY, -(-(how.chunk_size or 0) // len(how.devices))),
        )
        return run_chunks(program, wanted, started=started, chunk_size=how.chunk_size, save=save)

    @property
    def _dtypes(self) -> dict[str, Any]:
        return {name: values.dtype for name, values in self._params.items()}
