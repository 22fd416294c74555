"""The operators and functions of expressions: arity, arithmetic and notation in one table each."""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
CONNECTIVES: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda left, right: (left != 0) & (right != 0),
    "or": lambda left, right: (left != 0) | (right != 0),
}


@dataclass(frozen=True)
class Function:
    """What the grammar, the evaluation and the exports need to know about a function.

    Attributes:
      least, most: number of arguments; ``most`` None for any number.
      compute: ``compute(xp, *arguments)`` with ``xp`` either ``jax.numpy`` or ``numpy``.
      latex: template with one ``%s`` for the arguments, which commas part.
      symbolic: ``symbolic(sympy, *arguments)``, a SymPy expression.
    """

    least: int
    most: int | None
    compute: Callable[..., Any]
    latex: str
    symbolic: Callable[..., Any]

    def arity(self) -> str:
        """Number of arguments in words."""
        if self.most is None:
            return f"at least {self.least} arguments"
        return f"{self.least} argument" + ("s" if self.least > 1 else "")


def _unary(
    name: str,
    latex: str,
    *,
    numpy_name: str | None = None,
    symbolic: Callable[..., Any] | None = None,
) -> Function:
    """A function of one argument, under ``name`` in NumPy and SymPy unless told otherwise."""

    def compute(xp: ModuleType, x: Any) -> Any:
        return getattr(xp, numpy_name or name)(x)

    def by_name(sympy: ModuleType, x: Any) -> Any:
        return getattr(sympy, name)(x)

    template = latex if "%s" in latex else latex + r"\left(%s\right)"
    return Function(1, 1, compute, template, symbolic or by_name)


def _maximum(xp: ModuleType, *arguments: Any) -> Any:
    return functools.reduce(xp.maximum, arguments)


def _minimum(xp: ModuleType, *arguments: Any) -> Any:
    return functools.reduce(xp.minimum, arguments)


def _clip(xp: ModuleType, x: Any, lower: Any, upper: Any) -> Any:
    return xp.minimum(xp.maximum(x, lower), upper)


def _real_cbrt(sympy: ModuleType, x: Any) -> Any:
    # SymPy's own cbrt is the principal root, complex for x < 0.
    return sympy.sign(x) * sympy.Abs(x) ** sympy.Rational(1, 3)


FUNCTIONS: dict[str, Function] = {
    "sin": _unary("sin", r"\sin"),
    "cos": _unary("cos", r"\cos"),
    "tan": _unary("tan", r"\tan"),
    "asin": _unary("asin", r"\arcsin", numpy_name="arcsin"),
    "acos": _unary("acos", r"\arccos", numpy_name="arccos"),
    "atan": _unary("atan", r"\arctan", numpy_name="arctan"),
    "sinh": _unary("sinh", r"\sinh"),
    "cosh": _unary("cosh", r"\cosh"),
    "tanh": _unary("tanh", r"\tanh"),
    "exp": _unary("exp", r"\exp"),
    "expm1": _unary("expm1", r"\operatorname{expm1}", symbolic=lambda sympy, x: sympy.exp(x) - 1),
    "log": _unary("log", r"\ln"),
    "log2": _unary("log2", r"\log_{2}", symbolic=lambda sympy, x: sympy.log(x, 2)),
    "log10": _unary("log10", r"\log_{10}", symbolic=lambda sympy, x: sympy.log(x, 10)),
    "log1p": _unary("log1p", r"\operatorname{log1p}", symbolic=lambda sympy, x: sympy.log(1 + x)),
    "sqrt": _unary("sqrt", r"\sqrt{%s}"),
    "cbrt": _unary("cbrt", r"\sqrt[3]{%s}", symbolic=_real_cbrt),
    "abs": _unary("Abs", r"\left|%s\right|", numpy_name="abs"),
    "sign": _unary("sign", r"\operatorname{sgn}"),
    "floor": _unary("floor", r"\left\lfloor %s\right\rfloor"),
    "max": Function(
        2, None, _maximum, r"\max\left(%s\right)", lambda sympy, *arguments: sympy.Max(*arguments)
    ),
    "min": Function(
        2, None, _minimum, r"\min\left(%s\right)", lambda sympy, *arguments: sympy.Min(*arguments)
    ),
    "clip": Function(
        3,
        3,
        _clip,
        r"\operatorname{clip}\left(%s\right)",
        lambda sympy, x, lower, upper: sympy.Min(sympy.Max(x, lower), upper),
    ),
    "atan2": Function(
        2,
        2,
        lambda xp, y, x: xp.arctan2(y, x),
        r"\operatorname{atan2}\left(%s\right)",
        lambda sympy, y, x: sympy.atan2(y, x),
    ),
    "mod": Function(
        2,
        2,
        lambda xp, x, period: xp.mod(x, period),
        r"\operatorname{mod}\left(%s\right)",
        lambda sympy, x, period: sympy.Mod(x, period),
    ),
}

#: Other spellings, read and then printed as the name on the right; ``pow`` is the operator ``^``.
ALIASES = {
    "ln": "log",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "maximum": "max",
    "minimum": "min",
    "power": "pow",
}
