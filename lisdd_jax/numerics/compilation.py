"""Programs compiled as fits their use: quickly for one answer, with full optimisation for many.

Compiling takes most of the time of a first answer, and its result runs once. Where values are known
and arrays are small, programs are therefore compiled without the optimisations that cost the
compiler more than they save such a run. Under a user's own trace nothing is chosen here: the outer
program is compiled as its owner says.

XLA compiles without holding the interpreter. Where the shapes of a whole chain of programs are
known before the first runs, all are traced at once and compiled in the background
(``made_ahead``). That is a matter of time alone: a program whose shapes turn out otherwise, or that
could not be made, is compiled when it is called, and raises there what it has to raise.
"""

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

import jax

from lisdd_jax.numerics.background import current_background, shared_background
from lisdd_jax.numerics.hosted import is_known
from lisdd_jax.numerics.memory import return_free_memory

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
    # Several programs are compiled at once, so that parts of one need not be.
    "xla_cpu_parallel_codegen_split_count": 1,
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

    def load(self, description: str) -> None:
        """Have the program of a description at hand where it is kept."""
        ...

    def recall(self, task: str) -> list[str]:
        """Descriptions of the programs that a task took before; none where it is not known."""
        ...

    def note(self, task: str, descriptions: list[str]) -> None:
        """Note the programs that a task took."""
        ...

    def release(self) -> None:
        """Let go of the programs that are at hand; what is kept stays."""
        ...


_stores: list[Store] = []


def keep_programs(store: Store | None) -> None:
    """Keep programs that are compiled quickly in a store from now on; None for no longer."""
    _stores[:] = [] if store is None else [store]
    _tasks_begun.clear()


def describe_call(function: Callable[..., Any], arguments: Any, options: dict[str, Any]) -> str:
    """What a program depends on: its function, and types and shapes of its arguments.

    Args:
      function: of the program.
      arguments: its arguments, known or ``jax.ShapeDtypeStruct``.
      options: what else it depends on.
    """
    leaves, tree = jax.tree.flatten(arguments)
    types = [(str(kind), kind.weak_type) for kind in map(_type_of, leaves)]
    return f"{function.__module__}.{function.__qualname__} {tree} {types} {options}"


def _type_of(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.core.ShapedArray(leaf.shape, leaf.dtype, weak_type=bool(leaf.weak_type))
    return jax.typeof(leaf)


_tasks_begun: set[str] = set()
_functions: weakref.WeakSet["CompiledFunction[Any, Any]"] = weakref.WeakSet()

MOST_TASKS = 24
"""Tasks whose programs are held at the same time. Those of one diagnosis take some 75 MB and 1,200
mappings of memory, of which Linux gives a process 65,530 and ends it beyond."""


def _release_programs() -> None:
    """Let go of all compiled programs; those in use end their run."""
    _tasks_begun.clear()
    for function in list(_functions):
        function.release()
    for store in _stores:
        store.release()
    return_free_memory()


@contextlib.contextmanager
def made_ahead(task: str, plan: Callable[[], Any] | None = None) -> Iterator[None]:
    """Make the programs of the calls inside in the background, the first time in this process.

    A task inside another shares its background, so that what the outer one began is at hand.

    Args:
      task: a description of all the calls.
      plan: calls ``ahead`` of the programs; not needed where a store knows those of the task. None
        where only a store can know them.
    """
    if task in _tasks_begun:
        yield
        return
    if len(_tasks_begun) >= MOST_TASKS and current_background() is None:
        _release_programs()
    _tasks_begun.add(task)
    with shared_background() as background:
        num_taken = len(background.taken)
        known = [name for store in _stores for name in store.recall(task)]
        for name in known:
            background.begin(name, functools.partial(_stores[0].load, name))
        if not known and plan is not None:
            plan()
        yield
        taken = list(dict.fromkeys(background.taken[num_taken:]))
        if _stores and taken != known:
            _stores[0].note(task, taken)


def _compile_in_full(lowered: Any) -> None:
    """Compile for many rows, which may need the memory that the compiler has done with."""
    lowered.compile()
    return_free_memory()


class CompiledFunction(Generic[P, T]):
    """A function that is compiled quickly where values are known and few, and in full elsewhere."""

    def __init__(self, function: Callable[P, T], static_argnames: Sequence[str]) -> None:
        """Compile ``function`` with ``static_argnames`` as for ``jax.jit``."""
        functools.update_wrapper(self, function)
        self._function = function
        self._static = static_argnames
        self._names = list(inspect.signature(function).parameters)
        self._in_full: Any = jax.jit(function, static_argnames=static_argnames)
        _functions.add(self)

    @functools.cached_property
    def _quickly(self) -> Any:
        # Made on the first call, since asking for the device on import would settle it.
        options = quick_options()
        if not options:
            return self._in_full
        return jax.jit(
            self._function, static_argnames=self._static, compiler_options=quick_options()
        )

    def _split(self, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any], str]:
        """Arguments that are not static, by position and by name; what describes the program."""
        # Positions beyond the names belong to ``*args``. A program takes no static arguments.
        names = self._names
        named = {names[i] if i < len(names) else str(i): arg for i, arg in enumerate(args)}
        fixed = {k: v for k, v in (named | kwargs).items() if k in self._static}
        taken = [arg for name, arg in named.items() if name not in self._static]
        moving = {name: arg for name, arg in kwargs.items() if name not in self._static}
        settings = {"static": fixed, **quick_options()}
        return taken, moving, describe_call(self._function, (taken, moving), settings)

    def release(self) -> None:
        """Let go of the programs."""
        self._in_full.clear_cache()
        if "_quickly" in self.__dict__:
            self._quickly.clear_cache()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """The value of the function."""
        background = current_background()
        quick = is_quick((args, kwargs))
        if background is not None and is_known((args, kwargs)):
            if not quick:
                background.await_all()
            background.await_program(self._split(args, kwargs)[2])
        if not quick:
            return self._in_full(*args, **kwargs)
        if not _stores:
            return self._quickly(*args, **kwargs)
        taken, moving, described = self._split(args, kwargs)
        fetched = _stores[0].fetch(described, lambda: self._quickly.lower(*args, **kwargs))
        return fetched(*taken, **moving)

    def ahead(self, *args: Any, **kwargs: Any) -> Any:
        """Make the program of such arguments in the background of the task that goes on.

        Args:
          *args, **kwargs: as for a call, or ``jax.ShapeDtypeStruct`` in place of arrays.

        Returns:
          The shapes of the value.
        """
        background = current_background()
        quick = is_quick((args, kwargs))
        traced = (self._quickly if quick else self._in_full).trace(*args, **kwargs)
        if background is not None:
            described = self._split(args, kwargs)[2]
            lowered = traced.lower()
            work = lowered.compile if quick else functools.partial(_compile_in_full, lowered)
            if quick and _stores:
                work = functools.partial(_stores[0].fetch, described, lambda: lowered)
            background.begin(described, work)
        return traced.out_info


@overload
def compiled(function: Callable[P, T]) -> CompiledFunction[P, T]: ...
@overload
def compiled(
    *, static_argnames: Sequence[str]
) -> Callable[[Callable[P, T]], CompiledFunction[P, T]]: ...
def compiled(function: Any = None, *, static_argnames: Sequence[str] = ()) -> Any:
    """``jax.jit`` that compiles quickly where values are known and few.

    Args:
      function: to be compiled.
      static_argnames: as for ``jax.jit``.
    """
    if function is None:
        return functools.partial(compiled, static_argnames=static_argnames)
    return CompiledFunction(function, static_argnames)
