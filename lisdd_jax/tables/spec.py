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
from lisdd_jax.tables.dialect import ReadOptions
from lisdd_jax.tables.errors import SpecError
from lisdd_jax.tables.sources import STANDARD_INPUT

#: Ways to lay the cells; one at a time.
CELL_LAYOUTS = ("num_cells", "edges", "quantile_cells")
#: Sums and tests of every cell, and of windows of them, are held in memory.
MAX_CELLS = 10_000

_FILES = ("json", "report", "predictions")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to diagnose and how; None where nothing is said.

    Attributes:
      table: file to read; ``-`` is standard input.
      sep, decimal, encoding, sheet: how it is written, as in ``ReadOptions``.
      response: column name or expression, as all of the next.
      physics: trusted regressors.
      axis: operating variable.
      library: candidate terms.
      intercept: whether the physics has a constant.
      where: condition on the rows to use.
      block: what dependent rows have in common.
      time: when a row was measured.
      trusted: condition on the rows where the law is vouched for.
      noise_scale: relative size of the measurement error.
      paper: the published algorithm instead of the default.
      edges: cell edges.
      quantile_cells: number of cells with equal numbers of rows.
      min_rows_per_cell: smaller cells join a neighbour.
      seed: of starts and splits.
      float32: whether to compute in single precision.
      json, report, predictions: files to write.
      config: settings of the method by name.
    """

    table: str | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    response: str | None = None
    physics: tuple[str, ...] | None = None
    axis: str | None = None
    library: tuple[str, ...] | None = None
    intercept: bool | None = None
    where: str | None = None
    block: str | None = None
    time: str | None = None
    trusted: str | None = None
    noise_scale: str | None = None
    paper: bool | None = None
    edges: tuple[float, ...] | None = None
    quantile_cells: int | None = None
    min_rows_per_cell: int | None = None
    seed: int | None = None
    float32: bool | None = None
    json: str | None = None
    report: str | None = None
    predictions: str | None = None
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

    def reading(self) -> ReadOptions:
        """How the table is written.

        Raises:
          TableError: no table can be written so.
        """
        return ReadOptions(
            sep=self.sep, decimal=self.decimal, encoding=self.encoding, sheet=self.sheet
        )


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
      SpecError: parts are missing, the cells are laid in several ways, or a number is out of range.
    """
    absent = [
        name
        for name in ("table", "response", "physics", "axis", "library")
        if not getattr(spec, name) and not (name == "physics" and spec.intercept)
    ]
    if absent:
        options = ", ".join(_OPTION_WORDS.get(name, f"--{name}") for name in absent)
        names = " and ".join(filter(None, (", ".join(absent[:-1]), absent[-1])))
        verb = "is" if len(absent) == 1 else "are"
        raise SpecError(
            f"{names} {verb} required: give {options}, or a --spec FILE.toml that says so"
        )
    chosen = layouts(spec)
    if len(chosen) > 1:
        raise SpecError(f"the cells can be laid in one way only, got {' and '.join(chosen)}")
    _check_cells(spec)
    _check_range("min_rows_per_cell", spec.min_rows_per_cell, 1, 2**31 - 1)
    if spec.seed is not None:
        try:
            validation.check_seed("seed", spec.seed)
        except ValueError as error:
            raise SpecError(str(error)) from None


_OPTION_WORDS = {"table": "a TABLE", "physics": "--physics (or --intercept)"}


def _check_cells(spec: Spec) -> None:
    least = 2 if spec.paper else 3
    why = "" if spec.paper else "; the default method compares cells with each other"
    held = "; sums and tests of every cell are held in memory"
    edges = None if spec.edges is None else len(spec.edges) - 1
    for name, value in (
        ("num_cells", spec.config.get("num_cells")),
        ("quantile_cells", spec.quantile_cells),
        ("the number of cells between edges", edges),
    ):
        _check_range(name, value, least, MAX_CELLS, too_few=why, too_many=held)


def _check_range(
    name: str, value: int | None, least: int, most: int, *, too_few: str = "", too_many: str = ""
) -> None:
    if value is None:
        return
    if value < least:
        raise SpecError(f"{name} must be at least {least}, got {value}{too_few}")
    if value > most:
        raise SpecError(f"{name} must be at most {most}, got {value}{too_many}")


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
    for key in ("table", *_FILES):
        if key in found and found[key] != STANDARD_INPUT:
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
    try:
        return kind(value)
    except OverflowError:
        raise SpecError(f"{key} must be a number that floating point holds") from None


def _read_list(key: str, value: Any, kind: type, words: str) -> list[Any]:
    if not isinstance(value, list) or not all(_is_kind(item, kind) for item in value):
        raise SpecError(f"{key} must be a list of {words}, got {value!r}")
    return value


def _is_kind(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
