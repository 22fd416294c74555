"""What the commands for studies share: options, errors as sentences, progress."""

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console

from lisdd_jax.cli.failure import Failure
from lisdd_jax.study.engine.progress import Progress

Seed = Annotated[int, typer.Option("--seed", help="Seed of all random numbers.", metavar="N")]
Float32 = Annotated[bool, typer.Option("--float32/--float64", help="Precision.")]


def in_sentences(command: Callable[..., None]) -> Callable[..., None]:
    """Turn errors of the input into one sentence."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise Failure(str(error)) from error

    return wrapped


class Reporter:
    """One line of progress on stderr, on a terminal only."""

    def __init__(self) -> None:
        """Find out whether there is a terminal."""
        self._shown = sys.stderr.isatty()

    def __call__(self, name: str, progress: Progress) -> None:
        """Show the state of the study of this name."""
        if not self._shown:
            return
        left = "" if progress.seconds_left is None else f", {progress.seconds_left:.0f} s left"
        line = f"{name}: {progress.done} of {progress.total} replications{left}"
        sys.stderr.write("\r\x1b[K" + line)
        if progress.done >= progress.total:
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def say_written(console: Console, path: object) -> None:
    """Name a file that was written."""
    console.print(f"Written: {path}", style="dim", markup=False, highlight=False)
