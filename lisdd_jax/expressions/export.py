"""LaTeX and SymPy forms of an expression."""

import math
import re
from types import ModuleType
from typing import Any

import numpy as np

from lisdd_jax.expressions import names, tree
from lisdd_jax.expressions.evaluation import evaluate
from lisdd_jax.expressions.functions import ARITHMETIC, FUNCTIONS
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

_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau"
    "|upsilon|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
_INDEXED = re.compile(r"(.*?)(?:_?([0-9]+))?", re.DOTALL)
_COMPARISONS = {"<": "<", "<=": r"\leq", ">": ">", ">=": r"\geq", "==": "=", "!=": r"\neq"}
_CONNECTIVES = {"and": r"\wedge", "or": r"\vee"}
_ESCAPES = {
    " ": r"\ ",
    "\\": r"\backslash ",
    "^": r"\wedge ",
    "~": r"\sim ",
    **{character: "\\" + character for character in "{}$&#%_"},
}
# SymPy multiplies out whole powers of products, (3 x)^n = 3^n x^n, in exact integers. Beyond this
# total exponent numbers are exported in floating point, so that no export computes giant integers.
_MAX_EXACT = 1000


def to_latex(expression: Expression) -> str:
    r"""LaTeX of an expression, for math mode.

    Comparisons and logic are indicators, ``\mathbf{1}[...]``. Column names become ``x_{1}``, a
    Greek letter, or upright text.

    Example:
      >>> from lisdd_jax.expressions import parse
      >>> to_latex(parse("x1^3/temp"))
      '\\frac{x_{1}^{3}}{\\mathrm{temp}}'
    """
    match expression:
        case Number(value):
            return _number_latex(value)
        case Constant(name):
            return r"\pi" if name == "pi" else r"\mathrm{e}"
        case Date(text):
            return _upright(text)
        case Column(name):
            return name_latex(name)
        case Negative(operand):
            return "-" + _group(operand, tree.POWER)
        case Call(function, arguments):
            return FUNCTIONS[function].latex % ", ".join(map(to_latex, arguments))
        case Binary("/", left, right):
            return rf"\frac{{{to_latex(left)}}}{{{to_latex(right)}}}"
        case Binary("^", left, right):
            return rf"{_base_latex(left)}^{{{to_latex(right)}}}"
        case Binary("*", left, right):
            first, second = _group(left, tree.MULTIPLICATIVE), _group(right, tree.POWER)
            return first + (r" \cdot " if second[0].isdigit() else r" \, ") + second
        case Binary("+" | "-" as operator, left, right):
            signed = isinstance(right, Negative)
            second = _group(right, tree.ATOM if signed else tree.MULTIPLICATIVE)
            return f"{_group(left, tree.ADDITIVE)} {operator} {second}"
    return rf"\mathbf{{1}}\left[{_condition_latex(expression)}\right]"


def name_latex(name: str) -> str:
    """LaTeX of a column's name.

    Example:
      >>> [name_latex(name) for name in ("x1", "theta", "temp_C")]
      ['x_{1}', '\\\\theta', '\\\\mathrm{temp\\\\_C}']
    """
    letters, digits = _INDEXED.fullmatch(name).groups()  # type: ignore[union-attr]
    index = f"_{{{digits}}}" if digits else ""
    if _GREEK.fullmatch(letters):
        return f"\\{letters}{index}"
    if len(letters) == 1 and letters.isalpha():
        return letters + index
    return _upright(name)


def _upright(text: str) -> str:
    return rf"\mathrm{{{''.join(_ESCAPES.get(character, character) for character in text)}}}"


def _number_latex(value: float) -> str:
    mantissa, _, exponent = tree.number_text(value).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _group(expression: Expression, level: int) -> str:
    """LaTeX in parentheses where it binds too weakly; fractions and indicators never do."""
    text = to_latex(expression)
    weakest_shown = (Negative, Binary)
    if not isinstance(expression, weakest_shown) or _is_closed(expression):
        return text
    return text if tree.precedence(expression) >= level else rf"\left({text}\right)"


def _is_closed(expression: Expression) -> bool:
    return isinstance(expression, Binary) and (
        expression.operator == "/" or tree.precedence(expression) <= tree.COMPARISON
    )


def _base_latex(base: Expression) -> str:
    text = to_latex(base)
    bare = isinstance(base, Column | Constant) or (isinstance(base, Number) and "cdot" not in text)
    return text if bare else rf"\left({text}\right)"


def _condition_latex(expression: Expression) -> str:
    match expression:
        case Binary(operator, left, right) if operator in _COMPARISONS:
            return f"{to_latex(left)} {_COMPARISONS[operator]} {to_latex(right)}"
        case Binary(operator, left, right) if operator in _CONNECTIVES:
            parts = (_nested_condition_latex(side) for side in (left, right))
            return f" {_CONNECTIVES[operator]} ".join(parts)
        case Not(operand):
            return r"\neg " + _nested_condition_latex(operand)
        case Membership(Column(name), options):
            listed = ", ".join(_option_latex(option) for option in options)
            return rf"{name_latex(name)} \in \left\{{{listed}\right\}}"
    return rf"{to_latex(expression)} \neq 0"


