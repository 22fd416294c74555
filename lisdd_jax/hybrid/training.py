"""Training by any optimiser of Optax."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.status import Status, status_if


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """Parameters after training.

    Attributes:
      parameters: in the structure of the initial ones.
      losses: ``(num_steps,)`` before every step.
      status: int32; ``DIVERGED`` where a loss or a parameter is not finite.
    """

    parameters: Any
    losses: jax.Array
    status: jax.Array


def train(
    loss: Callable[..., jax.Array],
    parameters: Any,
    *data: Any,
    optimizer: optax.GradientTransformation,
    num_steps: int,
) -> Trained:
    """Minimise a loss by so many steps of an optimiser, in one compiled loop.

    Args:
      loss: ``loss(parameters, *data)``, a scalar. Pass the same function and optimiser again and
        nothing is recompiled.
      parameters: a pytree of floating-point arrays, such as ``layer.Parameters``.
      *data: whatever the loss takes besides, pytrees of arrays.
      optimizer: of Optax.
      num_steps: steps (static).

    Returns:
      A ``Trained``.

    Raises:
      ValueError: ``num_steps`` is not a positive integer.

    Example:
      >>> import jax.numpy as jnp, optax
      >>> found = train(lambda x: jnp.sum((x - 1) ** 2), jnp.zeros(2),
      ...               optimizer=optax.sgd(0.25), num_steps=30)
      >>> [round(float(x), 4) for x in found.parameters]
      [1.0, 1.0]
    """
    validation.check_count("num_steps", num_steps, 1)
    parameters = jax.tree.map(partial(validation.float_array, "parameters"), parameters)
    return _train(loss, optimizer, num_steps, parameters, data)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _train(
    loss: Callable[..., jax.Array],
    optimizer: optax.GradientTransformation,
    num_steps: int,
    parameters: Any,
    data: tuple[Any, ...],
) -> Trained:
    def step(state: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], jax.Array]:
        parameters, memory = state
        value, gradient = jax.value_and_grad(loss)(parameters, *data)
        # Optax is not written for strict promotion.
        with jax.numpy_dtype_promotion("standard"):
            update, memory = optimizer.update(gradient, memory, parameters)
            parameters = optax.apply_updates(parameters, update)
        return (parameters, memory), value

    start = (parameters, optimizer.init(parameters))
    (trained, _), losses = lax.scan(step, start, None, length=num_steps)
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in [losses, *jax.tree.leaves(trained)]]
    sound = jnp.all(jnp.stack(leaves))
    return Trained(parameters=trained, losses=losses, status=status_if(~sound, Status.DIVERGED))
