"""Monte Carlo studies: cells times replications, streamed into statistics."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import jax
import numpy as np

from lisdd_jax import validation
from lisdd_jax.numerics import memory
from lisdd_jax.study.engine import arguments, assembly, interval_sets
from lisdd_jax.study.engine.computation import Computation, Execution
from lisdd_jax.study.engine.distributed import together
from lisdd_jax.study.engine.grid import build_grid
from lisdd_jax.study.engine.progress import Progress, ProgressCounter
from lisdd_jax.study.engine.settings import study_settings
from lisdd_jax.study.engine.storage import StudyFolder, open_folder
from lisdd_jax.study.engine.summary import StudyResult
from lisdd_jax.study.engine.tally import Tally


def run_study(
    simulate: Callable[..., Any],
    evaluate: Callable[..., dict[str, Any]],
    *,
    grid: Mapping[str, Any],
    num_replications: int,
    key: jax.Array,
    static: Sequence[str] = (),
    paired: bool = False,
    quantiles: Sequence[float] = (),
    keep_records: bool = False,
    out_dir: str | Path | None = None,
    resume: bool = False,
    name: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    share: tuple[int, int] | None = None,
    devices: Sequence[jax.Device] | None = None,
    chunk_size: int | None = None,
    batch_size: int | None = None,
    memory_limit: int | None = None,
    num_threads: int | None = None,
) -> StudyResult:
    """Simulate and evaluate every cell of a parameter grid many times.

    Replication ``i`` of cell ``c`` runs ``simulate`` and ``evaluate`` with the two keys of
    ``split(fold_in(fold_in(key, c), i))``. It depends on nothing else, and sums are exact, so
    chunks, threads, devices, processes and interruptions do not change a digit of the result on
    one platform. Memory does not grow with the number of replications unless records are kept.

    Args:
      simulate: ``simulate(key, **params) -> data``, traced by JAX.
      evaluate: ``evaluate(data, key, **params) -> dict`` of real scalars, traced by JAX. An
        entry ``"status"`` (an integer) is counted per code and not averaged.
      grid: parameter name -> 1-D values; every combination is a cell, the last name varies
        fastest.
      num_replications: replications per cell.
      key: typed key, ``jax.random.key(seed)``.
      static: parameters passed as Python values because they fix shapes or select code; each
        combination of them is compiled apart. The others are traced: their values need no new
        compilation.
      paired: pair the entries of equally long axes instead of combining them.
      quantiles: levels in [0, 1]. Exact with ``keep_records``, else within 0.1 % of the value.
      keep_records: return every value of every metric.
      out_dir: folder for the finished chunks, which hold every value; a study that is killed
        loses the chunks in flight.
      resume: continue what is in ``out_dir``, possibly with more replications.
      name: name of the two functions in the settings of ``out_dir``. By default a fingerprint of
        the traced computation guards against a change of code; a name takes its place.
      progress: called after every chunk.
      share: ``(index, count)``: run this part of the study only, for jobs that share ``out_dir``
        without ``jax.distributed``, which sets it by itself.
      devices: local devices to use, by default all of the default backend.
      chunk_size: replications per chunk; by default chunks take a second to half a minute.
      batch_size: replications computed at once on a device; by default one on a CPU and what
        fits in memory on an accelerator. The one option here that may change last digits, since
        a compiler may order sums differently in a batch.
      memory_limit: bytes of working memory on a device, by default half of what it offers.
      num_threads: chunks that run at once, by default one per core not taken by a device.

    Returns:
      Statistics per cell; on every process of ``jax.distributed`` those of the whole study. A
      metric that is NaN or infinite is counted and left out of the statistics. With ``share``
      the result covers what ``out_dir`` held and this part, see ``StudyResult.complete``.

    Raises:
      ValueError: an argument is out of range, or ``evaluate`` does not return a dict of scalars.
      TypeError: ``key`` is not a typed key, or a function cannot be hashed.
      StudyFolderError: ``out_dir`` holds other results, or cannot be made, read or written; the
        message names the setting that differs, or what the system said.
      ReplicationError: Python code behind a callback failed; the message names cell, replication
        and parameters.
      MemoryError: a data set needs more memory than there is.

    Example:
      >>> def simulate(key, mu):
      ...     return mu + jax.random.normal(key, (50,))
      >>> def evaluate(data, key, mu):
      ...     return {"error": data.mean() - mu}
      >>> result = run_study(
      ...     simulate, evaluate, grid={"mu": [0.0, 1.0]}, num_replications=20,
      ...     key=jax.random.key(0),
      ... )
      >>> result.mean("error").shape
      (2,)
    """
    started = monotonic()
    cells = build_grid(grid, static=static, paired=paired)
    num_replications = validation.check_count(
        "num_replications", num_replications, 1, interval_sets.STRIDE - 1
    )
    validation.check_key(key)
    arguments.check_function("simulate", simulate)
    arguments.check_function("evaluate", evaluate)
    arguments.check_out_dir(out_dir, resume)
    levels = arguments.check_levels(quantiles)
    part = arguments.check_share(share)
    execution = _check_execution(
        devices,
        chunk_size=chunk_size,
        batch_size=batch_size,
        memory_limit=memory_limit,
        num_threads=num_threads,
    )
    computation = Computation(simulate, evaluate, cells=cells, key=key, execution=execution)
    settings = study_settings(
        cells,
        key=key,
        name=name or f"{_name_of(simulate)}, {_name_of(evaluate)}",
        metrics=computation.metrics(),
        # Only a folder has to recognise the computation, which takes time to lower.
        program="" if name or out_dir is None else computation.fingerprint(),
        device=execution.devices[0],
        batch_size=execution.batch_size,
    )
    folder = _open_together(out_dir, settings, resume)
    kept = num_replications if keep_records else 0
    tally = Tally(list(settings["metrics"]), cells.num_cells, sketch=bool(levels), kept=kept)
    missing = assembly.reload(folder, tally, cells, num_replications)
    mine = interval_sets.share_of_cells(np.arange(cells.num_cells), num_replications, *part)
    _run_together(computation, tally, folder, mine, missing, started, progress)
    return assembly.result(assembly.merge(tally), cells, num_replications, levels, settings)


def _check_execution(devices: Sequence[jax.Device] | None, **counts: int | None) -> Execution:
    checked = {name: arguments.check_optional_count(name, counts[name]) for name in counts}
    return Execution(devices=tuple(devices or jax.local_devices()), **checked)


def _run_together(
    computation: Computation,
    tally: Tally,
    folder: StudyFolder | None,
    mine: np.ndarray,
    missing: np.ndarray,
    started: float,
    progress: Callable[[Progress], None] | None,
) -> None:
    """Compute what is missing of this process's intervals; a failure ends every process."""
    wanted = interval_sets.intersect(mine, missing)

    def run() -> None:
        total, left = interval_sets.size(mine), interval_sets.size(wanted)
        counter = ProgressCounter(progress, total=total, left=left, started=started)
        save = None if folder is None else folder.save
        for chunk in computation.run(wanted, started=started, save=save):
            tally.add(interval_sets.members(chunk.intervals), chunk.metrics)
            counter.advance(interval_sets.size(chunk.intervals))

    try:
        together(run)
    finally:
        memory.return_free_memory()


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _open_together(
    out_dir: str | Path | None, settings: dict[str, Any], resume: bool
) -> StudyFolder | None:
    """Open the folder on the first process, which decides, and then on the others."""
    if out_dir is None:
        return None
    first = jax.process_index() == 0
    opened = together(lambda: open_folder(out_dir, settings, resume=resume) if first else None)
    return together(lambda: opened or open_folder(out_dir, settings, resume=True, create=False))
