"""A folder that holds a study: its settings, and one checked file per finished chunk.

A file is whole or absent, because it is written under another name, flushed to the disk and then
renamed. Its name is a hash of the settings and of its content, so that a damaged file, or one of
another study, is recognised and left out.
"""

import hashlib
import io
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lisdd_jax.files import write_whole
from lisdd_jax.study.execution import Chunk
from lisdd_jax.study.settings import differences, digest

_SETTINGS = "settings.json"
_METRIC = "metric."


@dataclass(frozen=True)
class StudyFolder:
    """A folder opened for one set of settings."""

    path: Path
    digest: str

    def save(self, chunk: Chunk) -> None:
        """Add a finished chunk; it survives a crash once this returns."""
        buffer = io.BytesIO()
        named: dict[str, Any] = {_METRIC + name: values for name, values in chunk.metrics.items()}
        np.savez(buffer, intervals=chunk.intervals, **named)
        content = buffer.getvalue()
        write_whole(self.path / self._name(content), content, durable=True)

    def chunks(self) -> Iterator[Chunk]:
        """Every whole chunk; chunks may overlap if several runs wrote at once.

        Warns:
          RuntimeWarning: some files were damaged; what they held is computed again.
        """
        damaged = []
        for path in sorted(self.path.glob("chunk-*.npz")):
            content = path.read_bytes()
            if path.name != self._name(content):
                damaged.append(path.name)
                continue
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                metrics = {
                    name.removeprefix(_METRIC): arrays[name]
                    for name in arrays.files
                    if name.startswith(_METRIC)
                }
                yield Chunk(intervals=arrays["intervals"], metrics=metrics)
        if damaged:
            warnings.warn(
                f"{len(damaged)} chunk files in {self.path} are damaged and were left out:"
                f" {', '.join(damaged[:3])}{' ...' if len(damaged) > 3 else ''}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _name(self, content: bytes) -> str:
        checksum = hashlib.sha256(self.digest.encode() + content).hexdigest()
        return f"chunk-{checksum[:32]}.npz"


def open_folder(
    path: str | Path, settings: dict[str, Any], *, resume: bool, create: bool = True
) -> StudyFolder:
    """Open or create the folder of a study.

    Args:
      path: the folder.
      settings: as from ``study_settings``.
      resume: whether results that are already there may be continued.
      create: whether to start a study if the folder holds none.

    Returns:
      The open folder.

    Raises:
      ValueError: the folder holds a study with other settings, or the same one and ``resume`` is
        false; or none, and ``create`` is false.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"out_dir must be a folder, got the file {path}")
    if (path / _SETTINGS).exists():
        found = differences(read_settings(path), settings)
        if found:
            raise ValueError(
                f"out_dir {path} holds a study with other settings: {'; '.join(found)}"
            )
        if not resume:
            raise ValueError(
                f"out_dir {path} already holds this study; pass resume=True to continue it or"
                " choose another folder"
            )
    elif not create:
        raise ValueError(f"out_dir {path} must be one folder that all processes share")
    else:
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / _SETTINGS, json.dumps(settings, indent=1).encode(), durable=True)
    return StudyFolder(path, digest(settings))


def read_settings(path: str | Path) -> dict[str, Any]:
    """Settings of the study in a folder.

    Raises:
      ValueError: there is none.
    """
    file = Path(path) / _SETTINGS
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} must hold the settings of a study: {error}") from None
