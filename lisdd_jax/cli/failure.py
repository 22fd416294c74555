"""How a failure reaches the user: one sentence on stderr, and no traceback unless asked for."""

import functools
import logging
import os
from collections.abc import Callable
from typing import Any

from lisdd_jax.study.engine import ReplicationError

#: Set to anything, it shows where an error was raised.
TRACEBACK_VARIABLE = "LISDD_JAX_TRACEBACK"


class Failure(Exception):  # noqa: N818
    """Bad input, said in one sentence; ends a command with exit code 2."""


def in_sentences(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what the library says of bad input, or of a replication, into a ``Failure``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not wants_traceback():
            # JAX logs a failure behind a callback with its traceback; here it becomes a sentence.
            logging.getLogger("jax").setLevel(logging.CRITICAL + 1)
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (ValueError, OverflowError, OSError, MemoryError, ReplicationError) as error:
            raise Failure(str(error)) from error

    return wrapped


def wants_traceback() -> bool:
    """Whether the user asks to see where errors are raised."""
    return bool(os.environ.get(TRACEBACK_VARIABLE))
