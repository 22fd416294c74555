"""The tree of an arithmetic expression and its canonical text.

Nodes are frozen dataclasses: hashable, comparable, safe as static arguments of ``jax.jit``. The
canonical text of a tree parses back to an equal tree; it is the name under which a term is printed.
"""

import datetime
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Named numbers. They are reserved: a column of this name is written in backticks.
CONSTANTS = {"pi": math.pi, "e": math.e}
KEYWORDS = frozenset({"and", "or", "not", "in"})

OR, AND, NOT, COMPARISON, ADDITIVE, MULTIPLICATIVE, UNARY, POWER, ATOM = range(1, 10)
#: Binding strength of every infix operator, weakest first.
PRECEDENCE = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARISON),
    **dict.fromkeys("+-", ADDITIVE),
    **dict.fromkeys("*/", MULTIPLICATIVE),
    "^": POWER,
}

#: A name that needs no backticks, if it is also a Python identifier (``x²`` is not).
PLAIN_NAME = re.compile(r"[^\W\d]\w*")


class ExpressionError(ValueError):
    """An expression that cannot be read, or that does not fit the columns.

    Attributes:
      position: where in the text, counted from 1; None where no text is at hand.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        """Store the message and the position."""
        super().__init__(message)
        self.position = position


def shorten(text: str, around: int = 0, width: int = 60) -> str:
    """The part of a text near an index, with dots where something is left out."""
    if len(text) <= width:
        return text
    start = max(0, min(around - width // 2, len(text) - width))
    end = start + width
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


class Expression:
    """A node of the tree; ``str`` gives the canonical text."""

    def __str__(self) -> str:
        """Canonical text; see ``to_text``."""
        return to_text(self)


@dataclass(frozen=True)
class Number(Expression):
    """A literal, finite and not negative (a minus sign is a node of its own)."""

    value: float

    def __post_init__(self) -> None:
        """Refuse what the text of a literal cannot say."""
        if not (math.isfinite(self.value) and math.copysign(1.0, self.value) > 0):
            raise ExpressionError(
                f"value of a literal must be finite and not negative, got {self.value!r}"
            )


@dataclass(frozen=True)
class Constant(Expression):
    """A named number of ``CONSTANTS``."""

    name: str


@dataclass(frozen=True)
class Date(Expression):
    """A moment, as days since 1970-01-01 UTC; what dates in a column are as well.

    Attributes:
      text: in ISO 8601, such as ``2014-06-01`` or ``2014-06-01T13:45``.
    """

    text: str

    def __post_init__(self) -> None:
        """Refuse what is no date."""
        try:
            datetime.datetime.fromisoformat(self.text)
        except ValueError:
            raise ExpressionError(
                f"a date must be written as 2020-12-31 or 2020-12-31T13:45, got {self.text!r}"
            ) from None

    @property
    def days(self) -> float:
        """Days since 1970-01-01 UTC; a text without a zone is in UTC."""
        moment = datetime.datetime.fromisoformat(self.text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return moment.timestamp() / 86400.0


@dataclass(frozen=True)
class Column(Expression):
    """A column of the table."""

    name: str

    def __post_init__(self) -> None:
        """A column has a name."""
        if not isinstance(self.name, str) or not self.name:
            raise ExpressionError(f"name of a column must be non-empty text, got {self.name!r}")


@dataclass(frozen=True)
class Negative(Expression):
    """Minus the operand."""

    operand: Expression


@dataclass(frozen=True)
class Not(Expression):
    """1 where the operand is 0, else 0."""

    operand: Expression


@dataclass(frozen=True)
class Binary(Expression):
    """An infix operator of ``PRECEDENCE`` with its two operands."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Call(Expression):
    """A function of ``functions.FUNCTIONS`` applied to its arguments."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Membership(Expression):
    """1 where the column holds one of the options, which are all text or all numbers."""

    column: Column
    options: tuple[str, ...] | tuple[float, ...]


def children(expression: Expression) -> tuple[Expression, ...]:
    """Operands of a node, from left to right."""
    match expression:
        case Negative(operand) | Not(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case Membership(column, _):
            return (column,)
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """All nodes, parents first, from left to right; a loop, so that depth is no limit."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def depth(expression: Expression) -> int:
    """Levels of the tree; a single column has one."""
    level, count = [expression], 0
    while level:
        level = [child for node in level for child in children(node)]
        count += 1
    return count


def precedence(expression: Expression) -> int:
    """Binding strength of the outermost operation."""
    match expression:
        case Binary(operator, _, _):
            return PRECEDENCE[operator]
        case Negative():
            return UNARY
        case Not():
            return NOT
        case Membership():
            return COMPARISON
    return ATOM


def to_text(expression: Expression) -> str:
    """Canonical text; parsing it gives an equal tree.

    Example:
      >>> from lisdd_jax.expressions import parse
      >>> to_text(parse("maximum(temp-18,0)**2"))
      'max(temp - 18, 0)^2'
    """
    match expression:
        case Number(value):
            return number_text(value)
        case Constant(name):
            return name
        case Date(text):
            return f"date({_option_text(text)})"
        case Column(name):
            return _quote_name(name)
        case Negative(operand):
            return "-" + _wrap(operand, UNARY)
        case Not(operand):
            return "not " + _wrap(operand, NOT)
        case Binary(operator, left, right):
            return _binary_text(operator, left, right)
        case Call(function, arguments):
            return f"{function}({', '.join(map(to_text, arguments))})"
        case Membership(column, options):
            return _membership_text(to_text(column), options)
    raise TypeError(f"expression must be a node of the tree, got {type(expression).__name__}")


def _binary_text(operator: str, left: Expression, right: Expression) -> str:
    level = PRECEDENCE[operator]
    if level == POWER:
        return f"{_wrap(left, ATOM)}^{_wrap(right, UNARY)}"
    # Comparisons do not chain, so that a comparison inside one needs parentheses on both sides.
    first = _wrap(left, level + (level == COMPARISON))
    # `a*(-b)` parses without parentheses too, but does not read well.
    signed = isinstance(right, Negative) and level >= ADDITIVE
    second = _wrap(right, ATOM if signed else level + 1)
    return (
        f"{first}{operator}{second}" if level == MULTIPLICATIVE else f"{first} {operator} {second}"
    )


def _wrap(expression: Expression, level: int) -> str:
    text = to_text(expression)
    return text if precedence(expression) >= level else f"({text})"


def _membership_text(name: str, options: tuple[str, ...] | tuple[float, ...]) -> str:
    listed = [_option_text(option) for option in options]
    if len(listed) == 1 and isinstance(options[0], str):
        return f"{name} == {listed[0]}"
    return f"{name} in ({', '.join(listed)})"


def _option_text(option: str | float) -> str:
    if isinstance(option, str):
        return "'" + option.replace("'", "''") + "'"
    return ("-" if option < 0 else "") + number_text(abs(option))


def _quote_name(name: str) -> str:
    plain = PLAIN_NAME.fullmatch(name) and name.isidentifier()
    if plain and name not in KEYWORDS and name not in CONSTANTS:
        return name
    return "`" + name.replace("`", "``") + "`"


def number_text(value: float) -> str:
    """Shortest text that reads back as the same float, without a trailing ``.0``."""
    return str(int(value)) if value == int(value) and value < 1e15 else repr(float(value))
