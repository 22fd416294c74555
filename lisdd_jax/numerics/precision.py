"""Matrix products at full precision.

On some accelerators float32 products are rounded to fewer bits unless asked otherwise, which would
make the rank tests and residual sums of this library wrong there and right on CPU.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")


def full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Trace ``function`` with matrix products at the precision of their inputs."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return wrapped
