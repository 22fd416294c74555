"""Files of the host: written whole or not at all, claimed by one writer, read as TOML or JSON.

A file is first written beside its place under a temporary name, flushed to the disk, and then
renamed, so that a reader finds the old file or the whole new one, also after a crash. The temporary
name tells who writes it, which tells what a killed process left behind from work in progress.
"""

import contextlib
import difflib
import functools
import hashlib
import json
import os
import platform
import re
import time
import tomllib
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

_PREFIX = ".lisdd-"
_TEMPORARY = re.compile(rf"{re.escape(_PREFIX)}([0-9a-f]{{8}})-(\d+)-[0-9a-f]{{8}}\.part")
# A writer on another machine cannot be asked; files are written in seconds, not in a day.
_ABANDONED_SECONDS = 86400.0


class FileError(ValueError):
    """A file that cannot be read, or does not hold what it should."""


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file as a whole or not at all; it survives a crash once this returns.

    Args:
      path: the file, replaced if it exists.
      content: all of it.

    Raises:
      OSError: the system refuses; the file is as before and nothing is left beside it.
    """
    path = Path(path)
    with _temporary(path.parent, content) as temporary:
        os.replace(temporary, path)
    _flush_folder(path.parent)


def create_whole(path: str | Path, content: bytes) -> None:
    """Write a file that must not exist yet; of several writers at once exactly one succeeds.

    Args:
      path: the file.
      content: all of it.

    Raises:
      FileExistsError: the name is taken, if only by a link to nothing.
      OSError: the system refuses.
    """
    path = Path(path)
    with _temporary(path.parent, content) as temporary:
        try:
            # Unlike a renaming, a second name for a file never replaces another file.
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:
            # The file system has no second names.
            _create_in_place(path, content)
    _flush_folder(path.parent)


def remove_abandoned(folder: str | Path) -> None:
    """Remove temporary files whose writers are gone.

    Those of living processes of this machine stay, and those of other machines for a day.

    Args:
      folder: where to look; files that cannot be removed are left alone.
    """
    with contextlib.suppress(OSError):
        for path in Path(folder).iterdir():
            found = _TEMPORARY.fullmatch(path.name)
            if found and _is_abandoned(path, found[1], int(found[2])):
                with contextlib.suppress(OSError):
                    path.unlink()


@contextlib.contextmanager
def _temporary(folder: Path, content: bytes) -> Iterator[Path]:
    """A file of this content, on the disk, that is gone afterwards."""
    name = f"{_PREFIX}{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.part"
    path = folder / name
    try:
        with open(path, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


def _create_in_place(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _flush_folder(folder: Path) -> None:
    """Put a new name itself on the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@functools.cache
def _machine() -> str:
    """Eight digits for this machine; containers that number their processes apart are machines."""
    with contextlib.suppress(OSError):
        return _short_hash(platform.node() + os.readlink("/proc/self/ns/pid"))
    return _short_hash(platform.node())


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _is_abandoned(path: Path, machine: str, process: int) -> bool:
    # Elsewhere than on POSIX the question whether a process lives would end it.
    if machine == _machine() and os.name == "posix" and not _is_alive(process):
        return True
    return time.time() - path.stat().st_mtime > _ABANDONED_SECONDS


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def read_toml(path: str | Path, kind: str) -> dict[str, Any]:
    """Read a TOML file.

    Args:
      path: the file.
      kind: what it holds, as the first word of a complaint.

    Returns:
      Its content.

    Raises:
      FileError: it does not exist, cannot be read, or is not TOML.
    """
    return dict(_read(path, kind, "TOML", tomllib.loads))


def read_json(path: str | Path, kind: str) -> Any:
    """Read a JSON file, as ``read_toml`` reads TOML."""
    return _read(path, kind, "JSON", json.loads)


def parse_json(text: str, kind: str) -> Any:
    """What a text in JSON holds.

    Args:
      text: all of it.
      kind: what it holds, as the first word of a complaint.

    Raises:
      FileError: it is not JSON.
    """
    return _parse(text, kind, "JSON", json.loads)


def _read(path: str | Path, kind: str, language: str, parse: Callable[[str], Any]) -> Any:
    named = f"{kind} {str(path)!r}"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileError(f"{named} cannot be read: it does not exist") from None
    except OSError as error:
        raise FileError(f"{named} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise FileError(f"{named} is not valid {language}: {error}") from None
    return _parse(text, named, language, parse)


def _parse(text: str, named: str, language: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{named} is not valid {language}: {error}") from None


def check_keys(kind: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse a key that nobody reads, with the nearest known ones.

    Raises:
      FileError: a key is unknown.
    """
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
            raise FileError(f"unknown {kind} {key!r}; {hint}")
