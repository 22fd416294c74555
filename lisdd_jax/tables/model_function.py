"""A fitted model as a function of columns that JAX can trace."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax.results import in_interval
from lisdd_jax.tables.model import Model, WeightedTerm, check_defined


def as_function(model: Model) -> Callable[[Mapping[str, Any]], jax.Array]:
    """The corrected model as a pure function.

    Args:
      model: fitted.

    Returns:
      A function from columns by name, each ``(n,)`` or ``()`` and all of one type, to the
      prediction of that shape: NaN where a column is. It is traceable, and differentiable in the
      columns but for the ends of the regions. Dates are days since 1970-01-01 UTC; a column of
      text must be concrete.

    Raises:
      ProblemError: the model has no coefficients.
    """
    check_defined(model)

    def predict_columns(columns: Mapping[str, Any]) -> jax.Array:
        axis = jnp.asarray(model.axis.evaluate(columns))
        predicted = _sum(model.physics, columns, axis)
        for part in model.corrections:
            ends = (part.lower, part.upper, math.isinf(part.lower), math.isinf(part.upper))
            inside = in_interval(axis, *ends)
            correction = _sum(part.terms, columns, axis)
            predicted = predicted + jnp.where(inside, correction, 0.0)
        return jnp.where(jnp.isnan(axis), jnp.nan, predicted)

    return predict_columns


def _sum(
    weighted: Sequence[WeightedTerm], columns: Mapping[str, Any], like: jax.Array
) -> jax.Array:
    total = jnp.zeros_like(like)
    for item in weighted:
        total = total + item.coefficient * jnp.asarray(item.term.evaluate(columns), like.dtype)
    return total
