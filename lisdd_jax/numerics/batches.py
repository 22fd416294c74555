"""The same computation for several inputs of one shape."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def each(function: Callable[[Any], Any], inputs: Sequence[Any]) -> list[Any]:
    """``[function(part) for part in inputs]`` as one batch: compiled once, and run at once.

    Small computations cost as much by their number as by their size.

    Args:
      function: traced function of one pytree.
      inputs: pytrees of one structure and shape.

    Returns:
      A list of results.
    """
    if len(inputs) <= 1:
        return [function(part) for part in inputs]
    found = jax.vmap(function)(jax.tree.map(lambda *parts: jnp.stack(parts), *inputs))
    return [jax.tree.map(lambda part, i=i: part[i], found) for i in range(len(inputs))]
