"""The optional arrays of a problem as arguments of a diagnosis."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from lisdd_jax.tables.errors import ProblemError
from lisdd_jax.tables.problem import Problem

#: Arrays ``(n,)`` of a problem that may be absent; they are passed on under these names.
OPTIONAL = ("block", "time", "trusted", "noise_scale")


def optional_arguments(problem: Problem, diagnose: Callable[..., Any]) -> dict[str, np.ndarray]:
    """The optional arrays that a problem has, by the names of the arguments they are for.

    Args:
      problem: the arrays.
      diagnose: what is to take them; its signature says what it knows of.

    Returns:
      Arrays ``(n,)``.

    Raises:
      ProblemError: the problem says something that the diagnosis cannot take into account.
    """
    known = inspect.signature(diagnose).parameters
    given = {name: getattr(problem, name) for name in OPTIONAL}
    found = {name: values for name, values in given.items() if values is not None}
    unused = [name for name in found if name not in known]
    if unused:
        raise ProblemError(
            f"{' and '.join(unused)} cannot be taken into account by this version of the diagnosis;"
            " leave it out"
        )
    return found
