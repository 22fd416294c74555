"""What the commands for studies share: options and progress."""

import sys
import time
from typing import Annotated, TextIO

import typer

from lisdd_jax.cli.options import checked_seed
from lisdd_jax.study.engine import Progress

# A batch log shows life without growing long.
_SECONDS_BETWEEN_LINES = 30.0


Seed = Annotated[
    int,
    typer.Option("--seed", help="Seed of all random numbers.", metavar="N", callback=checked_seed),
]
Float32 = Annotated[bool, typer.Option("--float32/--float64", help="Precision.")]


class ProgressLine:
    """Progress on stderr: one line that is written over on a terminal, else a line now and then."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Find out whether there is a terminal."""
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._named = ""
        self._said_at = 0.0

    def __call__(self, name: str, progress: Progress) -> None:
        """Show the state of the study of this name."""
        left = "" if progress.seconds_left is None else f", {progress.seconds_left:.0f} s left"
        line = f"{name}: {progress.done} of {progress.total} replications{left}"
        finished = progress.done >= progress.total
        if self._terminal:
            clear = "\r\x1b[K"
            self._stream.write(clear + line + (clear if finished else ""))
        elif finished or name != self._named or self._is_due():
            self._named, self._said_at = name, time.monotonic()
            self._stream.write(line + "\n")
        self._stream.flush()

    def _is_due(self) -> bool:
        return time.monotonic() - self._said_at >= _SECONDS_BETWEEN_LINES
