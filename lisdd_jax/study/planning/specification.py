"""A study written down: a TOML file that names a scenario, a grid and settings.

The format is documented in docs/studies.md.
"""

import functools
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax

from lisdd_jax import files, validation
from lisdd_jax.config import Config, PublishedConfig, settings_of
from lisdd_jax.study.engine import StudyResult, machine, run_study
from lisdd_jax.study.experiments import metrics, pipeline, scenarios
from lisdd_jax.study.experiments.scenarios import Sample

SCENARIOS = {"oscillator": scenarios.oscillator, "several_regions": scenarios.several_regions}

# Arrays of one row and working space beside them, generously.
_BYTES_PER_ROW = 512


class StudySpecError(ValueError):
    """A specification that cannot be read, or does not fit."""


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """What to simulate, over which grid, and how to diagnose it.

    Attributes:
      grid: parameter of the scenario -> values.
      scenario: a name in ``SCENARIOS``, or ``"module:function"`` for a function
        ``simulate(key, **params) -> Sample`` that can be imported from the working folder.
      num_rows, library: of a built-in scenario.
      num_replications, seed: of the study.
      mode: of ``config.MODES``.
      quantiles: levels to report beside the means.
      config: settings of the method by name.
    """

    grid: Mapping[str, Any]
    scenario: str = "oscillator"
    num_rows: int = 2000
    library: str = "six"
    num_replications: int = 200
    seed: int = 0
    mode: str = "paper"
    quantiles: tuple[float, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the numbers."""
        validation.check_count("num_replications", self.num_replications, 1)
        validation.check_seed("seed", self.seed)
        check_num_rows("num_rows", self.num_rows)


_KINDS: dict[str, tuple[type, str]] = {
    "grid": (dict, "a table"),
    "scenario": (str, "text"),
    "num_rows": (int, "a whole number"),
    "library": (str, "text"),
    "num_replications": (int, "a whole number"),
    "seed": (int, "a whole number"),
    "mode": (str, "text"),
    "quantiles": (list, "a list of levels"),
    "config": (dict, "a table"),
}


def check_num_rows(name: str, value: Any) -> int:
    """A number of rows whose data set this machine can hold.

    Raises:
      ValueError: it is no integer of at least 1, or too large.
    """
    num_rows = validation.check_count(name, value, 1)
    needed, free = num_rows * _BYTES_PER_ROW, machine.free_host_bytes()
    if needed > free:
        raise ValueError(
            f"{name} must leave a data set that fits into memory, but {num_rows} rows need about"
            f" {machine.as_memory(needed)} and {machine.as_memory(free)} are free"
        )
    return num_rows


def read_specification(path: str | Path) -> StudySpec:
    """Read a specification from a TOML file.

    Args:
      path: the file.

    Returns:
      The specification.

    Raises:
      StudySpecError: the file cannot be read or parsed, lacks a grid, has an unknown key, or a
        value of a wrong kind or out of range.
    """
    try:
        content = files.read_toml(path, "study")
    except files.FileError as error:
        raise StudySpecError(str(error)) from None
    try:
        return _from_content(content)
    except ValueError as error:
        raise StudySpecError(f"study {str(path)!r}: {error}") from None


def _from_content(content: Mapping[str, Any]) -> StudySpec:
    files.check_keys("key", content, [entry.name for entry in fields(StudySpec)])
    for name, value in content.items():
        kind, words = _KINDS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise StudySpecError(f"{name} must be {words}, got {value!r}")
    if not content.get("grid"):
        raise StudySpecError("there must be a table [grid] with a parameter")
    for name, values in content["grid"].items():
        numbers = isinstance(values, list) and all(_is_number(value) for value in values)
        if not numbers or not values:
            raise StudySpecError(f"grid.{name} must be a list of numbers, got {values!r}")
    return StudySpec(**{**content, "quantiles": tuple(content.get("quantiles", ()))})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def find_simulator(spec: StudySpec) -> Callable[..., Sample]:
    """The scenario's function.

    Args:
      spec: names it.

    Returns:
      ``simulate(key, **params) -> Sample``; one of the user's own fails with a
      ``StudySpecError``.

    Raises:
      StudySpecError: it cannot be found, or does not take a parameter of the grid.
    """
    if spec.scenario in SCENARIOS:
        simulate = SCENARIOS[spec.scenario](spec.num_rows, spec.library)
    elif ":" in spec.scenario:
        simulate = _import_scenario(spec.scenario)
    else:
        listed = ", ".join(SCENARIOS)
        raise StudySpecError(
            f"scenario must be one of {listed}, or module:function, got {spec.scenario!r}"
        )
    accepted = inspect.signature(simulate).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    unknown = [name for name in spec.grid if name not in accepted or name == "key"]
    if unknown and not takes_all:
        own = ", ".join(name for name in accepted if name != "key")
        raise StudySpecError(f"grid must name parameters of the scenario ({own}), got {unknown[0]}")
    return simulate


def _import_scenario(path: str) -> Callable[..., Sample]:
    module, _, name = path.partition(":")
    # A console script does not have the working folder on its path.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        # Importing runs the user's code, which can fail in any way.
        raise StudySpecError(f"scenario {path!r} cannot be imported: {_words(error)}") from error
    if not callable(found):
        raise StudySpecError(f"scenario {path!r} must be a function, got {type(found).__name__}")
    return _in_a_sentence(path, found)


@lru_cache
def _in_a_sentence(path: str, simulate: Callable[..., Any]) -> Callable[..., Sample]:
    """A scenario whose errors are one sentence that says where they arose."""

    @functools.wraps(simulate)
    def checked(*args: Any, **kwargs: Any) -> Sample:
        try:
            sample = simulate(*args, **kwargs)
        except Exception as error:
            raise StudySpecError(f"scenario {path!r} failed: {_words(error)}") from error
        if not isinstance(sample, Sample):
            raise StudySpecError(
                f"scenario {path!r} must return a Sample, got {type(sample).__name__}"
            )
        return sample

    return checked


def _words(error: Exception) -> str:
    """An exception with the line of the user's code that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    others = [str(Path(__file__).parents[2]), str(Path(jax.__file__).parent), "importlib"]
    inside = [f for f in frames if not any(other in f.filename for other in others)]
    place = f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})" if inside else ""
    first = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first}{place}"


@lru_cache
def diagnosis_evaluator(
    config: Config | PublishedConfig,
) -> Callable[..., dict[str, jax.Array]]:
    """Diagnose a sample and measure the result; cells of equal width over the sample's range."""

    def evaluate(sample: Sample, key: jax.Array, **_: Any) -> dict[str, jax.Array]:
        try:
            found = pipeline.diagnose_sample(key, sample, config=config)
        except (TypeError, ValueError) as error:
            raise StudySpecError(f"the sample of the scenario does not fit: {error}") from error
        return metrics.diagnosis_metrics(found, sample)

    return evaluate


def run_specification(spec: StudySpec, **options: Any) -> StudyResult:
    """Run a study that is written down.

    Args:
      spec: the specification.
      options: of ``run_study``, such as ``out_dir``, ``resume`` and ``progress``.

    Returns:
      The result.

    Raises:
      StudySpecError, ValueError: something in the specification does not fit.
    """
    config = settings_of(spec.mode, spec.config)
    return run_study(
        find_simulator(spec),
        diagnosis_evaluator(config),
        grid=spec.grid,
        num_replications=spec.num_replications,
        key=jax.random.key(spec.seed),
        quantiles=spec.quantiles,
        **options,
    )
