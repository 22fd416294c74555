"""Files that commands write, ``-`` being standard output."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console

from lisdd_jax.report import files
from lisdd_jax.tables.errors import import_pandas

STANDARD_OUTPUT = "-"


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str]) -> None:
    """Refuse outputs that cannot be written, are inputs, or are the same twice, before any work.

    Args:
      outputs: files by option; None where not asked for.
      inputs: files that must stay.

    Raises:
      OutputError: says which.
    """
    inputs, seen = list(inputs), dict[str, str]()
    for option, path in outputs.items():
        if path is None:
            continue
        if path != STANDARD_OUTPUT:
            files.check_target(path, inputs)
        where = path if path == STANDARD_OUTPUT else str(Path(path).resolve())
        if where in seen:
            raise files.OutputError(
                f"{seen[where]} and {option} must differ, got {path!r} for both"
            )
        seen[where] = option


def write_text(path: str, text: str) -> None:
    """Write a text as a whole or not at all.

    Raises:
      OutputError: the system refuses.
    """
    if path == STANDARD_OUTPUT:
        print(text, end="")
    else:
        files.write_text(path, text)


def write_columns(path: str, columns: Mapping[str, np.ndarray]) -> None:
    """Write columns ``(n,)`` as CSV; a missing value is an empty field.

    Raises:
      OutputError: the system refuses.
    """
    frame = import_pandas().DataFrame(dict(columns))
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))


def say_written(console: Console, path: object) -> None:
    """Name a file that was written."""
    if path != STANDARD_OUTPUT:
        console.print(f"Written: {path}", style="dim", markup=False, highlight=False)
