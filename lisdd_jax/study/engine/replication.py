"""One replication: its keys and its metrics, and the compiled programs that belong to it."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import wraps
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp

STATUS = "status"

# Programs of so many replications outlive their study: the functions of one study are often those
# of the next. Each holds about as much memory as JAX itself.
_NUM_KEPT = 2
_kept: OrderedDict[tuple[Any, ...], "Replication"] = OrderedDict()
_lock = Lock()


class Replication:
    """The user's two functions with the static parameters of a group of cells.

    What JAX traces and compiles for it is held by this object alone, and goes with it.

    Attributes:
      simulate: ``simulate(key, **params) -> data``.
      evaluate: ``evaluate(data, key, **params) -> dict of scalars``.
      static: static parameters as ``(name, value)`` pairs.
    """

    def __init__(
        self,
        simulate: Callable[..., Any],
        evaluate: Callable[..., Any],
        static: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        """Nothing is traced yet."""
        self.simulate = simulate
        self.evaluate = evaluate
        self.static = static
        self._compiled: dict[Callable[..., Any], Any] = {}

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        """``jax.jit`` of ``function(self, ...)``, the same one for the same function."""
        if function not in self._compiled:

            @wraps(function)
            def bound(*args: Any, **kwargs: Any) -> Any:
                return function(self, *args, **kwargs)

            # JAX keeps what it compiles as long as it sees the function that it was given.
            self._compiled[function] = jax.jit(bound, **options)
        return self._compiled[function]

    def trace(
        self, key_dtype: Any, dtypes: Mapping[str, Any]
    ) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
        """Trace one replication; the second time the same trace is found in a cache.

        Args:
          key_dtype: dtype of the key.
          dtypes: dtype of every traced parameter.

        Returns:
          The closed jaxpr of ``replicate`` and the metrics' shapes.
        """
        specs = argument_shapes(key_dtype, dtypes)
        closed, shapes = jax.make_jaxpr(self.jit(replicate), return_shape=True)(*specs)
        return closed, shapes

    def release(self) -> None:
        """Let go of all that is compiled."""
        self._compiled.clear()


def find_replication(
    simulate: Callable[..., Any],
    evaluate: Callable[..., Any],
    static: tuple[tuple[str, Any], ...],
) -> Replication:
    """The replication of these functions that a recent study has left, or a new one."""
    with _lock:
        return _kept.get(_identity(simulate, evaluate, static)) or Replication(
            simulate, evaluate, static
        )


def keep_replication(replication: Replication) -> None:
    """Keep what is compiled for the next study, in the place of what was kept longest."""
    identity = _identity(replication.simulate, replication.evaluate, replication.static)
    with _lock:
        _kept[identity] = replication
        _kept.move_to_end(identity)
        while len(_kept) > _NUM_KEPT:
            _kept.popitem(last=False)[1].release()


def release_programs() -> None:
    """Let go of the compiled programs that recent studies have left for the next one.

    Example:
      >>> release_programs()
    """
    with _lock:
        while _kept:
            _kept.popitem()[1].release()


def _identity(*parts: Any) -> tuple[Any, ...]:
    simulate, evaluate, static = parts
    # The types keep 1 and True apart, which are equal.
    return simulate, evaluate, static, tuple(type(value) for _, value in static)


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


def argument_shapes(key_dtype: Any, dtypes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Shapes of the arguments of ``replicate`` after the replication."""
    index = jax.ShapeDtypeStruct((), jnp.uint32)
    params = {name: jax.ShapeDtypeStruct((), dtype) for name, dtype in dtypes.items()}
    return jax.ShapeDtypeStruct((), key_dtype), index, index, params


def replicate(
    program: Replication,
    key: jax.Array,
    cell: jax.Array,
    number: jax.Array,
    params: Mapping[str, jax.Array],
) -> dict[str, jax.Array]:
    """Metrics of replication ``number`` of a cell (traced).

    Raises:
      ValueError: ``evaluate`` returns something else than a dict of real scalars.
    """
    simulate_key, evaluate_key = replication_keys(key, cell, number)
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
        except OverflowError:
            raise ValueError(
                f"metric {name!r} must fit the integers that JAX is set to, got {value!r}"
            ) from None
        except (TypeError, ValueError):
            raise ValueError(
                f"evaluate must return scalars, got {type(value).__name__} for {name!r}"
            ) from None
        if array.shape != ():
            raise ValueError(f"evaluate must return scalars, got shape {array.shape} for {name!r}")
        checked[name] = _as_number(name, array)
    return checked


def _as_number(name: str, array: jax.Array) -> jax.Array:
    if jnp.issubdtype(array.dtype, jnp.integer):
        # Also a status keeps its width: cut to 32 bits, an unknown code could read as a known one.
        return array
    if name == STATUS:
        raise ValueError(f"metric 'status' must be an integer code, got dtype {array.dtype}")
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array.astype(jnp.float32) if array.dtype.itemsize < 4 else array
    if array.dtype == bool:
        return array
    raise ValueError(f"metric {name!r} must be a real number, got dtype {array.dtype}")
