"""Monte Carlo studies: cells times replications, streamed into statistics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import jax
import numpy as np

from lisdd_jax import validation
from lisdd_jax.study.engine import arguments, assembly, interval_sets, machine
from lisdd_jax.study.engine.chunks import Chunk, run_chunks
from lisdd_jax.study.engine.distributed import together
from lisdd_jax.study.engine.fingerprint import fingerprint
from lisdd_jax.study.engine.grid import Grid, build_grid
from lisdd_jax.study.engine.program import CAPACITY, build_program
from lisdd_jax.study.engine.progress import Progress, ProgressCounter
from lisdd_jax.study.engine.replication import Replication, find_replication, keep_replication
from lisdd_jax.study.engine.settings import study_settings
from lisdd_jax.study.engine.storage import StudyFolder, open_folder
from lisdd_jax.study.engine.summary import StudyResult
from lisdd_jax.study.engine.tally import Tally


@dataclass(frozen=True, kw_only=True)
class _Execution:
    """How to run, which changes no number."""

    devices: Sequence[jax.Device]
    chunk_size: int | None
    batch_size: int | None
    memory_limit: int | None
    num_threads: int | None


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
    execution = _Execution(
        devices=tuple(devices or jax.local_devices()),
        chunk_size=arguments.check_optional_count("chunk_size", chunk_size),
        batch_size=arguments.check_optional_count("batch_size", batch_size),
        memory_limit=arguments.check_optional_count("memory_limit", memory_limit),
        num_threads=arguments.check_optional_count("num_threads", num_threads),
    )
    groups = [(find_replication(simulate, evaluate, g.static), g.cells) for g in cells.groups()]
    settings = study_settings(
        cells,
        key=key,
        name=name or f"{_name_of(simulate)}, {_name_of(evaluate)}",
        metrics=_trace_metrics(groups, key, cells),
        # Only a folder has to recognise the computation, which takes time to lower.
        program="" if name or out_dir is None else _fingerprint(groups, key, cells, execution),
        device=execution.devices[0],
        batch_size=execution.batch_size,
    )
    folder = _open_together(out_dir, settings, resume)
    kept = num_replications if keep_records else 0
    tally = Tally(list(settings["metrics"]), cells.num_cells, sketch=bool(levels), kept=kept)
    missing = assembly.reload(folder, tally, cells, num_replications)
    mine = interval_sets.share_of_cells(np.arange(cells.num_cells), num_replications, *part)
    wanted = interval_sets.intersect(mine, missing)

    def run() -> None:
        counter = ProgressCounter(
            progress,
            total=interval_sets.size(mine),
            left=interval_sets.size(wanted),
            started=started,
        )
        for chunk in _run_groups(groups, wanted, key, cells, execution, folder, started):
            tally.add(interval_sets.members(chunk.intervals), chunk.metrics)
            counter.advance(interval_sets.size(chunk.intervals))

    try:
        together(run)
    finally:
        machine.return_free_memory()
    return assembly.result(assembly.merge(tally), cells, num_replications, levels, settings)


_Groups = list[tuple[Replication, np.ndarray]]


def _trace_metrics(groups: _Groups, key: jax.Array, cells: Grid) -> dict[str, str]:
    """Dtypes of the metrics, equal in all groups."""
    metrics: dict[str, str] = {}
    for replication, _ in groups:
        _, shapes = replication.trace(key.dtype, _dtypes(cells))
        found = {name: str(shape.dtype) for name, shape in shapes.items()}
        metrics = metrics or found
        if found != metrics:
            raise ValueError(
                f"evaluate must return the same metrics for all static parameters, got {metrics}"
                f" and, for {dict(replication.static)}, {found}"
            )
    return metrics


def _fingerprint(groups: _Groups, key: jax.Array, cells: Grid, execution: _Execution) -> str:
    """Fingerprints of the computations of all groups."""
    platform = execution.devices[0].platform
    return " ".join(
        fingerprint(replication, key.dtype, _dtypes(cells), platform) for replication, _ in groups
    )


def _dtypes(cells: Grid) -> dict[str, Any]:
    return {name: values.dtype for name, values in cells.columns(static=False).items()}


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


def _run_groups(
    groups: _Groups,
    wanted: np.ndarray,
    key: jax.Array,
    cells: Grid,
    execution: _Execution,
    folder: StudyFolder | None,
    started: float,
) -> Iterator[Chunk]:
    """Compile and run group by group; groups with nothing to do are not compiled.

    Empties the list, so that the programs of a group do not outlive it.
    """
    params = cells.columns(static=False)
    size = execution.chunk_size
    while groups:
        replication, members = groups.pop(0)
        of_group = wanted[np.isin(wanted[:, 0] // interval_sets.STRIDE, members)]
        if not len(of_group):
            continue
        program = build_program(
            replication,
            key,
            params,
            devices=execution.devices,
            batch_size=execution.batch_size,
            memory_limit=execution.memory_limit,
            num_threads=execution.num_threads,
            capacity=max(CAPACITY, -(-(size or 0) // len(execution.devices))),
        )
        yield from run_chunks(
            program,
            of_group,
            started=started,
            chunk_size=size,
            save=folder.save if folder is not None else None,
        )
        del program
        keep_replication(replication)
