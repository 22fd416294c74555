"""Programs compiled as fits their use: quickly for one answer, with full optimisation for many.

Compiling takes most of the time of a first answer, and its result runs once. Where values are known
and arrays are small, programs are therefore compiled without the optimisations that cost the
compiler more than they save such a run. Under a user's own trace nothing is chosen here: the outer
program is compiled as its owner says.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import jax

from lisdd_jax.numerics.hosted import is_known

P = ParamSpec("P")
T = TypeVar("T")

MOST_ROWS_QUICK = 1 << 17
"""Longest axis of arguments with which a program is compiled quickly: with more, a run that is a
few times as slow costs about what compiling in full does."""

_QUICK_ON_CPU: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    # The older way to compile loops takes half the time.
    "xla_cpu_use_fusion_emitters": False,
}


@functools.cache
def quick_options() -> dict[str, Any]:
    """Compiler options of a program that runs once; those that this release of XLA knows."""
    if jax.default_backend() != "cpu":
        return {}

    def are_accepted(options: dict[str, Any]) -> bool:
        try:
            jax.jit(lambda: 0, compiler_options=options).lower().compile()
        except (RuntimeError, ValueError):
            return False
        return True

    if are_accepted(_QUICK_ON_CPU):
        return _QUICK_ON_CPU
    return {name: value for name, value in _QUICK_ON_CPU.items() if are_accepted({name: value})}


def is_quick(arguments: Any) -> bool:
    """Whether a program of these arguments is to be compiled quickly."""
    leaves = jax.tree.leaves(arguments)
    longest = max((max(getattr(leaf, "shape", ()), default=0) for leaf in leaves), default=0)
    return is_known(leaves) and longest <= MOST_ROWS_QUICK


class Store(Protocol):
    """Where compiled programs are kept between processes."""

    def fetch(self, description: str, lower: Callable[[], Any]) -> Callable[..., Any]:
        """The program of a description; ``lower()`` where it has to be compiled."""
        ...


_stores: list[Store] = []


def keep_programs(store: Store | None) -> None:
    """Keep programs that are compiled quickly in a store from now on; None for no longer."""
    _stores[:] = [] if store is None else [store]


def _describe(function: Callable[..., Any], arguments: Any, options: dict[str, Any]) -> str:
    """What a program depends on: its function, and types and shapes of its arguments."""
    leaves, tree = jax.tree.flatten(arguments)
    types = [(str(jax.typeof(leaf)), getattr(leaf, "weak_type", False)) for leaf in leaves]
    return f"{function.__module__}.{function.__qualname__} {tree} {types} {options}"


@overload
def compiled(function: Callable[P, T]) -> Callable[P, T]: ...
@overload
def compiled(*, static_argnames: Sequence[str]) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def compiled(function: Any = None, *, static_argnames: Sequence[str] = ()) -> Any:
    """``jax.jit`` that compiles quickly where values are known and few.

    Args:
      function: to be compiled.
      static_argnames: as for ``jax.jit``.
    """
    if function is None:
        return functools.partial(compiled, static_argnames=static_argnames)
    in_full = jax.jit(function, static_argnames=static_argnames)

    @functools.cache
    def quickly() -> Any:
        # Made on the first call, since asking for the device on import would settle it.
        options = quick_options()
        if not options:
            return in_full
        return jax.jit(function, static_argnames=static_argnames, compiler_options=options)

    names = list(inspect.signature(function).parameters)

    def from_store(store: Store, args: Any, kwargs: Any) -> Any:
        program = quickly()
        # Positions beyond the names belong to ``*args``. A program takes no static arguments.
        named = {names[i] if i < len(names) else str(i): arg for i, arg in enumerate(args)}
        fixed = {k: v for k, v in (named | kwargs).items() if k in static_argnames}
        taken = [arg for name, arg in named.items() if name not in static_argnames]
        moving = {name: arg for name, arg in kwargs.items() if name not in static_argnames}
        described = _describe(function, (taken, moving), {"static": fixed, **quick_options()})
        fetched = store.fetch(described, lambda: program.lower(*args, **kwargs))
        return fetched(*taken, **moving)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_quick((args, kwargs)):
            return in_full(*args, **kwargs)
        if _stores:
            return from_store(_stores[0], args, kwargs)
        return quickly()(*args, **kwargs)

    return call
