"""A study written down: a TOML file that names a scenario, a grid and settings.

::

    scenario = "oscillator"        # or "several_regions", or "module:function" of one's own
    num_rows = 2000
    num_replications = 500
    seed = 0
    mode = "paper"                 # or "default"

    [grid]
    beta = [0.0, 0.05, 0.1]
    width = [0.6, 1.0]

    [config]
    num_starts = 50
"""

import difflib
import importlib
import inspect
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax

from lisdd_jax.config import Config
from lisdd_jax.study.engine import run_study
from lisdd_jax.study.engine.summary import StudyResult
from lisdd_jax.study.experiments import metrics, pipeline, scenarios
from lisdd_jax.study.experiments.scenarios import Sample

SCENARIOS = {"oscillator": scenarios.oscillator, "several_regions": scenarios.several_regions}


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
      mode: of ``pipeline.MODES``.
      quantiles: levels to report beside the means.
      config: fields of ``Config`` by name.
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


def load(path: str | Path) -> StudySpec:
    """Read a specification from a TOML file.

    Args:
      path: the file.

    Returns:
      The specification.

    Raises:
      StudySpecError: the file cannot be read or parsed, lacks a grid, has an unknown key, or a
        value of a wrong kind.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or error
        raise StudySpecError(f"study {str(path)!r} cannot be read: {reason}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudySpecError(f"study {str(path)!r} is no valid TOML: {error}") from None
    known = [entry.name for entry in fields(StudySpec)]
    for name, value in content.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
            raise StudySpecError(f"study {str(path)!r} has the unknown key {name!r}{hint}")
        kind, words = _KINDS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise StudySpecError(f"{name} must be {words}, got {value!r}")
    if not content.get("grid"):
        raise StudySpecError(f"study {str(path)!r} must have a table [grid] with a parameter")
    content["quantiles"] = tuple(content.get("quantiles", ()))
    return StudySpec(**content)


def find_simulator(spec: StudySpec) -> Callable[..., Sample]:
    """The scenario's function.

    Args:
      spec: names it.

    Returns:
      ``simulate(key, **params) -> Sample``.

    Raises:
      StudySpecError: it cannot be found, or does not take a parameter of the grid.
    """
    if spec.scenario in SCENARIOS:
        if spec.num_rows < 1:
            raise StudySpecError(f"num_rows must be at least 1, got {spec.num_rows}")
        simulate = SCENARIOS[spec.scenario](spec.num_rows, spec.library)
    elif ":" in spec.scenario:
        simulate = _import(spec.scenario)
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


def _import(path: str) -> Callable[..., Sample]:
    module, _, name = path.partition(":")
    # A console script does not have the working folder on its path.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise StudySpecError(f"scenario {path!r} cannot be imported: {error}") from None
    if not callable(found):
        raise StudySpecError(f"scenario {path!r} must be a function, got {type(found).__name__}")
    return found


@lru_cache
def evaluator(config: Config) -> Callable[..., dict[str, jax.Array]]:
    """Diagnose a sample and measure the result; cells of equal width over the sample's range."""

    def evaluate(sample: Sample, key: jax.Array, **_: Any) -> dict[str, jax.Array]:
        found = pipeline.diagnose_sample(key, sample, config=config)
        return metrics.diagnosis_metrics(found, sample)

    return evaluate


def run(spec: StudySpec, **options: Any) -> StudyResult:
    """Run a study that is written down.

    Args:
      spec: the specification.
      options: of ``run_study``, such as ``out_dir``, ``resume`` and ``progress``.

    Returns:
      The result.

    Raises:
      StudySpecError, ValueError: something in the specification does not fit.
    """
    try:
        config = pipeline.config_of(spec.mode, **spec.config)
    except TypeError as error:
        raise StudySpecError(f"config: {error}") from None
    return run_study(
        find_simulator(spec),
        evaluator(config),
        grid=spec.grid,
        num_replications=spec.num_replications,
        key=jax.random.key(spec.seed),
        quantiles=spec.quantiles,
        **options,
    )