def _nested_condition_latex(expression: Expression) -> str:
    connective = isinstance(expression, Binary) and expression.operator in _CONNECTIVES
    text = _condition_latex(expression)
    return rf"\left({text}\right)" if connective else text


def _option_latex(option: str | float) -> str:
    if isinstance(option, str):
        return _upright(option)
    return ("-" if option < 0 else "") + _number_latex(abs(option))


def to_sympy(expression: Expression) -> Any:
    """SymPy form of an expression over real symbols named as the columns.

    Comparisons and logic become ``Piecewise`` with the values 1 and 0. Powers and functions of
    numbers alone are replaced by their value.

    Args:
      expression: what ``parse`` returns.

    Returns:
      A ``sympy.Expr``.

    Raises:
      ImportError: SymPy is not installed.
      ExpressionError: text is compared, or a part without columns is not finite.

    Example:
      >>> from lisdd_jax.expressions import parse
      >>> to_sympy(parse("x1^2*x1 - 2*sin(x2)"))
      x1**3 - 2*sin(x2)
    """
    sympy = import_sympy()
    try:
        result = sympy.sympify(_symbolic(expression, sympy, 1.0))
    except ExpressionError:
        raise
    except (TypeError, ValueError) as error:  # such as an order between complex numbers
        raise ExpressionError(f"SymPy cannot hold {_named(expression)}: {error}") from error
    if result.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo):
        raise ExpressionError(f"a part of {_named(expression)} without columns is not finite")
    return result


def import_sympy() -> ModuleType:
    """SymPy, or one sentence on how to get it.

    Example:
      >>> import_sympy().__name__
      'sympy'
    """
    try:
        import sympy
    except ImportError as error:
        raise ImportError("export to SymPy needs SymPy: run `pip install sympy`") from error
    return sympy


def _named(expression: Expression) -> str:
    return repr(tree.shorten(str(expression)))


def _symbolic(expression: Expression, sympy: ModuleType, outer: float) -> Any:
    """SymPy form; ``outer`` is the product of the exponents around the expression."""
    match expression:
        case Number(value):
            return sympy.Float(value) if outer > _MAX_EXACT else _symbolic_number(value, sympy)
        case Constant(name):
            return sympy.pi if name == "pi" else sympy.E
        case Date():
            return _symbolic_number(expression.days, sympy)
        case Column(name):
            return sympy.Symbol(name, real=True)
        case Negative(operand):
            return -_symbolic(operand, sympy, outer)
        case Binary("^", _, _) | Call() if not names.column_names(expression):
            return _folded(expression, sympy)
        case Binary("^", left, right):
            return _symbolic_power(left, right, sympy, outer)
        case Binary("+" | "-" | "*" | "/" as operator, left, right):
            first, second = _symbolic(left, sympy, outer), _symbolic(right, sympy, outer)
            return ARITHMETIC[operator](first, second)
        case Call(function, arguments):
            if function in ("exp", "expm1") and _has_logarithm(expression):
                outer = math.inf  # exp(n log y) becomes the power y^n
            symbols = (_symbolic(argument, sympy, outer) for argument in arguments)
            return FUNCTIONS[function].symbolic(sympy, *symbols)
    return sympy.Piecewise((1, _symbolic_condition(expression, sympy, outer)), (0, True))


def _has_logarithm(expression: Expression) -> bool:
    calls = (node.function for node in tree.walk(expression) if isinstance(node, Call))
    return any(function.startswith("log") for function in calls)


def _symbolic_power(left: Expression, right: Expression, sympy: ModuleType, outer: float) -> Any:
    exponent = _symbolic(right, sympy, 1.0)
    if exponent.is_Rational:
        outer *= max(1.0, abs(float(exponent)))
        if outer > _MAX_EXACT:
            exponent = sympy.Float(exponent)
    return _symbolic(left, sympy, outer) ** exponent


def _folded(expression: Expression, sympy: ModuleType) -> Any:
    value = float(evaluate(expression, {}, xp=np))
    if not math.isfinite(value):
        raise ExpressionError(f"{_named(expression)} is not finite, so SymPy cannot hold it")
    return _symbolic_number(value, sympy)


def _symbolic_number(value: float, sympy: ModuleType) -> Any:
    exact = value == int(value) and abs(value) <= 2.0**53
    return sympy.Integer(int(value)) if exact else sympy.Float(value)


def _symbolic_condition(expression: Expression, sympy: ModuleType, outer: float) -> Any:
    match expression:
        case Binary("and" | "or" as operator, left, right):
            sides = (_symbolic_condition(side, sympy, outer) for side in (left, right))
            return (sympy.And if operator == "and" else sympy.Or)(*sides)
        case Binary(operator, left, right) if operator in _COMPARISONS:
            pair = _symbolic(left, sympy, outer), _symbolic(right, sympy, outer)
            return sympy.Rel(*pair, operator)
        case Not(operand):
            return sympy.Not(_symbolic_condition(operand, sympy, outer))
        case Membership(_, options) if isinstance(options[0], str):
            raise ExpressionError(f"SymPy has no text, got {_named(expression)}")
        case Membership(Column(name), options):
            symbol = sympy.Symbol(name, real=True)
            return sympy.Or(*(sympy.Eq(symbol, _symbolic_number(float(v), sympy)) for v in options))
    return sympy.Ne(_symbolic(expression, sympy, outer), 0)
