"""A fitted model as a formula: in LaTeX, and for SymPy."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from lisdd_jax import expressions
from lisdd_jax.expressions.tree import Binary, Expression, Number
from lisdd_jax.tables.model import Correction, Model, WeightedTerm, check_defined
from lisdd_jax.tables.parts import source_of


def as_latex(model: Model, digits: int = 4) -> str:
    r"""The corrected model as an equation, for math mode.

    Args:
      model: fitted.
      digits: significant, of coefficients and ends.

    Returns:
      The response, ``=``, the physics, and one ``cases`` environment per region.

    Raises:
      ProblemError: the model has no coefficients.
    """
    check_defined(model)
    everywhere = [part.terms for part in model.corrections if _is_everywhere(part)]
    plain = [*model.physics, *itertools.chain(*everywhere)]
    parts = [_latex_sum(plain, digits)]
    axis = expressions.to_latex(source_of(model.axis))
    for correction in itertools.filterfalse(_is_everywhere, model.corrections):
        condition = _latex_condition(correction, axis, digits)
        inside = _latex_sum(correction.terms, digits)
        parts.append(
            rf"\begin{{cases}} {inside} & {condition} \\ 0 & \text{{otherwise}} \end{{cases}}"
        )
    return f"{expressions.to_latex(source_of(model.response))} = {' + '.join(parts)}"


def _is_everywhere(part: Correction) -> bool:
    return math.isinf(part.lower) and math.isinf(part.upper)


def _latex_sum(weighted: Sequence[WeightedTerm], digits: int) -> str:
    text = ""
    for item in weighted:
        size = _rounded(abs(item.coefficient), digits)
        sign = "-" if item.coefficient < 0 else "+"
        term = expressions.to_latex(_product(size, source_of(item.term)))
        text += f" {sign} {term}" if text else term if sign == "+" else f"-{term}"
    return text or "0"


def _product(number: float, source: Expression) -> Expression:
    return Number(number) if source == Number(1) else Binary("*", Number(number), source)


def _latex_condition(part: Correction, axis: str, digits: int) -> str:
    low, high = (_latex_number(end, digits) for end in (part.lower, part.upper))
    if math.isinf(part.lower):
        return f"{axis} < {high}"
    return rf"{axis} \ge {low}" if math.isinf(part.upper) else rf"{low} \le {axis} < {high}"


def _latex_number(value: float, digits: int) -> str:
    if math.isinf(value):
        return ""
    return ("-" if value < 0 else "") + expressions.to_latex(Number(_rounded(abs(value), digits)))


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def as_sympy(model: Model) -> Any:
    """The corrected model as a ``sympy.Expr`` over real symbols named as the columns.

    Regions are ``Piecewise``; coefficients and ends have all their digits.

    Args:
      model: fitted.

    Raises:
      ImportError: SymPy is not installed.
      ExpressionError: a term compares text, which SymPy has not.
      ProblemError: the model has no coefficients.
    """
    check_defined(model)
    sympy = expressions.import_sympy()
    axis = expressions.to_sympy(source_of(model.axis))
    total = _sympy_sum(model.physics, sympy)
    for part in model.corrections:
        # The ends are those of membership: half-open, and open where the region goes on.
        inside = [sympy.Ge(axis, part.lower)] if math.isfinite(part.lower) else []
        inside += [sympy.Lt(axis, part.upper)] if math.isfinite(part.upper) else []
        total += sympy.Piecewise((_sympy_sum(part.terms, sympy), sympy.And(*inside)), (0, True))
    return total


def _sympy_sum(weighted: Sequence[WeightedTerm], sympy: Any) -> Any:
    terms = (
        sympy.Float(item.coefficient) * expressions.to_sympy(source_of(item.term))
        for item in weighted
    )
    return sum(terms, sympy.Integer(0))
