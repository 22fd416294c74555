"""One replication: its keys, its metrics, and a fingerprint of the program that computes it."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

STATUS = "status"


@dataclass(frozen=True)
class Replication:
    """The user's two functions with the static parameters of a group of cells.

    Attributes:
      simulate: ``simulate(key, **params) -> data``.
      evaluate: ``evaluate(data, key, **params) -> dict of scalars``.
      static: static parameters as ``(name, value)`` pairs.
      types: types of their values, which keep 1 and True apart in the caches of programs.
    """

    simulate: Callable[..., Any]
    evaluate: Callable[..., Any]
    static: tuple[tuple[str, Any], ...] = ()
    types: tuple[type, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Derive the types."""
        object.__setattr__(self, "types", tuple(type(value) for _, value in self.static))


def replication_keys(
    key: jax.Array, cell: int | jax.Array, replication: int | jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Keys that ``simulate`` and ``evaluate`` receive in one replication.

    ``simulate_key, evaluate_key = split(fold_in(fold_in(key, cell), replication))``

    Use it to repeat a single replication outside the study; the numbers are equal to rounding,
    since a study is compiled for throughput.

    Args:
      key: the key of the study.
      cell: number of the cell in the grid.
      replication: number of the replication in the cell.

    Returns:
      The two keys.

    Example:
      >>> key = jax.random.key(0)
      >>> simulate_key, evaluate_key = replication_keys(key, cell=3, replication=17)
    """
    of_cell = jax.random.fold_in(key, cell)
    simulate_key, evaluate_key = jax.random.split(jax.random.fold_in(of_cell, replication))
    return simulate_key, evaluate_key


@partial(jax.jit, static_argnums=0)
def replicate(
    program: Replication,
    key: jax.Array,
    cell: jax.Array,
    replication: jax.Array,
    params: Mapping[str, jax.Array],
) -> dict[str, jax.Array]:
    """Metrics of one replication (traced).

    Raises:
      ValueError: ``evaluate`` returns something else than a dict of real scalars.
    """
    simulate_key, evaluate_key = replication_keys(key, cell, replication)
    every = {**params, **dict(program.static)}
    data = program.simulate(simulate_key, **every)
    return _checked(program.evaluate(data, evaluate_key, **every))


def _checked(metrics: Any) -> dict[str, jax.Array]:
    if not isinstance(metrics, dict) or not metrics:
        raise ValueError(
            f"evaluate must return a non-empty dict of scalars, got {type(metrics).__name__}"
            f" {metrics if not isinstance(metrics, dict) else ''}".rstrip()
        )
    checked = {}
    for name, value in metrics.items():
        if not isinstance(name, str):
            raise ValueError(f"evaluate must name its metrics by strings, got {name!r}")
        try:
            array = jnp.asarray(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"evaluate must return scalars, got {type(value).__name__} for {name!r}"
            ) from None
        if array.shape != ():
            raise ValueError(f"evaluate must return scalars, got shape {array.shape} for {name!r}")
        checked[name] = _as_number(name, array)
    return checked


def _as_number(name: str, array: jax.Array) -> jax.Array:
    if name == STATUS:
        if not jnp.issubdtype(array.dtype, jnp.integer):
            raise ValueError(f"metric 'status' must be an integer code, got dtype {array.dtype}")
        return array.astype(jnp.int32)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array.astype(jnp.float32) if array.dtype.itemsize < 4 else array
    if jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool:
        return array
    raise ValueError(f"metric {name!r} must be a real number, got dtype {array.dtype}")


def trace(
    program: Replication, key_dtype: Any, dtypes: Mapping[str, Any]
) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
    """Trace one replication; the second time the same trace is found in a cache.

    Args:
      program: what to trace.
      key_dtype: dtype of the key.
      dtypes: dtype of every traced parameter.

    Returns:
      The closed jaxpr of ``replicate`` and the metrics' shapes.
    """
    index = jax.ShapeDtypeStruct((), jnp.uint32)
    params = {name: jax.ShapeDtypeStruct((), dtype) for name, dtype in dtypes.items()}
    make = jax.make_jaxpr(partial(replicate, program), return_shape=True)
    return make(jax.ShapeDtypeStruct((), key_dtype), index, index, params)


def fingerprint(closed: Any) -> str:
    """Text that changes with any operation or constant of a closed jaxpr."""
    digest = hashlib.sha256()
    # Addresses of Python objects, as in the rules of custom derivatives, differ between runs.
    digest.update(re.sub(r"0x[0-9a-f]+", "", str(closed)).encode())
    for constant in _constants(closed.jaxpr, closed.consts):
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()[:16]


def _constants(jaxpr: Any, constants: Any = ()) -> Iterator[Any]:
    """Arrays held by a jaxpr and those inside it; the printed form omits their values."""
    yield from (c for c in constants if isinstance(c, (np.ndarray, np.generic, jax.Array)))
    for equation in jaxpr.eqns:
        parameters = list(equation.params.values())
        for leaf in jax.tree.leaves(parameters, is_leaf=_is_jaxpr):
            if _is_jaxpr(leaf):
                yield from _constants(getattr(leaf, "jaxpr", leaf), getattr(leaf, "consts", ()))


def _is_jaxpr(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")
