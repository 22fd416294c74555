"""The published tables, run again: which experiments there are, and what they write."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lisdd_jax import files
from lisdd_jax.study.experiments.detection_rates import E3
from lisdd_jax.study.experiments.forecasting import E4
from lisdd_jax.study.experiments.form_recovery import E2
from lisdd_jax.study.experiments.identifiability import E1
from lisdd_jax.study.experiments.multiple_regions import E5
from lisdd_jax.study.experiments.setup import Outcome, Setup

EXPERIMENTS = {experiment.name: experiment for experiment in (E1, E2, E3, E4, E5)}


def check_names(names: Sequence[str]) -> list[str]:
    """Names of experiments in their order, all where none is given.

    Args:
      names: such as ``["E1", "e3"]``.

    Raises:
      ValueError: a name is unknown.
    """
    wanted = {name.upper() for name in names}
    unknown = sorted(wanted - set(EXPERIMENTS))
    if unknown:
        raise ValueError(
            f"experiments must be some of {', '.join(EXPERIMENTS)}, got {', '.join(unknown)}"
        )
    return [name for name in EXPERIMENTS if name in wanted or not wanted]


def reproduce(names: Sequence[str], setup: Setup) -> Iterator[Outcome]:
    """Run experiments one after another.

    Args:
      names: of ``EXPERIMENTS``; all where empty.
      setup: size, seed and modes.

    Yields:
      The outcome of each as it is finished.

    Raises:
      ValueError: a name is unknown.
    """
    for name in check_names(names):
        yield EXPERIMENTS[name].run(setup)


def write_outcome(outcome: Outcome, folder: str | Path) -> Path:
    """Write ``FOLDER/E1.json`` and the like, as a whole or not at all.

    Args:
      outcome: of an experiment.
      folder: existing.

    Returns:
      The file.
    """
    path = Path(folder) / f"{outcome.name}.json"
    text = json.dumps(outcome.to_dict(), indent=1, allow_nan=False)
    files.write_whole(path, f"{text}\n".encode())
    return path


def read_outcomes(folder: str | Path) -> dict[str, dict[str, Any]]:
    """The experiments that a folder holds, by name, as ``write_outcome`` wrote them.

    Raises:
      FileError: a file of such a name holds something else.
    """
    found = {}
    for name in EXPERIMENTS:
        path = Path(folder) / f"{name}.json"
        if path.is_file():
            found[name] = _read_outcome(path)
    return found


def _read_outcome(path: Path) -> dict[str, Any]:
    content = files.read_json(path, "experiment")
    wanted = {f.name for f in dataclasses.fields(Outcome)} - {"name"}
    if not isinstance(content, dict) or not wanted <= set(content):
        raise files.FileError(f"{path} must hold a reproduced experiment; run that one again")
    return content
