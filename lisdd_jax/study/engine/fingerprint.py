"""A fingerprint of a traced computation: equal exactly where the same operations are done.

It is a hash of the lowered module, which has every operation and constant but no address, line
number or column width of the session that made it. Python code behind a callback is no part of that
module; it is hashed by ``host_code``.
"""

import hashlib
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from lisdd_jax.study.engine.host_code import host_code_hash
from lisdd_jax.study.engine.replication import Replication, argument_shapes


def fingerprint(
    replication: Replication, key_dtype: Any, dtypes: Mapping[str, Any], platform: str
) -> str:
    """Text that changes with any operation, constant or callback of a replication.

    Args:
      replication: what is computed.
      key_dtype: dtype of the key.
      dtypes: dtype of every traced parameter.
      platform: what to lower for, such as ``"cpu"``.

    Returns:
      Sixteen hexadecimal digits.
    """
    closed, _ = replication.trace(key_dtype, dtypes)
    # Lowering takes seconds, and a study that goes on has the trace of the one before.
    known = _hashes.setdefault(closed.jaxpr, {})
    if platform not in known:
        leaves = jax.tree.leaves(argument_shapes(key_dtype, dtypes))
        known[platform] = _hash_of_module(closed, leaves, platform)
    digest = known[platform].copy()
    # JAX may pass constants to the module instead of writing them into it.
    for constant in _constants(closed):
        digest.update(_bytes(constant))
    for callback in _callbacks(closed.jaxpr):
        digest.update(host_code_hash(callback).encode())
    return digest.hexdigest()[:16]


_hashes: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""By the trace of a replication, as long as there is one, and platform."""


def _hash_of_module(closed: Any, leaves: list[Any], platform: str) -> Any:
    """The hash object of the lowered module of a trace."""
    function = jax.jit(jax.extend.core.jaxpr_as_fun(closed))
    module = function.trace(*leaves).lower(lowering_platforms=(platform,)).as_text()
    digest = hashlib.sha256()
    for line in module.splitlines():
        # A mesh names the device that a callback runs on, which is another on every process.
        if not line.lstrip().startswith("sdy.mesh"):
            digest.update(line.encode())
    return digest


def _bytes(constant: Any) -> bytes:
    if jnp.issubdtype(constant.dtype, jax.dtypes.prng_key):
        constant = jax.random.key_data(constant)
    array = np.asarray(constant)
    return f"{array.dtype}{array.shape}".encode() + array.tobytes()


def _constants(closed: Any) -> Iterator[Any]:
    """Arrays that a closed jaxpr and those inside it hold, as constants or as literals."""
    yield from (value for value in closed.consts if hasattr(value, "dtype"))
    for equation in closed.jaxpr.eqns:
        for variable in equation.invars:
            if isinstance(variable, jax.extend.core.Literal) and np.ndim(variable.val):
                yield variable.val
        for inner in _inner_jaxprs(equation):
            yield from _constants(inner)


def _callbacks(jaxpr: Any) -> Iterator[Any]:
    """Host functions that a jaxpr and those inside it call."""
    for equation in jaxpr.eqns:
        if "callback" in equation.params:
            yield equation.params["callback"]
        for inner in _inner_jaxprs(equation):
            yield from _callbacks(inner.jaxpr)


def _inner_jaxprs(equation: Any) -> Iterator[Any]:
    closed = jax.extend.core.ClosedJaxpr
    kinds = (closed, jax.extend.core.Jaxpr)
    parameters = list(equation.params.values())
    for leaf in jax.tree.leaves(parameters, is_leaf=lambda value: isinstance(value, kinds)):
        if isinstance(leaf, kinds):
            yield leaf if isinstance(leaf, closed) else closed(leaf, ())
