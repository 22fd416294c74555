"""A diagnosis written down: a TOML file for repeatable runs, and what overrides it.

Keys are those of the command line in words; unknown keys are refused. Paths are relative to the
folder of the file::

    table = "measurements.csv"
    response = "y"
    physics = ["x1", "x2"]
    axis = "x1"
    library = ["x1^2", "x1^3", "sin(x1)"]

    [config]
    alpha = 0.01
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lisdd_jax import files, validation
from lisdd_jax.config import MODES, Config, PublishedConfig, settings_of

#: Ways to lay the cells; one at a time.
CELL_LAYOUTS = ("num_cells", "edges", "quantile_cells")


class SpecError(ValueError):
    """A specification that cannot be read, or is not complete."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to diagnose and how; None where nothing is said.

    Attributes:
      table: CSV or Parquet file.
      response: column name or expression, as all of the next.
      physics: trusted regressors.
      axis: operating variable.
      library: candidate terms.
      intercept: whether the physics has a constant.
      where: condition on the rows to use.
      paper: the published algorithm instead of the default.
      edges: cell edges.
      quantile_cells: number of cells with equal numbers of rows.
      min_rows_per_cell: smaller cells join a neighbour.
      seed: of starts and splits.
      float32: whether to compute in single precision.
      json, report: files to write.
      config: settings of the method by name.
    """

    table: str | None = None
    response: str | None = None
    physics: tuple[str, ...] | None = None
    axis: str | None = None
    library: tuple[str, ...] | None = None
    intercept: bool | None = None
    where: str | None = None
    paper: bool | None = None
    edges: tuple[float, ...] | None = None
    quantile_cells: int | None = None
    min_rows_per_cell: int | None = None
    seed: int | None = None
    float32: bool | None = None
    json: str | None = None
    report: str | None = None
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def override(self, other: "Spec") -> "Spec":
        """This specification with all that another one says in its place."""
        given = {k: v for k, v in vars(other).items() if v is not None and k != "config"}
        config = {**self.config, **other.config}
        kept = self
        if layouts(other):
            # Another layout of the cells replaces the one here, whatever its kind.
            config = {k: v for k, v in config.items() if k != "num_cells" or k in other.config}
            kept = dataclasses.replace(self, edges=None, quantile_cells=None)
        return dataclasses.replace(kept, **given, config=config)

    def settings(self) -> Config | PublishedConfig:
        """The settings that the specification stands for.

        Raises:
          SpecError: a setting does not fit.
        """
        try:
            return settings_of("paper" if self.paper else "default", self.config)
        except ValueError as error:
            raise SpecError(str(error)) from None


def load(path: str | Path) -> Spec:
    """Read a specification from a TOML file.

    Args:
      path: the file.

    Returns:
      The specification, its paths made relative to the working folder.

    Raises:
      SpecError: the file cannot be read or parsed, has an unknown key, or a value of a wrong kind.
    """
    path = Path(path)
    try:
        content = files.read_toml(path, "spec")
    except files.FileError as error:
        raise SpecError(str(error)) from None
    try:
        return _from_content(content, path.parent)
    except (SpecError, files.FileError) as error:
        raise SpecError(f"spec {str(path)!r}: {error}") from None


def check(spec: Spec) -> None:
    """Refuse a specification that does not say enough, or says one thing in two ways.

    Raises:
      SpecError: a part is missing, or the cells are laid in several ways.
    """
    for name in ("table", "response", "physics", "axis", "library"):
        absent = not getattr(spec, name) and not (name == "physics" and spec.intercept)
        if absent:
            option = "a TABLE argument" if name == "table" else f"--{name}"
            beside = " or --intercept" if name == "physics" else ""
            raise SpecError(f"{name} is required: give {option}{beside}, or '{name}' in a spec")
    chosen = layouts(spec)
    if len(chosen) > 1:
        raise SpecError(f"the cells can be laid in one way only, got {' and '.join(chosen)}")
    for name, least in (("quantile_cells", 2), ("min_rows_per_cell", 1)):
        value = getattr(spec, name)
        if value is not None and value < least:
            raise SpecError(f"{name} must be at least {least}, got {value}")
    if spec.seed is not None:
        try:
            validation.check_seed("seed", spec.seed)
        except ValueError as error:
            raise SpecError(str(error)) from None


def layouts(spec: Spec) -> list[str]:
    """Which of ``CELL_LAYOUTS`` a specification uses."""
    said = {"num_cells": spec.config.get("num_cells"), **vars(spec)}
    return [name for name in CELL_LAYOUTS if said[name] is not None]


def setting_kinds() -> dict[str, type]:
    """Type of every setting of either method that a text can set, by name."""
    fields = [field for kind in MODES.values() for field in dataclasses.fields(kind)]
    kinds = {field.name: type(field.default) for field in fields}
    return {name: kind for name, kind in kinds.items() if kind in (bool, int, float, str)}


def _from_content(content: Mapping[str, Any], folder: Path) -> Spec:
    names = [field.name for field in dataclasses.fields(Spec)]
    files.check_keys("key", content, names)
    found = {key: _read_value(key, value) for key, value in content.items()}
    for key in ("table", "json", "report"):
        if key in found:
            found[key] = str(folder / found[key])
    return Spec(**found)


def _read_value(key: str, value: Any) -> Any:
    match key:
        case "physics" | "library":
            return tuple(_read_list(key, value, str, "texts"))
        case "edges":
            return tuple(float(v) for v in _read_list(key, value, float, "numbers"))
        case "intercept" | "paper" | "float32":
            return _read_one(key, value, bool)
        case "quantile_cells" | "min_rows_per_cell" | "seed":
            return _read_one(key, value, int)
        case "config":
            return _read_config(value)
    return _read_one(key, value, str)


def _read_config(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SpecError(f"config must be a table of settings, got {value!r}")
    kinds = setting_kinds()
    files.check_keys("setting", value, list(kinds))
    return {name: _read_one(f"config.{name}", v, kinds[name]) for name, v in value.items()}


_KIND_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


def _read_one(key: str, value: Any, kind: type) -> Any:
    if not _is_kind(value, kind):
        raise SpecError(f"{key} must be {_KIND_WORDS[kind]}, got {value!r}")
    return kind(value)


def _read_list(key: str, value: Any, kind: type, words: str) -> list[Any]:
    if not isinstance(value, list) or not all(_is_kind(item, kind) for item in value):
        raise SpecError(f"{key} must be a list of {words}, got {value!r}")
    return value


def _is_kind(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
