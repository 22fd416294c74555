"""What has been seen of a study so far: accumulators of every cell and metric, and records."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from lisdd_jax.study.engine import interval_sets
from lisdd_jax.study.engine.replication import STATUS
from lisdd_jax.study.engine.statistics import MetricAccumulator
from lisdd_jax.study.engine.summary import CellSummary


class Tally:
    """Running statistics of a study; equal for any order of the replications.

    Attributes:
      records: metric -> ``(num_cells, num_replications)`` float64 with NaN where nothing was done
        yet, or empty if records are not kept.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        num_cells: int,
        *,
        sketch: bool,
        kept: int = 0,
    ) -> None:
        """Start empty; ``sketch`` prepares quantiles, ``kept`` replications stay as records."""
        self._done = np.zeros(num_cells, np.int64)
        self._status: list[Counter[int]] = [Counter() for _ in range(num_cells)]
        self._metrics = [
            {
                name: MetricAccumulator(sketch=Counter() if sketch else None)
                for name in metrics
                if name != STATUS
            }
            for _ in range(num_cells)
        ]
        shape = (num_cells, kept)
        self.records = {name: np.full(shape, np.nan) for name in metrics if kept}

    def add(self, members: np.ndarray, metrics: dict[str, np.ndarray]) -> None:
        """Take in replications ``members`` in rising order with their metrics."""
        cells, numbers = interval_sets.split_members(members)
        present, starts = np.unique(cells, return_index=True)
        for cell, run in zip(present, _slices(starts, len(cells)), strict=True):
            self._done[cell] += run.stop - run.start
            for name, values in metrics.items():
                if name == STATUS:
                    self._status[cell].update(values[run].tolist())
                else:
                    self._metrics[cell][name].add(values[run])
        for name, records in self.records.items():
            records[cells, numbers] = metrics[name]

    def merge(self, other: "Tally") -> None:
        """Take in what another tally has seen of other replications."""
        self._done += other._done
        for mine, theirs in zip(self._status, other._status, strict=True):
            mine.update(theirs)
        for cell, accumulators in enumerate(self._metrics):
            for name, accumulator in accumulators.items():
                accumulator.merge(other._metrics[cell][name])
        for name, records in self.records.items():
            np.copyto(records, other.records[name], where=np.isnan(records))

    def summaries(
        self, params: Sequence[dict[str, Any]], levels: Sequence[float]
    ) -> tuple[CellSummary, ...]:
        """Statistics of every cell; quantiles are exact if records are kept."""
        return tuple(
            CellSummary(
                params=params[cell],
                num_replications=int(self._done[cell]),
                metrics={
                    name: accumulator.summary(levels, self._records_of(name, cell))
                    for name, accumulator in self._metrics[cell].items()
                },
                status=dict(sorted(self._status[cell].items())),
            )
            for cell in range(len(self._done))
        )

    def _records_of(self, name: str, cell: int) -> np.ndarray | None:
        return self.records[name][cell] if self.records else None


def _slices(starts: np.ndarray, end: int) -> list[slice]:
    return [slice(*bounds) for bounds in itertools.pairwise([*starts, end])]
