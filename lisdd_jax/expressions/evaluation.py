"""The value of an expression over columns, with ``jax.numpy`` (traceable) or ``numpy``."""

import functools
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import validation
from lisdd_jax.expressions import names, tree
from lisdd_jax.expressions.functions import ARITHMETIC, COMPARISONS, CONNECTIVES, FUNCTIONS
from lisdd_jax.expressions.tree import (
    Binary,
    Call,
    Column,
    Constant,
    Date,
    Expression,
    ExpressionError,
    Membership,
    Negative,
    Not,
    Number,
)

#: Whole exponents up to this one are repeated products: exact for negative bases, and
#: differentiable at 0.
MAX_WHOLE_EXPONENT = 64


def evaluate(
    expression: Expression, columns: Mapping[str, Any], *, xp: ModuleType = jnp
) -> jax.Array | np.ndarray:
    """Value of an expression at every row.

    Comparisons, ``and``, ``or`` and ``not`` give 0 or 1, and NaN where an operand is NaN (or is no
    text, where text is asked for), so that a missing value never reads as "false". Outside the
    domain of a function the value is NaN or infinite, as in floating-point arithmetic; nothing is
    raised. Differentiable in numeric columns, with the derivatives of ``jax.numpy`` at kinks.

    Args:
      expression: what ``parse`` returns.
      columns: arrays by name, all used ones of one shape ``(n,)`` (or ``()`` for one row).
        Traced arrays are allowed; columns of text must be concrete.
      xp: ``jax.numpy``, or ``numpy`` for float64 on the host whatever JAX's settings.

    Returns:
      Floating-point array of the columns' shape and common type. An expression without columns is
      repeated to the shape of the first column; without any column it is a scalar.

    Raises:
      ExpressionError: a column is unknown, holds text where numbers are needed or the reverse, or
        the shapes differ.
      ValueError: without x64, a float64 column on the host would lose its variation in float32.

    Example:
      >>> from lisdd_jax.expressions import parse
      >>> temp = np.array([15.0, 18.0, 20.0])
      >>> evaluate(parse("max(temp - 18, 0)"), {"temp": temp}).tolist()
      [0.0, 0.0, 2.0]
    """
    names.check_columns(expression, columns)
    numbers = _numeric_columns(expression, columns, xp)
    dtype = _common_dtype(numbers or _samples(columns, xp), xp)
    numbers = {name: array.astype(dtype) for name, array in numbers.items()}
    rows = _Rows(columns, numbers, dtype, xp)
    shape = row_shape(columns, names.column_names(expression) or list(columns)[:1])
    with np.errstate(all="ignore"):
        return xp.broadcast_to(_value(expression, rows), shape)


def row_shape(columns: Mapping[str, Any], used: Iterable[str]) -> tuple[int, ...]:
    """The one shape that the named columns share; ``()`` for no names."""
    shapes = {name: np.shape(columns[name]) for name in used}
    for name, shape in shapes.items():
        first, expected = next(iter(shapes.items()))
        if shape != expected:
            raise ExpressionError(
                f"columns must have one shape, got {expected} for {first!r} and {shape} for"
                f" {name!r}"
            )
    return next(iter(shapes.values()), ())


@dataclass(frozen=True, eq=False)
class _Rows:
    """What the nodes are evaluated on: raw columns, and the numeric ones in the common type."""

    raw: Mapping[str, Any]
    numbers: dict[str, Any]
    dtype: Any
    xp: ModuleType


def _numeric_columns(
    expression: Expression, columns: Mapping[str, Any], xp: ModuleType
) -> dict[str, Any]:
    """Arrays of the columns that are used as numbers, not compared with text."""
    arrays = {name: _array(columns[name]) for name in _used_as_numbers(expression)}
    for name, array in arrays.items():
        if not _is_numeric(array):
            raise ExpressionError(
                f"column {name!r} must hold real numbers to be used in"
                f" {tree.shorten(str(expression))!r}, got dtype {array.dtype}"
            )
    return {name: _floats(name, array, xp) for name, array in arrays.items()}


def _used_as_numbers(expression: Expression) -> Iterator[str]:
    match expression:
        case Column(name):
            yield name
        case Membership(_, options) if isinstance(options[0], str):
            return
    for child in tree.children(expression):
        yield from _used_as_numbers(child)


def _array(values: Any) -> jax.Array | np.ndarray:
    return values if isinstance(values, jax.Array) else np.asarray(values)


