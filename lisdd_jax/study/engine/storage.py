"""A folder that holds a study: its settings, and one checked file per finished chunk.

The name of a chunk's file is a hash of the settings and of its content, so that a damaged file, or
one of another study, is recognised and left out.
"""

import contextlib
import hashlib
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lisdd_jax import files
from lisdd_jax.study.engine.chunks import Chunk
from lisdd_jax.study.engine.settings import (
    PROCESSOR,
    differences,
    digest,
    read_settings_text,
    settings_text,
)

_SETTINGS = "settings.json"
_METRIC = "metric."


class StudyFolderError(ValueError):
    """A folder that cannot hold this study, or does not hold what it should."""


@dataclass(frozen=True)
class StudyFolder:
    """A folder opened for one set of settings."""

    path: Path
    digest: str

    def save(self, chunk: Chunk) -> None:
        """Add a finished chunk; it survives a crash once this returns.

        Raises:
          StudyFolderError: the system refuses, because the disk is full for instance.
        """
        buffer = io.BytesIO()
        named: dict[str, Any] = {_METRIC + name: values for name, values in chunk.metrics.items()}
        np.savez(buffer, intervals=chunk.intervals, **named)
        content = buffer.getvalue()
        name, other = self._names(content)
        try:
            # A folder of that name cannot be replaced.
            files.write_whole(self.path / (other if (self.path / name).is_dir() else name), content)
        except OSError as error:
            raise StudyFolderError(
                f"out_dir {self.path} cannot be written: {error.strerror or error}; what it holds"
                " is kept, and resume=True goes on from there"
            ) from error

    def chunks(self) -> Iterator[Chunk]:
        """Every whole chunk; chunks may overlap if several runs wrote at once.

        Warns:
          RuntimeWarning: some files were damaged; what they held is computed again.
        """
        damaged = []
        for path in sorted(self.path.glob("chunk-*.npz")):
            content = b""
            # What is a link to nothing, a folder, or unreadable holds no chunk either.
            with contextlib.suppress(OSError):
                content = path.read_bytes()
            if path.name not in self._names(content):
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
                f" {', '.join(damaged[:3])}{' ...' if len(damaged) > 3 else ''}; what they held is"
                " computed again, and they can be deleted",
                RuntimeWarning,
                stacklevel=2,
            )

    def _names(self, content: bytes) -> tuple[str, str]:
        """Names that a file of this content may have."""
        checksum = hashlib.sha256(self.digest.encode() + content).hexdigest()[:32]
        return f"chunk-{checksum}.npz", f"chunk-{checksum}-2.npz"


def open_folder(
    path: str | Path, settings: dict[str, Any], *, resume: bool, create: bool = True
) -> StudyFolder:
    """Open or create the folder of a study.

    Of several studies that open an empty folder at once, one creates it, and the others find it
    taken.

    Args:
      path: the folder.
      settings: as from ``study_settings``.
      resume: whether results that are already there may be continued.
      create: whether to start a study if the folder holds none.

    Returns:
      The open folder.

    Raises:
      StudyFolderError: the folder holds a study with other settings, or the same one and ``resume``
        is false; or none, and ``create`` is false; or it cannot be made, read or written.

    Warns:
      RuntimeWarning: the study was begun on another processor, or with other threads on it.
    """
    path = Path(path)
    if create:
        _make_folder(path)
        files.remove_abandoned(path)
        if _claim(path, settings):
            return StudyFolder(path, digest(settings))
    elif not (path / _SETTINGS).exists():
        raise StudyFolderError(f"out_dir {path} must be one folder that all processes share")
    stored = read_settings(path)
    found = differences(stored, settings)
    if found:
        raise StudyFolderError(
            f"out_dir {path} is the folder of another study, with other settings:"
            f" {'; '.join(found)}"
        )
    if not resume:
        raise StudyFolderError(
            f"out_dir {path} already holds this study; pass resume=True to continue it or"
            " choose another folder"
        )
    if stored.get(PROCESSOR) != settings.get(PROCESSOR):
        warnings.warn(
            f"the study in {path} was begun on {stored.get(PROCESSOR)!r} and goes on on"
            f" {settings.get(PROCESSOR)!r}: last digits of its replications may differ",
            RuntimeWarning,
            stacklevel=2,
        )
    return StudyFolder(path, digest(settings))


def read_folder(path: str | Path) -> tuple[StudyFolder, dict[str, Any]]:
    """Open a folder to read it, whatever study it holds, and change nothing in it.

    Returns:
      The folder and its settings.

    Raises:
      StudyFolderError: it holds no study.
    """
    settings = read_settings(path)
    return StudyFolder(Path(path), digest(settings)), settings


def read_settings(path: str | Path) -> dict[str, Any]:
    """Settings of the study in a folder.

    Raises:
      StudyFolderError: there are none, or they are damaged.
    """
    file = Path(path) / _SETTINGS
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StudyFolderError(f"{file} must hold the settings of a study: {reason}") from None
    try:
        return read_settings_text(text)
    except (ValueError, RecursionError) as error:
        raise StudyFolderError(
            f"{file} must hold the settings of a study, but is damaged: {error}; delete that file"
            " and resume with the study's own settings, which recognises its chunks"
        ) from None


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyFolderError(
            f"out_dir must be a folder, or one that can be made, got {path}: {error.strerror}"
        ) from None


def _claim(path: Path, settings: dict[str, Any]) -> bool:
    """Whether the folder held no study and holds this one now."""
    if (path / _SETTINGS).is_file():
        return False
    try:
        files.create_whole(path / _SETTINGS, settings_text(settings).encode())
    except FileExistsError:
        return False
    except OSError as error:
        raise StudyFolderError(
            f"out_dir {path} cannot be written: {error.strerror or error}"
        ) from error
    return True
