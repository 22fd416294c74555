"""Compiled programs kept in a folder, so that a later process need not make them again."""

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import threading
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache

from lisdd_jax import files
from lisdd_jax.numerics import compilation

_SUFFIX, _TASK_SUFFIX = ".program", ".task"
_DIGEST_BYTES = hashlib.sha256().digest_size


def compile_cache(folder: str | os.PathLike[str]) -> Path:
    """Keep what this process compiles in a folder, and take from there what is already compiled.

    Sets JAX's persistent compilation cache, for all programs of the process, and keeps the
    programs of a single ``diagnose`` whole beside it: those need not even be traced again.
    What a program depends on is part of its name there: the code of this library, types and shapes,
    settings and flags, the machine, and the versions of JAX and its compiler. A file that is stale,
    damaged or of another machine is passed over, and the program made again.

    The files hold machine code: the folder must be one that only the user can write to.

    Args:
      folder: made where it does not exist.

    Returns:
      The folder.

    Raises:
      OSError: the folder cannot be made.

    Example:
      >>> compile_cache("~/.cache/my-project")  # doctest: +SKIP
    """
    path = Path(folder).expanduser().resolve()
    path.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(path))
    # Most programs of a diagnosis are small, and together take seconds.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # What was compiled before this call has made JAX settle on having no cache.
    compilation_cache.reset_cache()
    compilation.keep_programs(ProgramStore(path))
    # A file that cannot be read or written costs time, nothing else.
    warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")
    return path


class ProgramStore:
    """Executables in a folder, each in a file named by all that it depends on."""

    def __init__(self, folder: Path) -> None:
        """Keep them in ``folder``."""
        self._folder = folder
        self._loaded: dict[str, Callable[..., Any]] = {}
        self._untried: dict[str, Callable[..., Any] | None] = {}

    def fetch(self, description: str, lower: Callable[[], Any]) -> Callable[..., Any]:
        """The program of a description.

        Args:
          description: function, settings, types and shapes.
          lower: lowers it where it has to be compiled.
        """
        path = self._path(description, _SUFFIX)
        name = path.stem
        # Another thread may let go of the programs at any time: what is returned is held here.
        program = self._loaded.get(name)
        if program is None:
            found = self._untried.pop(name, None) or _load(path)
            program = _make(path, lower) if found is None else self._tried(name, path, found, lower)
            self._loaded[name] = program
        return program

    def load(self, description: str) -> None:
        """Have the program of a description at hand where there is a file of it."""
        path = self._path(description, _SUFFIX)
        if path.stem not in self._loaded:
            self._untried[path.stem] = _load(path)

    def recall(self, task: str) -> list[str]:
        """Descriptions of the programs that a task took before; none where one is not kept."""
        kept = _read(self._path(task, _TASK_SUFFIX))
        found = [] if kept is None else kept.decode().split("\0")
        return found if all(self._path(name, _SUFFIX).exists() for name in found) else []

    def note(self, task: str, descriptions: list[str]) -> None:
        """Note the programs that a task took."""
        _write(self._path(task, _TASK_SUFFIX), "\0".join(descriptions).encode())

    def release(self) -> None:
        """Let go of the programs that are at hand; the files stay."""
        self._loaded.clear()
        self._untried.clear()

    def _path(self, description: str, suffix: str) -> Path:
        name = _hash(description, _options(), *_surroundings()).hex()
        return self._folder / f"{name}{suffix}"

    def _tried(
        self, name: str, path: Path, found: Callable[..., Any], lower: Callable[[], Any]
    ) -> Callable[..., Any]:
        """A program from a file, which is made anew where it turns out not to run."""

        def first(*args: Any, **kwargs: Any) -> Any:
            try:
                result = found(*args, **kwargs)
                self._loaded[name] = found
            # A runtime that cannot run what it could load says so in many ways.
            except Exception:
                made = self._loaded[name] = _make(path, lower)
                result = made(*args, **kwargs)
            return result

        return first


def _make(path: Path, lower: Callable[[], Any]) -> Callable[..., Any]:
    """Compile a program and keep it in a file."""
    lowered = lower()
    with _cache_of_jax.absent():
        program = lowered.compile()
    _save(path, program)
    return program


class _CacheOfJax:
    """JAX's own cache, which several threads may do without at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._absences = 0
        self._before: Any = None

    @contextlib.contextmanager
    def absent(self) -> Iterator[None]:
        """An executable that JAX took from its cache cannot be written whole a second time."""
        with self._lock:
            if self._absences == 0:
                self._before = jax.config.values["jax_enable_compilation_cache"]
                self._enable(False)
            self._absences += 1
        try:
            yield
        finally:
            with self._lock:
                self._absences -= 1
                if self._absences == 0:
                    self._enable(self._before)

    @staticmethod
    def _enable(value: bool) -> None:
        jax.config.update("jax_enable_compilation_cache", value)
        compilation_cache.reset_cache()


_cache_of_jax = _CacheOfJax()


def _load(path: Path) -> Callable[..., Any] | None:
    """The program in a file; None where there is none that this process can run."""
    body = _read(path)
    if body is None:
        return None
    try:
        return serialize_executable.deserialize_and_load(*pickle.loads(body))
    # Whatever a file holds, the program can be made again.
    except Exception:
        return None


def _save(path: Path, program: Any) -> None:
    try:
        body = pickle.dumps(serialize_executable.serialize(program))
    # A backend may not serialise: the next process then compiles again.
    except Exception:
        return
    _write(path, body)


def _read(path: Path) -> bytes | None:
    """What ``_write`` wrote in a file; None where it is not there or not whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return body if hashlib.sha256(body).digest() == digest else None


def _write(path: Path, body: bytes) -> None:
    # A folder may be full: the next process then does the work again.
    with contextlib.suppress(OSError):
        files.write_whole(path, hashlib.sha256(body).digest() + body)


def _hash(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode()).digest()


def _options() -> str:
    """Options of JAX as they now stand, but for those of where to keep files and what to log."""
    beside = ("cache", "log", "traceback", "dump")
    values = jax.config.values.items()
    return repr(sorted((k, str(v)) for k, v in values if not any(word in k for word in beside)))


@functools.cache
def _surroundings() -> tuple[str, ...]:
    """Code, versions, flags and machine of this process."""
    device = jax.devices()[0]
    return (
        _code(),
        jax.__version__,
        metadata.version("jaxlib"),
        os.environ.get("XLA_FLAGS", ""),
        device.platform,
        device.device_kind,
        device.client.platform_version,
        str(jax.device_count()),
        platform.machine(),
        _processor(),
    )


def _code() -> str:
    """Digest of the source of this package."""
    found = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        found.update(str(path.relative_to(root)).encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def _processor() -> str:
    """What instructions the processor has, where the system says so."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    told = ("model name", "flags", "Features")
    return "\n".join(sorted({line for line in lines if line.startswith(told)}))