def _is_numeric(array: jax.Array | np.ndarray) -> bool:
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    return any(jnp.issubdtype(array.dtype, kind) for kind in kinds)


def _floats(name: str, array: jax.Array | np.ndarray, xp: ModuleType) -> Any:
    # Integers on the host become floats there: JAX may cut them to 32 bits.
    if not isinstance(array, jax.Array) and array.dtype.kind in "iub":
        array = array.astype(np.float64)
    return np.asarray(array) if xp is np else validation.float_array(f"column {name!r}", array)


def _samples(columns: Mapping[str, Any], xp: ModuleType) -> dict[str, Any]:
    """One number in the type of every numeric column, for an expression that uses none of them."""
    arrays = {name: _array(values) for name, values in columns.items()}
    numeric = {name: array.dtype for name, array in arrays.items() if _is_numeric(array)}
    return {name: _floats(name, np.zeros(1, dtype), xp) for name, dtype in numeric.items()}


def _common_dtype(arrays: Mapping[str, Any], xp: ModuleType) -> Any:
    # The Python float gives the default float to no arrays and to integers, and yields to floats.
    return xp.result_type(*(array.dtype for array in arrays.values()), 1.0)


def _value(expression: Expression, rows: _Rows) -> Any:
    xp = rows.xp
    match expression:
        case Number(value):
            return xp.asarray(value, rows.dtype)
        case Constant(name):
            return xp.asarray(tree.CONSTANTS[name], rows.dtype)
        case Date():
            return xp.asarray(expression.days, rows.dtype)
        case Column(name):
            return rows.numbers[name]
        case Negative(operand):
            return -_value(operand, rows)
        case Not(operand):
            value = _value(operand, rows)
            return _truth(value == 0, (value,), rows)
        case Binary("^", base, exponent):
            return _power(base, exponent, rows)
        case Binary(symbol, left, right):
            return _binary(symbol, _value(left, rows), _value(right, rows), rows)
        case Call(function, arguments):
            return FUNCTIONS[function].compute(xp, *(_value(a, rows) for a in arguments))
        case Membership(Column(name), options) if isinstance(options[0], str):
            return _text_membership(name, options, rows)
        case Membership(Column(name), options):
            values = rows.numbers[name]
            found = xp.isin(values, xp.asarray(options, rows.dtype))
            return _truth(found, (values,), rows)
    raise TypeError(f"expression must be a node of the tree, got {type(expression).__name__}")


def _binary(symbol: str, left: Any, right: Any, rows: _Rows) -> Any:
    if symbol in ARITHMETIC:
        return ARITHMETIC[symbol](left, right)
    holds = (COMPARISONS | CONNECTIVES)[symbol](left, right)
    return _truth(holds, (left, right), rows)


def _truth(holds: Any, operands: tuple[Any, ...], rows: _Rows) -> Any:
    xp = rows.xp
    missing = functools.reduce(operator.or_, map(xp.isnan, operands))
    return xp.where(missing, xp.asarray(xp.nan, rows.dtype), holds.astype(rows.dtype))


def _power(base: Expression, exponent: Expression, rows: _Rows) -> Any:
    whole = whole_exponent(exponent)
    if whole is not None:
        return _value(base, rows) ** whole
    return rows.xp.power(_value(base, rows), _value(exponent, rows))


def whole_exponent(exponent: Expression) -> int | None:
    """The exponent as an integer if it is a literal of moderate size, else None."""
    sign, literal = (-1, exponent.operand) if isinstance(exponent, Negative) else (1, exponent)
    if isinstance(literal, Number) and literal.value in range(MAX_WHOLE_EXPONENT + 1):
        return sign * int(literal.value)
    return None


def _text_membership(name: str, options: tuple[Any, ...], rows: _Rows) -> Any:
    raw = rows.raw[name]
    words = np.zeros(1) if isinstance(raw, jax.Array) else np.asarray(raw, dtype=object)
    flat = words.ravel().tolist()
    types = set(map(type, flat))
    if types and not any(issubclass(kind, str) for kind in types):
        raise ExpressionError(f"column {name!r} must hold text to be compared with {options[0]!r}")
    if all(issubclass(kind, str) for kind in types):
        found = functools.reduce(operator.or_, (words == option for option in options))
        return rows.xp.asarray(found, rows.dtype)
    found = [float(word in options) if isinstance(word, str) else np.nan for word in flat]
    return rows.xp.asarray(np.reshape(found, words.shape), rows.dtype)
