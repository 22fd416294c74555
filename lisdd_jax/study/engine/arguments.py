"""Checks of the arguments of a study, each with one sentence that says what is required."""

import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from lisdd_jax import validation


def check_optional_count(name: str, value: Any) -> int | None:
    """None, or an integer of at least 1."""
    return None if value is None else validation.check_count(name, value, 1)


def check_levels(levels: Sequence[float]) -> tuple[float, ...]:
    """Quantile levels in [0, 1]."""
    try:
        numbers = tuple(float(level) for level in np.ravel(np.asarray(levels, np.float64)))
    except (TypeError, ValueError):
        numbers = (-1.0,)
    if not all(0 <= level <= 1 for level in numbers):
        raise ValueError(f"quantiles must be levels in [0, 1], got {levels!r}")
    return numbers


def check_share(share: tuple[int, int] | None) -> tuple[int, int]:
    """The part of the study that this process runs."""
    if share is None:
        return jax.process_index(), jax.process_count()
    if jax.process_count() > 1:
        raise ValueError("share must be None under jax.distributed, which divides the study itself")
    try:
        index, count = (operator.index(value) for value in share)
    except (TypeError, ValueError):
        index, count = 0, 0
    if not 0 <= index < count:
        raise ValueError(f"share must be (index, count) with 0 <= index < count, got {share!r}")
    return index, count


def check_function(name: str, function: Any) -> None:
    """A callable that can be hashed, as the cache of compiled programs requires."""
    if not callable(function):
        raise TypeError(f"{name} must be a function, got {type(function).__name__}")
    try:
        hash(function)
    except TypeError:
        raise TypeError(
            f"{name} must be hashable, got {type(function).__name__}; wrap it in a function"
        ) from None


def check_out_dir(out_dir: Any, resume: bool) -> None:
    """Resuming needs a folder to resume from."""
    if resume and out_dir is None:
        raise ValueError("resume=True needs out_dir, the folder to continue from")
