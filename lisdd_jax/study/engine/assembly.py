"""From finished chunks, in a folder or on other processes, to the result of a study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lisdd_jax.study.engine import arguments, interval_sets
from lisdd_jax.study.engine.distributed import gather
from lisdd_jax.study.engine.grid import Grid
from lisdd_jax.study.engine.settings import grid_of_settings
from lisdd_jax.study.engine.storage import StudyFolder, read_folder
from lisdd_jax.study.engine.summary import StudyResult
from lisdd_jax.study.engine.tally import Tally


def read_study(
    out_dir: str | Path, *, quantiles: Sequence[float] = (), keep_records: bool = False
) -> StudyResult:
    """Result of the study in a folder, finished or not, without its functions.

    Args:
      out_dir: folder of a study.
      quantiles: levels in [0, 1]. Exact with ``keep_records``, else within 0.1 % of the value.
      keep_records: return every value of every metric.

    Returns:
      The result; ``num_replications`` is that of the fullest cell.

    Raises:
      StudyFolderError: the folder holds no study.

    Example:
      >>> import tempfile
      >>> import jax
      >>> from lisdd_jax.study.engine import run_study
      >>> simulate = lambda key, mu: mu + jax.random.normal(key, (50,))
      >>> evaluate = lambda data, key, mu: {"error": data.mean() - mu}
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     _ = run_study(simulate, evaluate, grid={"mu": [0.0]}, num_replications=20,
      ...                   key=jax.random.key(0), out_dir=folder)
      ...     read_study(folder).num_replications
      20
    """
    levels = arguments.check_levels(quantiles)
    folder, settings = read_folder(out_dir)
    cells = grid_of_settings(settings)
    ends = [(chunk.intervals[:, 1] - 1) % interval_sets.STRIDE + 1 for chunk in folder.chunks()]
    num_replications = int(np.max(np.concatenate(ends), initial=0)) if ends else 0
    kept = num_replications if keep_records else 0
    tally = Tally(list(settings["metrics"]), cells.num_cells, sketch=bool(levels), kept=kept)
    reload(folder, tally, cells, num_replications)
    return result(tally, cells, num_replications, levels, settings)


def reload(
    folder: StudyFolder | None, tally: Tally, cells: Grid, num_replications: int
) -> np.ndarray:
    """Take in the chunks of a folder.

    Args:
      folder: the folder, or None.
      tally: counts the chunks; under ``jax.distributed`` that of the first process only, so that
        the merged tallies hold them once.
      cells: the grid.
      num_replications: replications wanted per cell.

    Returns:
      What is missing, as intervals.

    Raises:
      ValueError: processes see different files.
    """
    missing = interval_sets.share_of_cells(np.arange(cells.num_cells), num_replications)
    for chunk in folder.chunks() if folder is not None else ():
        if jax.process_index() == 0:
            members = interval_sets.members(chunk.intervals)
            # Runs at the same time may overlap, and a longer one holds more than is wanted.
            fresh = interval_sets.contains(missing, members)
            tally.add(members[fresh], {n: values[fresh] for n, values in chunk.metrics.items()})
        missing = interval_sets.subtract(missing, chunk.intervals)
    if len(set(gather(missing.tobytes()))) > 1:
        raise ValueError("out_dir must be one folder that all processes share")
    return missing


def merge(tally: Tally) -> Tally:
    """One tally of what all processes have seen, on every process."""
    merged, *others = gather(tally)
    for other in others:
        merged.merge(other)
    return merged


def result(
    tally: Tally,
    cells: Grid,
    num_replications: int,
    levels: Sequence[float],
    settings: dict[str, Any],
) -> StudyResult:
    """The result that a tally amounts to."""
    return StudyResult(
        cells=tally.summaries(cells.params(), levels),
        shape=cells.shape,
        num_replications=num_replications,
        settings=settings,
        records={name: v.reshape(*cells.shape, -1) for name, v in tally.records.items()},
    )
