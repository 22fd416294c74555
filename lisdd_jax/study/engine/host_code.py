"""A hash of the Python code behind a callback, as far as it can be seen from the function.

Covered are the function's byte code, defaults, the values that it closes over, and the functions
and plain values of its own module that it names. Not covered is what it reads from other modules,
from objects with a state of their own, from files, or from the clock.
"""

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def host_code_hash(function: Any) -> str:
    """Text that changes with the code of a host function.

    Args:
      function: any callable.

    Returns:
      A hexadecimal hash; byte code differs between versions of Python, and so does this.
    """
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for part in _describe(function, {}):
        digest.update(part + b"\0")
    return digest.hexdigest()


def _describe(value: Any, seen: dict[int, Any]) -> Iterator[bytes]:
    """What there is to tell of a value, piece by piece; each function is told once."""
    if isinstance(value, _PLAIN):
        yield repr(value).encode()
    elif isinstance(value, np.ndarray | np.generic):
        yield f"{value.dtype}{value.shape}".encode() + np.asarray(value).tobytes()
    elif isinstance(value, jax.Array):
        keys = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
        yield from _describe(np.asarray(jax.random.key_data(value) if keys else value), seen)
    elif id(value) in seen:
        yield b"again"
    else:
        # Held until the end, so that no other value gets the same number.
        seen[id(value)] = value
        yield f"{type(value).__module__}.{type(value).__qualname__}".encode()
        yield from _describe_parts(value, seen)


def _describe_parts(value: Any, seen: dict[int, Any]) -> Iterator[bytes]:
    if isinstance(value, types.FunctionType):
        yield value.__qualname__.encode()
        yield from _describe_code(value.__code__, seen)
        parts = [value.__defaults__, value.__kwdefaults__, *_closure(value), *_own_globals(value)]
    elif isinstance(value, types.MethodType):
        parts = [value.__func__, value.__self__]
    elif isinstance(value, functools.partial):
        parts = [value.func, value.args, value.keywords]
    elif isinstance(value, Mapping):
        parts = [part for item in value.items() for part in item]
    elif isinstance(value, tuple | list):
        parts = list(value)
    elif isinstance(value, set | frozenset):
        # Their own order differs from run to run.
        parts = sorted(value, key=repr)
    elif isinstance(value, types.ModuleType | types.BuiltinFunctionType | type):
        yield value.__name__.encode()
        parts = []
    else:
        # A callable object: its class's code, and its fields.
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        slots = {n: getattr(value, n, None) for n in names if n != "__weakref__"}
        called = inspect.getattr_static(type(value), "__call__", None)
        parts = [called, getattr(value, "__dict__", slots)]
    for part in parts:
        yield from _describe(part, seen)


def _describe_code(code: types.CodeType, seen: dict[int, Any]) -> Iterator[bytes]:
    """Byte code, names and constants; not the file and the lines that it stands in."""
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _describe_code(constant, seen)
        else:
            yield from _describe(constant, seen)


def _closure(function: types.FunctionType) -> list[Any]:
    values = []
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            values.append(None)
    return values


def _own_globals(function: types.FunctionType) -> list[Any]:
    """Values of the function's module that it names: its own functions, and plain data."""
    found = []
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        own = isinstance(value, types.FunctionType) and value.__module__ == function.__module__
        if own or isinstance(value, (*_PLAIN, np.ndarray, jax.Array, tuple, list)):
            found.append(value)
    return found


def _names(code: types.CodeType) -> list[str]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return sorted({*code.co_names, *(name for part in inner for name in _names(part))})
