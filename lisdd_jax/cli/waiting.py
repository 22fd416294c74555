"""A sign of life on stderr for work that takes more than two seconds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

DELAY = 2.0


@contextmanager
def waiting(description: str, console: Console | None = None) -> Iterator[None]:
    """Show what is going on and for how long, from two seconds on, on a terminal only.

    Args:
      description: of the work.
      console: where to; stderr where None.
    """
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal:
        yield
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    progress.add_task(description, total=None)
    lock, done = threading.Lock(), threading.Event()

    def show() -> None:
        if not done.wait(DELAY):
            with lock:
                if not done.is_set():
                    progress.start()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        with lock:
            progress.stop()
        thread.join()
