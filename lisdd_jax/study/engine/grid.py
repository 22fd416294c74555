"""The cells of a study: every combination of the parameter values, grouped by static values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np

from lisdd_jax.study.engine.statistics import MetricSummary

_PASSED = ("key", "data")
# Columns of the tables of a result, beside those named after the parameters.
_COLUMNS = ("metric", "status", *(f.name for f in fields(MetricSummary) if f.name != "quantiles"))
_QUANTILE = "quantile_"


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Cells that share one compiled program.

    Attributes:
      static: the static parameters as ``(name, value)`` pairs.
      cells: ``(k,)`` rising cell numbers.
    """

    static: tuple[tuple[str, Any], ...]
    cells: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """The cells of a study in a fixed order; the last parameter varies fastest.

    Attributes:
      axes: per parameter its values: an array if it is traced, a list if it is static.
      static: names of the static parameters.
      paired: whether cell ``i`` takes entry ``i`` of every axis.
    """

    axes: dict[str, Any]
    static: tuple[str, ...]
    paired: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes, or ``(num_cells,)`` of paired ones."""
        lengths = tuple(len(axis) for axis in self.axes.values())
        return lengths[:1] if self.paired else lengths

    @property
    def num_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def column(self, name: str) -> Any:
        """Value of a parameter in every cell; an array if it is traced, a list if static."""
        axis = self.axes[name]
        if self.paired:
            return axis
        position = np.indices(self.shape)[list(self.axes).index(name)].ravel()
        return axis[position] if isinstance(axis, np.ndarray) else [axis[i] for i in position]

    def columns(self, *, static: bool) -> dict[str, Any]:
        """Columns of the static or of the traced parameters."""
        return {name: self.column(name) for name in self.axes if (name in self.static) == static}

    def params(self) -> list[dict[str, Any]]:
        """Parameters of every cell as plain Python values."""
        columns = [self.column(name) for name in self.axes]
        plain = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns]
        return [dict(zip(self.axes, values, strict=True)) for values in zip(*plain, strict=True)]

    def groups(self) -> list[Group]:
        """Cells by their static values, in order of first appearance."""
        columns = self.columns(static=True)
        members: dict[tuple[Any, ...], list[int]] = {}
        for cell in range(self.num_cells):
            values = tuple(column[cell] for column in columns.values())
            # The types are part of the key because 1, 1.0 and True are equal in a dict.
            members.setdefault((*values, *map(type, values)), []).append(cell)
        return [
            Group(static=tuple(zip(columns, values, strict=False)), cells=np.array(cells))
            for values, cells in members.items()
        ]


def build_grid(
    axes: Mapping[str, Any], *, static: Sequence[str] = (), paired: bool = False
) -> Grid:
    """Check the axes and lay out the cells.

    Args:
      axes: parameter name -> 1-D array or sequence of values.
      static: names whose values fix shapes or select code; these may be of any hashable type.
      paired: pair the axes entry by entry instead of taking every combination.

    Returns:
      The cells; numeric values have the floating-point width that JAX is set to.

    Raises:
      ValueError: an axis is empty, not one-dimensional, holds NaN or is not numeric though not
        static; a name is reserved; paired axes differ in length.
    """
    if not isinstance(axes, Mapping) or not axes:
        raise ValueError(f"grid must be a non-empty dict of 1-D arrays, got {axes!r}")
    if isinstance(static, str):
        raise ValueError(f"static must be a sequence of names, got the string {static!r}")
    unknown = [name for name in static if name not in axes]
    if unknown:
        raise ValueError(f"static names {unknown} are not parameters of the grid {list(axes)}")
    values = {name: _axis(name, axis, name in static) for name, axis in axes.items()}
    lengths = {name: len(axis) for name, axis in values.items()}
    if paired and len(set(lengths.values())) > 1:
        raise ValueError(f"paired grid axes must have equal lengths, got {lengths}")
    return Grid(axes=values, static=tuple(static), paired=paired)


def _axis(name: str, axis: Any, static: bool) -> Any:
    if not isinstance(name, str) or not name.isidentifier() or name in _PASSED:
        raise ValueError(
            f"grid names must be identifiers other than {_PASSED}, which the engine passes"
            f" itself; got {name!r}"
        )
    if name in _COLUMNS or name.startswith(_QUANTILE):
        raise ValueError(
            f"grid names must differ from the columns of the results ({', '.join(_COLUMNS)},"
            f" {_QUANTILE}...), got {name!r}; give the parameter another name"
        )
    if isinstance(axis, (str, bytes)) or np.ndim(axis) == 0:
        raise ValueError(f"grid[{name!r}] must be a 1-D array of values, got {axis!r}")
    values = _static_axis(name, axis) if static else _traced_axis(name, axis)
    if len(values) == 0:
        raise ValueError(f"grid[{name!r}] must hold at least one value, got none")
    return values


def _static_axis(name: str, axis: Any) -> list[Any]:
    values = [v.item() if np.ndim(v) == 0 and _is_array(v) else v for v in axis]
    for value in values:
        try:
            hash(value)
        except TypeError:
            raise ValueError(
                f"static grid[{name!r}] must hold hashable values, got {value!r}"
            ) from None
        if value != value:
            raise ValueError(f"grid[{name!r}] holds NaN; every value must be a number")
    return values


def _is_array(value: Any) -> bool:
    """Whether a value is an array of plain numbers; keys, for instance, have no plain value."""
    return isinstance(value, np.generic | np.ndarray | jax.Array) and isinstance(
        value.dtype, np.dtype
    )


def _traced_axis(name: str, axis: Any) -> np.ndarray:
    if hasattr(axis, "dtype") and not _is_array(axis):
        raise ValueError(f"grid[{name!r}] must be numeric, got dtype {axis.dtype}")
    values = np.asarray(axis)
    if values.ndim != 1:
        raise ValueError(f"grid[{name!r}] must be 1-D, got an array of shape {values.shape}")
    if values.size and values.dtype.kind not in "biuf":
        raise ValueError(
            f"grid[{name!r}] must be numeric, got dtype {values.dtype}; name it in static if it"
            " selects code or fixes a shape"
        )
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError(f"grid[{name!r}] holds NaN; every value must be a number")
    narrowed = values.astype(jax.dtypes.canonicalize_dtype(values.dtype))
    if values.dtype.kind in "iu" and np.any(narrowed != values):
        raise ValueError(f"grid[{name!r}] holds integers that do not fit {narrowed.dtype}")
    return narrowed
