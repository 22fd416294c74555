"""Work that goes on in threads beside a task: making its programs (``numerics.compilation``)."""

import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any


class Background:
    """Work of a task that goes on beside it, and the programs that the task took."""

    def __init__(self, pool: concurrent.futures.Executor) -> None:
        """Work in the threads of ``pool``."""
        self._pool = pool
        self._begun: dict[str, concurrent.futures.Future[Any]] = {}
        self.taken: list[str] = []

    def begin(self, description: str, work: Callable[[], Any]) -> None:
        """Start to make a program, once."""
        if description in self._begun:
            return
        self._begun[description] = self._pool.submit(work)

    def await_program(self, description: str) -> None:
        """Wait until a program is made, or has failed, which its call will then do as well."""
        self.taken.append(description)
        begun = self._begun.pop(description, None)
        if begun is not None:
            concurrent.futures.wait([begun])

    def await_all(self) -> None:
        """Wait until all programs are made: the compiler and many rows want memory in turn."""
        concurrent.futures.wait(self._begun.values())


_background: ContextVar[Background | None] = ContextVar("background", default=None)
_MOST_WORKERS = 8


def current_background() -> Background | None:
    """The background of the task that goes on."""
    return _background.get()


@contextlib.contextmanager
def shared_background() -> Iterator[Background]:
    """The background of the task that goes on, or a new one."""
    outer = _background.get()
    if outer is not None:
        yield outer
        return
    # On fewer than two cores the compiler still works while a program runs or a file is read.
    workers = min(max(os.cpu_count() or 1, 2), _MOST_WORKERS)
    pool = concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="lisdd_jax_compiler")
    background = Background(pool)
    token = _background.set(background)
    try:
        yield background
    finally:
        _background.reset(token)
        pool.shutdown(wait=False, cancel_futures=True)
