"""Settings of a diagnosis, as a pytree: algorithm choices are static, numbers are traced."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax import validation

METHODS = ("calibrated", "published")

_SMALLEST = {
    "num_cells": 2,
    "max_terms": 1,
    "max_regions": 1,
    "window": 1,
    "reach": 0,
    "num_blocks": 4,
    "num_splits": 1,
    "max_iterations": 1,
    "num_starts": 1,
}
_LARGEST = {
    "alpha_cell": 1.0,
    "alpha": 1.0,
    "tolerance": math.inf,
    "trim": 0.5,
    "negligible": math.inf,
    "alpha_search": 1.0,
    "alpha_fit": 1.0,
    "alpha_doubt": 1.0,
    "alpha_back": 1.0,
    "alpha_differ": 1.0,
    "alpha_elsewhere": 1.0,
    "doubt": math.inf,
    "least_share": 1.0,
    "ambiguity": math.inf,
    "ambiguity_overlap": math.inf,
    "separation": math.inf,
}


def _static(default: Any) -> Any:
    return field(default=default, metadata={"static": True})


@register_dataclass
@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of ``diagnose``.

    Numbers are traced: changing one does not recompile. The rest is static.

    Attributes:
      alpha_cell: level of the test of one cell. In the calibrated method two neighbours below 0.01
        are flagged as well.
      alpha: level of the certificate.
      tolerance: relative excess of holdout error within which a smaller support wins.
      trim: share of rows left out by the least-trimmed-squares start, in [0, 0.5] (published).
      negligible: mean discrepancy, in units of the response, that is too small to matter: cells are
        not flagged for less, and less is not certified (calibrated).
      alpha_search: level at which the search for the clean regime drops a group of cells.
      alpha_fit: level of the lack-of-fit test of the clean regime.
      alpha_doubt: the same where cells are flagged and split A shows other terms.
      alpha_back: lack-of-fit level above which rows that refined edges free serve the physics.
      alpha_differ: level at which a rival regime counts as another law.
      alpha_elsewhere: level at which the clean rows contradict that missing terms act there too.
      doubt: share of a regime's rows discounted per standard deviation of lack of fit, when
        regimes are compared.
      least_share: share of the rows below which a regime is none.
      ambiguity: rows of a rival regime over those of the clean one from which the two are even.
      ambiguity_overlap: the same for a rival that shares rows with the clean regime.
      separation: standard errors of held-out gain from which regions keep terms of their own.
      method: ``"calibrated"``, or ``"published"`` for the algorithm as printed (static).
      num_cells: cells of the axis when no edges are given (static).
      max_terms: largest support (static).
      max_regions: most regions reported (static, calibrated).
      window: the search starts from every window of so many adjacent groups (static, calibrated).
      reach: groups beyond a flagged run that its edges may enter (static, calibrated).
      num_blocks: blocks of rows at which edges are first placed (static, calibrated).
      num_splits: random splits whose certificates are combined (static, calibrated).
      max_iterations: limit of the clean-regime iteration (static, published).
      num_starts: random starts of the trimmed fit (static, published).
    """

    alpha_cell: Any = 1e-3
    alpha: Any = 0.05
    tolerance: Any = 0.15
    trim: Any = 0.36
    negligible: Any = 0.0
    alpha_search: Any = 0.01
    alpha_fit: Any = 5e-3
    alpha_doubt: Any = 0.01
    alpha_back: Any = 0.05
    alpha_differ: Any = 1e-3
    alpha_elsewhere: Any = 0.05
    doubt: Any = 0.15
    least_share: Any = 0.1
    ambiguity: Any = 0.75
    ambiguity_overlap: Any = 0.95
    separation: Any = 2.0
    method: str = _static("calibrated")
    num_cells: int = _static(14)
    max_terms: int = _static(2)
    max_regions: int = _static(4)
    window: int = _static(4)
    reach: int = _static(2)
    num_blocks: int = _static(128)
    num_splits: int = _static(1)
    max_iterations: int = _static(4)
    num_starts: int = _static(100)

    def __post_init__(self) -> None:
        """Check the static fields; traced numbers are checked at the public boundary."""
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")
        for name, least in _SMALLEST.items():
            validation.check_count(name, getattr(self, name), least)

    def checked(self, dtype: Any) -> "Config":
        """The same settings as arrays of one type, so that no kind of number compiles again.

        Raises:
          ValueError: a number is out of its range, or not a single one.
        """
        for name, high in _LARGEST.items():
            validation.check_number(f"config.{name}", getattr(self, name), 0.0, high)
        return jax.tree.map(lambda number: jnp.asarray(number, dtype), self)

    @classmethod
    def paper(cls, **changes: Any) -> "Config":
        """The published algorithm with its settings; ``changes`` replace single fields."""
        return dataclasses.replace(cls(method="published"), **changes)
