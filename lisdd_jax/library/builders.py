"""Libraries of the usual shapes: polynomials, trigonometric terms, hinges, signs, saturation."""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Literal

from lisdd_jax import validation
from lisdd_jax.expressions.tree import Binary, Call, Column, Expression, Negative, Number
from lisdd_jax.library.terms import Library


def polynomials(
    columns: Sequence[str],
    degree: int,
    *,
    interactions: bool = True,
    include_constant: bool = False,
) -> Library:
    """Monomials up to a total degree, by degree and then by column.

    Args:
      columns: names.
      degree: highest total degree, at least 1.
      interactions: products of different columns too.
      include_constant: the term ``1``, first.

    Returns:
      The library.

    Raises:
      ValueError: ``degree`` is below 1, or ``columns`` is empty or repeats a name.

    Example:
      >>> polynomials(["u", "v"], 2).names
      ('u', 'v', 'u^2', 'u*v', 'v^2')
    """
    validation.check_count("degree", degree, 1)
    monomials = [
        _monomial(factors)
        for total in range(1, degree + 1)
        for factors in itertools.combinations_with_replacement(_names(columns), total)
        if interactions or len(set(factors)) == 1
    ]
    constant: list[Expression] = [Number(1)] if include_constant else []
    return Library.from_expressions(constant + monomials)


def trigonometric(columns: Sequence[str], frequencies: Sequence[float] = (1.0,)) -> Library:
    """Sine and cosine of each column at each frequency.

    Args:
      columns: names.
      frequencies: angular, in radians per unit of the column; positive.

    Returns:
      The library, by column, then by frequency.

    Raises:
      ValueError: a frequency is not positive and finite, or ``columns`` is empty or repeats a name.

    Example:
      >>> trigonometric(["x1"], [1, 2]).names
      ('sin(x1)', 'cos(x1)', 'sin(2*x1)', 'cos(2*x1)')
    """
    rates = _numbers("frequencies", frequencies, positive=True)
    return Library.from_expressions(
        Call(function, (Column(name) if rate == 1 else Binary("*", Number(rate), Column(name)),))
        for name in _names(columns)
        for rate in rates
        for function in ("sin", "cos")
    )


def hinge(
    column: str, knots: Sequence[float], sides: Literal["right", "left", "both"] = "right"
) -> Library:
    """Ramps that are zero on one side of a knot and rise with slope one on the other.

    Args:
      column: name.
      knots: in units of the column.
      sides: where the ramp rises; ``"both"`` gives two terms per knot.

    Returns:
      The library, by knot.

    Raises:
      ValueError: a knot is not finite, or ``sides`` is none of the three words.

    Example:
      >>> hinge("temp", [18], sides="both").names
      ('max(temp - 18, 0)', 'max(18 - temp, 0)')
    """
    if sides not in ("right", "left", "both"):
        raise ValueError(f"sides must be 'right', 'left' or 'both', got {sides!r}")
    chosen = ("right", "left") if sides == "both" else (sides,)
    return Library.from_expressions(
        Call("max", (_distance(Column(column), knot, side), Number(0)))
        for knot in _numbers("knots", knots)
        for side in chosen
    )


def sign(columns: Sequence[str]) -> Library:
    """Sign of each column: -1, 0 or 1.

    Args:
      columns: names.

    Returns:
      The library.

    Raises:
      ValueError: ``columns`` is empty or repeats a name.

    Example:
      >>> sign(["v"]).names
      ('sign(v)',)
    """
    return Library.from_expressions(Call("sign", (Column(name),)) for name in _names(columns))


def saturation(columns: Sequence[str], scales: Sequence[float] = (1.0,)) -> Library:
    """``tanh`` of each column over each scale: linear well inside the scale, constant beyond.

    Args:
      columns: names.
      scales: in units of the column; positive.

    Returns:
      The library, by column, then by scale.

    Raises:
      ValueError: a scale is not positive and finite, or ``columns`` is empty or repeats a name.

    Example:
      >>> saturation(["v"], [1, 0.5]).names
      ('tanh(v)', 'tanh(v/0.5)')
    """
    widths = _numbers("scales", scales, positive=True)
    return Library.from_expressions(
        Call("tanh", (Column(name) if width == 1 else Binary("/", Column(name), Number(width)),))
        for name in _names(columns)
        for width in widths
    )


def _monomial(factors: tuple[str, ...]) -> Expression:
    """Product of powers; equal factors stand together."""
    counts = ((Column(name), len(list(group))) for name, group in itertools.groupby(factors))
    powers = (column if n == 1 else Binary("^", column, Number(n)) for column, n in counts)
    return functools.reduce(functools.partial(Binary, "*"), powers)


def _distance(column: Column, knot: float, side: str) -> Expression:
    """Signed distance from the knot, positive on the side, in its shortest spelling."""
    if knot == 0:
        return column if side == "right" else Negative(column)
    if side == "left":
        return Binary("-", Number(knot) if knot > 0 else Negative(Number(-knot)), column)
    return Binary("-" if knot > 0 else "+", column, Number(abs(knot)))


def _names(columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got the single text {columns!r}")
    found = tuple(columns)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"columns must be one or more different names, got {list(found)}")
    return found


def _numbers(name: str, values: Sequence[float], *, positive: bool = False) -> list[float]:
    found = [float(value) for value in values]
    if not all(math.isfinite(value) and (value > 0 or not positive) for value in found):
        kind = "positive and finite" if positive else "finite"
        raise ValueError(f"{name} must be {kind}, got {found}")
    return found
