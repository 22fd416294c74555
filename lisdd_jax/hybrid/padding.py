"""Rows out of use, kept away from functions of the user's."""

from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax import validation


def in_use(inputs: Any, mask: Any) -> tuple[Any, jax.Array | None]:
    """Inputs whose rows out of use hold a row in use, at which the user's functions are defined.

    A NaN there would come back as a NaN derivative, however the result is masked.

    Args:
      inputs: a pytree; its arrays with as many rows as the mask are filled.
      mask: ``(n,)`` bool, or None for all rows.

    Returns:
      The inputs, and the mask as an array or None.
    """
    if mask is None:
        return inputs, None
    mask = jnp.asarray(mask)
    mask = validation.mask_array(mask, mask.shape[0] if mask.ndim else 0)
    first, some = jnp.argmax(mask), jnp.any(mask)

    def fill(leaf: Any) -> Any:
        if jnp.shape(leaf)[:1] != mask.shape:
            return leaf
        leaf = jnp.asarray(leaf)
        used = mask.reshape(-1, *[1] * (leaf.ndim - 1))
        sample = jnp.where(some, leaf[first], jnp.zeros_like(leaf[first]))
        return jnp.where(used, leaf, sample[None])

    return jax.tree.map(fill, inputs), mask
