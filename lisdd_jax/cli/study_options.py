"""What the commands for studies share: options, errors as sentences, progress."""

import functools
import logging
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from lisdd_jax import validation
from lisdd_jax.cli.failure import Failure
from lisdd_jax.study.engine import Progress, ReplicationError

# A batch log shows life without growing long.
_SECONDS_BETWEEN_LINES = 30.0


def _check_seed(value: int) -> int:
    try:
        return validation.check_seed("--seed", value)
    except ValueError as error:
        raise Failure(str(error)) from None


Seed = Annotated[
    int,
    typer.Option("--seed", help="Seed of all random numbers.", metavar="N", callback=_check_seed),
]
Float32 = Annotated[bool, typer.Option("--float32/--float64", help="Precision.")]


def in_sentences(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors of the input into one sentence."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        # JAX logs a failure behind a callback with its traceback; here it becomes a sentence.
        logging.getLogger("jax").setLevel(logging.CRITICAL + 1)
        try:
            command(*args, **kwargs)
        except (ValueError, OSError, MemoryError, ReplicationError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise Failure(str(error)) from error

    return wrapped


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


def say_written(console: Console, path: object) -> None:
    """Name a file that was written."""
    console.print(f"Written: {path}", style="dim", markup=False, highlight=False)
