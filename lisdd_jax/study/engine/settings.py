"""The settings that decide the numbers of a study, and how two sets of them differ."""

import hashlib
import json
import platform
from typing import Any

import jax
import numpy as np

from lisdd_jax.study.engine import machine
from lisdd_jax.study.engine.environment import numeric_environment
from lisdd_jax.study.engine.grid import Grid

# Names of what a folder records beside what decides the numbers.
PROCESSOR, CHECKSUM = "processor", "checksum"


def study_settings(
    grid: Grid,
    *,
    key: jax.Array,
    name: str,
    program: str,
    metrics: dict[str, str],
    device: jax.Device,
    batch_size: int | None,
) -> dict[str, Any]:
    """Everything on which the numbers of a replication depend, as JSON values.

    The number of replications, the chunks, devices and processes are not among them: replication
    ``i`` of a cell is the same in all of them. The processor is recorded too, although it is no
    setting: another model, or another number of threads, may order a sum differently.

    Args:
      grid: the cells.
      key: key of the study.
      name: the user's name for the two functions.
      program: fingerprint of the traced computation, or empty.
      metrics: dtype of every metric.
      device: one of the devices.
      batch_size: replications computed at once; a compiler may order sums differently in a batch.

    Returns:
      A dict that survives a round trip through JSON unchanged.
    """
    settings = {
        "name": name,
        "program": program,
        "grid": {name: _plain(axis) for name, axis in grid.axes.items()},
        "dtypes": {n: str(a.dtype) for n, a in grid.axes.items() if n not in grid.static},
        "static": list(grid.static),
        "paired": grid.paired,
        "key": [str(jax.random.key_impl(key)), *jax.random.key_data(key).tolist()],
        "metrics": metrics,
        "batch_size": batch_size,
        "platform": f"{device.platform} {platform.machine()}",
        **numeric_environment(),
        PROCESSOR: machine.processor_name(device),
    }
    return dict(json.loads(json.dumps(settings)))


def _plain(axis: Any) -> list[Any]:
    """Values of an axis as JSON has them; other static values become text."""
    if isinstance(axis, np.ndarray):
        return list(axis.tolist())
    return [v if isinstance(v, (bool, int, float, str, type(None))) else repr(v) for v in axis]


def grid_of_settings(settings: dict[str, Any]) -> Grid:
    """The grid that stored settings describe."""
    dtypes = settings["dtypes"]
    return Grid(
        axes={n: np.array(a, dtypes[n]) if n in dtypes else a for n, a in settings["grid"].items()},
        static=tuple(settings["static"]),
        paired=settings["paired"],
    )


def differences(stored: dict[str, Any], current: dict[str, Any]) -> list[str]:
    """One phrase per setting that differs, naming both values."""
    return [
        f"{name} was {_short(stored.get(name))} and is now {_short(current.get(name))}"
        for name in {**stored, **current}
        if name != PROCESSOR and stored.get(name) != current.get(name)
    ]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def digest(settings: dict[str, Any]) -> str:
    """Hash of the settings that decide the numbers."""
    return _hash({name: value for name, value in settings.items() if name != PROCESSOR})


def settings_text(settings: dict[str, Any]) -> str:
    """The settings as a file holds them, with a checksum over all."""
    return json.dumps({**settings, CHECKSUM: _hash(settings)}, indent=1)


def read_settings_text(text: str) -> dict[str, Any]:
    """Undo ``settings_text``.

    Raises:
      ValueError: the text is no such file, or was changed.
    """
    content = json.loads(text)
    if not isinstance(content, dict):
        raise ValueError(f"it holds {type(content).__name__}, no table")
    checksum = content.pop(CHECKSUM, None)
    if checksum != _hash(content):
        raise ValueError("its checksum does not fit")
    return content


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
