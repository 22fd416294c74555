"""Files as the library reads and writes them: whole or not at all."""

import os
import tomllib
import uuid
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file so that a reader finds the old one or the whole new one.

    The content goes to a hidden file beside the target, which it then replaces; that file does not
    outlive an error.

    Args:
      path: the file, in a folder that exists.
      content: all of it.
      durable: whether it must survive a loss of power once this returns.

    Raises:
      OSError: the system refuses.
    """
    # Process numbers are not unique among the hosts that share a folder.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        # The new name itself is on the disk only once the folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_toml(path: str | Path, kind: str) -> dict[str, Any]:
    """Content of a TOML file.

    Args:
      path: the file.
      kind: what it is called in messages, such as ``"spec"``.

    Returns:
      Its content.

    Raises:
      ValueError: the file does not exist, cannot be read, or is not valid TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{kind} {str(path)!r} cannot be read: it does not exist") from None
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"{kind} {str(path)!r} cannot be read: {reason}") from None
    except ValueError as error:
        raise ValueError(f"{kind} {str(path)!r} is not valid TOML: {error}") from None
