"""Writing a report so that a reader finds the old file or the whole new one."""

import os
from collections.abc import Iterable
from pathlib import Path

from lisdd_jax import files


class OutputError(ValueError):
    """A place that a report cannot be written to."""


def check_target(path: str | Path, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse a place that cannot be written, or that is one of the inputs, before any work.

    Args:
      path: the file to write.
      inputs: files that must stay.

    Raises:
      OutputError: the folder is missing or not writable, or the file is a folder or an input.
    """
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise OutputError(f"folder {str(folder)!r} of the output {str(target)!r} does not exist")
    if target.is_dir():
        raise OutputError(f"output {str(target)!r} is a folder, not a file")
    for source in map(Path, inputs):
        if target.resolve() == source.resolve() or (
            target.exists() and source.exists() and target.samefile(source)
        ):
            raise OutputError(f"output {str(target)!r} would overwrite an input")
    writable = target if target.exists() and not target.is_file() else folder
    if not os.access(writable, os.W_OK):
        raise OutputError(f"output {str(target)!r} cannot be written: no permission")


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8 as ``write_bytes`` does."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file as a whole or not at all.

    A target that is no regular file, such as a pipe, is written directly.

    Args:
      path: the file; a symbolic link is followed.
      content: its content.

    Raises:
      OutputError: the system refuses.
    """
    target = Path(path).resolve()
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
        else:
            files.write_whole(target, content)
    except OSError as error:
        raise OutputError(
            f"output {str(path)!r} cannot be written: {error.strerror or error}"
        ) from None
