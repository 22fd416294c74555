"""The published tables, run again: which experiments there are, and what they write."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lisdd_jax.study.experiments import e1, e2, e3, e4, e5
from lisdd_jax.study.experiments.setup import Experiment, Setup

EXPERIMENTS = {module.NAME: module for module in (e1, e2, e3, e4, e5)}


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


def reproduce(names: Sequence[str], setup: Setup) -> Iterator[Experiment]:
    """Run experiments one after another.

    Args:
      names: of ``EXPERIMENTS``; all where empty.
      setup: size, seed and modes.

    Yields:
      Each experiment as it is finished.

    Raises:
      ValueError: a name is unknown.
    """
    for name in check_names(names):
        yield EXPERIMENTS[name].run(setup)


def write_json(experiment: Experiment, folder: str | Path) -> Path:
    """Write ``FOLDER/E1.json`` and the like, as a whole or not at all.

    Args:
      experiment: a finished one.
      folder: existing.

    Returns:
      The file.
    """
    path = Path(folder) / f"{experiment.name}.json"
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(json.dumps(experiment.to_dict(), indent=1, allow_nan=False) + "\n")
    partial.replace(path)
    return path


def read_json(folder: str | Path) -> dict[str, dict[str, Any]]:
    """The experiments that a folder holds, by name, as ``write_json`` wrote them."""
    found = {}
    for name in EXPERIMENTS:
        path = Path(folder) / f"{name}.json"
        if path.is_file():
            found[name] = json.loads(path.read_text())
    return found
