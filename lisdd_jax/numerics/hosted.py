"""One source for small work: at once on the host where values are known, traced where they are not.

What is compiled costs seconds once, and what runs on some tens of numbers costs next to nothing
anywhere. Small work is therefore written over an array namespace, NumPy's or JAX's, by the kind of
its arrays: a single diagnosis runs it in NumPy and compiles only its passes over rows, a batch or a
trace runs the same lines in JAX.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

State = TypeVar("State")


def namespace(*arrays: Any) -> Any:
    """``numpy`` where all arrays are of NumPy, else ``jax.numpy``."""
    return np if all(isinstance(array, np.ndarray | np.generic) for array in arrays) else jnp


def is_known(tree: Any) -> bool:
    """Whether no leaf is a tracer."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def to_host(tree: Any) -> Any:
    """The tree in NumPy where its values are known, as it is under a trace."""
    return jax.tree.map(np.asarray, tree) if is_known(tree) else tree


def held(tree: Any) -> Any:
    """The tree without derivatives; known values have none."""
    return tree if namespace(*jax.tree.leaves(tree)) is np else lax.stop_gradient(tree)


def repeat(num: int, step: Callable[[Any, State], State], state: State) -> State:
    """``state = step(k, state)`` for ``k = 0 .. num - 1``."""
    if namespace(jax.tree.leaves(state)[0]) is jnp:
        return lax.fori_loop(np.int32(0), np.int32(num), step, state, unroll=unroll(num))
    for k in range(num):
        state = step(k, state)
    return state


def scan(
    step: Callable[[State, Any], tuple[State, Any]], state: State, num: int
) -> tuple[State, Any]:
    """``state, found = step(state, k)`` for ``k = 0 .. num - 1``: the last state, and all found.

    Args:
      step: what it finds is one array.
      state: to begin with; its first leaf tells the namespace.
      num: at least 1 (static).

    Returns:
      The state, and what was found, ``(num, ...)``.
    """
    if namespace(jax.tree.leaves(state)[0]) is jnp:
        return lax.scan(step, state, jnp.arange(num, dtype=jnp.int32), unroll=unroll(num))
    found = []
    for k in range(num):
        state, one = step(state, k)
        found.append(one)
    return state, np.stack(found)


def traced_once(work: Callable[..., State], *arguments: Any) -> tuple[Callable[..., State], State]:
    """Work for arguments of these shapes, traced here and nowhere else, and its result in zeros.

    A loop that holds the result of its work has to begin with one: asked for its shapes by
    ``jax.eval_shape``, the work would be traced a second time.
    """
    closed, shapes = jax.make_jaxpr(work, return_shape=True)(*arguments)
    tree = jax.tree.structure(shapes)

    def traced(*arguments: Any) -> State:
        leaves = jax.tree.leaves(arguments)
        return jax.tree.unflatten(tree, jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *leaves))

    return traced, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


_LARGEST_UNROLLED = 3


def unroll(num: int) -> int:
    """Unrolled loops run faster, long ones compile slowly."""
    return num if 0 < num <= _LARGEST_UNROLLED else 1


def take(values: Any, position: Any, axis: int) -> Any:
    """One position of an axis."""
    if namespace(values) is np or isinstance(position, int):
        return values.take(position, axis)
    # Of a position in range this is one operation, and indexing a dozen.
    return lax.dynamic_index_in_dim(values, position, axis, keepdims=False)


def contract(subscripts: str, *arrays: Any) -> Any:
    """``einsum`` of few numbers.

    Traced it is products and one sum: a matrix product of a few numbers runs no faster, and is a
    kernel of its own, which takes the compiler as long as several of the others.
    """
    if namespace(*arrays) is np:
        return np.einsum(subscripts, *arrays)
    inputs, output = subscripts.split("->")
    letters = output + "".join(sorted(set(inputs) - set(output) - {","}))

    def spread(names: str, array: Any) -> Any:
        axes = sorted(range(len(names)), key=lambda axis: letters.index(names[axis]))
        sizes = dict(zip(names, array.shape, strict=True))
        return jnp.transpose(array, axes).reshape([sizes.get(name, 1) for name in letters])

    terms = map(spread, inputs.split(","), arrays)
    summed = tuple(range(len(output), len(letters)))
    return jnp.sum(functools.reduce(operator.mul, terms), axis=summed)


def running_sums(values: Any) -> Any:
    """Sums of the first ``0 .. K`` of few finite values, the last axis from ``K`` to ``K + 1``.

    Traced they are a matrix product, one kernel; the logarithmic scheme of JAX needs eight.
    """
    num = values.shape[-1]
    if namespace(values) is np:
        return np.cumsum(np.concatenate([np.zeros_like(values[..., :1]), values], -1), -1)
    counted = np.triu(np.ones((num, num + 1)), 1)
    return jnp.matmul(values, jnp.asarray(counted, values.dtype), precision="highest")


def choose(condition: Any, when_true: Any, when_false: Any) -> Any:
    """Leaf by leaf one of two trees by a scalar condition."""
    xp = namespace(condition)
    return jax.tree.map(lambda a, b: xp.where(condition, a, b), when_true, when_false)


def only_if(condition: Any, work: Callable[[State], State], state: State) -> State:
    """``work(state)`` where a scalar condition holds, else ``state``."""
    if isinstance(condition, np.ndarray | np.generic):
        return work(state) if condition else state
    return lax.cond(condition, work, lambda same: same, state)


def safe_root(values: Any) -> Any:
    """Square roots, 0 of what is not positive, with derivative 0 there."""
    xp = namespace(values)
    positive = values > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, values, 1.0)), 0.0)


def log_ndtr(values: Any) -> Any:
    """Log of the normal distribution function."""
    if isinstance(values, np.ndarray | np.generic):
        return special_functions().log_ndtr(values)
    return jax.scipy.special.log_ndtr(values)


def special_functions() -> Any:
    """``scipy.special``, whose import takes its quarter of a second while programs are made."""
    from scipy import special

    return special
