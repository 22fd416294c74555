"""The result of a study: statistics per cell, as numbers, arrays, rows and JSON."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lisdd_jax import files
from lisdd_jax.study.engine.statistics import MetricSummary


@dataclass(frozen=True, kw_only=True)
class CellSummary:
    """Statistics of one cell.

    Attributes:
      params: the parameters.
      num_replications: replications done.
      metrics: name -> statistics.
      status: code -> number of replications that ended with it; empty if none is reported.
    """

    params: dict[str, Any]
    num_replications: int
    metrics: dict[str, MetricSummary]
    status: dict[int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyResult:
    """Statistics of every cell of a study.

    Attributes:
      cells: in the order of the grid, the last parameter varying fastest.
      shape: lengths of the grid's axes.
      num_replications: replications asked for per cell.
      settings: what the numbers depend on.
      records: metric -> values ``(*shape, num_replications)`` if they were kept, else empty.
    """

    cells: tuple[CellSummary, ...]
    shape: tuple[int, ...]
    num_replications: int
    settings: dict[str, Any]
    records: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every cell has all its replications; a share of a study has not."""
        return all(cell.num_replications == self.num_replications for cell in self.cells)

    def array(self, metric: str, statistic: str = "mean") -> np.ndarray:
        """A statistic of a metric over the grid.

        Args:
          metric: name of the metric.
          statistic: a field of ``MetricSummary``.

        Returns:
          Array of the grid's shape.
        """
        values = [getattr(cell.metrics[metric], statistic) for cell in self.cells]
        return np.reshape(values, self.shape)

    def mean(self, metric: str) -> np.ndarray:
        """Means over the grid."""
        return self.array(metric, "mean")

    def standard_error(self, metric: str) -> np.ndarray:
        """Standard errors of the means over the grid."""
        return self.array(metric, "standard_error")

    def quantile(self, metric: str, level: float) -> np.ndarray:
        """Quantiles at a requested level over the grid."""
        values = [cell.metrics[metric].quantiles[level] for cell in self.cells]
        return np.reshape(values, self.shape)

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict per cell and metric: parameters, metric, statistics, quantiles."""
        rows = []
        for cell in self.cells:
            for name, metric in cell.metrics.items():
                statistics = dataclasses.asdict(metric)
                quantiles = statistics.pop("quantiles")
                named = {f"quantile_{level}": value for level, value in quantiles.items()}
                rows.append({**cell.params, "metric": name, **statistics, **named})
        return rows

    def status_rows(self) -> list[dict[str, Any]]:
        """One flat dict per cell and status code: parameters, status, count."""
        return [
            {**cell.params, "status": code, "count": count}
            for cell in self.cells
            for code, count in cell.status.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the records, as JSON values; undefined numbers are None."""
        content = {
            "settings": self.settings,
            "num_replications": self.num_replications,
            "complete": self.complete,
            "cells": [dataclasses.asdict(cell) for cell in self.cells],
        }
        return dict(_json_value(content))

    def to_json(self, path: str | Path | None = None) -> str:
        """``to_dict`` as text, also written to ``path`` if given."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        if path is not None:
            files.write_whole(path, f"{text}\n".encode())
        return text


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _json_value(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else repr(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)
