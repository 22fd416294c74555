"""Settings of a diagnosis, as a pytree: algorithm choices are static, numbers are traced."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from jax.tree_util import register_dataclass


def _static(default: Any) -> Any:
    return field(default=default, metadata={"static": True})


@register_dataclass
@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of ``diagnose``.

    Numbers are traced: changing one does not recompile. The rest is static.

    Attributes:
      trim: share of rows left out by the least-trimmed-squares start, in [0, 0.5].
      alpha_cell: level of the test of one cell.
      tolerance: relative excess of holdout error within which a smaller support wins.
      alpha: level of the certificate.
      num_cells: cells of the axis when no edges are given (static).
      max_terms: largest support (static).
      max_iterations: limit of the clean-regime iteration (static).
      num_starts: random starts of the trimmed fit (static).
    """

    trim: Any = 0.36
    alpha_cell: Any = 1e-3
    tolerance: Any = 0.15
    alpha: Any = 0.05
    num_cells: int = _static(14)
    max_terms: int = _static(2)
    max_iterations: int = _static(4)
    num_starts: int = _static(100)

    def __post_init__(self) -> None:
        """Check the static fields; traced numbers are checked at the public boundary."""
        smallest = {"num_cells": 2, "max_terms": 1, "max_iterations": 1, "num_starts": 1}
        for name, least in smallest.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")

    @classmethod
    def paper(cls, **changes: Any) -> "Config":
        """The published algorithm with its settings; ``changes`` replace single fields."""
        return dataclasses.replace(cls(), **changes)
