"""From a table to a diagnosis with names: one call, and one result to hold."""

from lisdd_jax.fitting.result import Result
from lisdd_jax.fitting.tabular import fit

__all__ = ["Result", "fit"]
