"""Reading an expression: a tokenizer and a precedence-climbing parser.

The text is data and stays data: it is never handed to ``eval`` or any other part of Python, names
are looked up in fixed tables only, and length and nesting are bounded. From weakest to strongest::

    or
    and
    not
    < <= > >= == !=  in  not in     (do not chain)
    + -
    * /
    -x +x
    ^ **                            (from right to left; -x^2 is -(x^2))

Names are columns; any other column name is written in backticks. Text in single or double quotes
stands to the right of ``==``, ``!=`` and ``in`` only. Within quotes of any kind a doubled quote
stands for itself. ``pi`` and ``e`` are constants; ``date('2020-12-31')`` is a number, the days
since 1970-01-01.
"""

import difflib
import math
import re
from collections.abc import Iterable
from typing import NoReturn

from lisdd_jax.expressions import names, tree
from lisdd_jax.expressions.functions import ALIASES, FUNCTIONS
from lisdd_jax.expressions.tokens import Token, error_at, tokenize
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

MAX_LENGTH = 4000
#: Levels of the tree; a sum of n operands has n. Keeps recursion far from the interpreter's limit.
MAX_DEPTH = 100
_OPERAND = "a number, a column, a function or '('"


def parse(text: str, columns: Iterable[str] | None = None) -> Expression:
    """Read an arithmetic expression over columns.

    Args:
      text: the expression, at most ``MAX_LENGTH`` characters and ``MAX_DEPTH`` levels.
      columns: names of the available columns; checked where given.

    Returns:
      The tree. Nothing is simplified; ``**`` and ``pow(a, b)`` become ``^``, and the aliases of
      functions their first name.

    Raises:
      ExpressionError: the text does not parse, names an unknown function, gives a wrong number of
        arguments, is too long or too deep, or names an unknown column.
      TypeError: ``text`` is not a string.

    Example:
      >>> str(parse("max(temp-18, 0)**2"))
      'max(temp - 18, 0)^2'
      >>> parse("2x")  # doctest: +ELLIPSIS
      Traceback (most recent call last):
        ...
      lisdd_jax.expressions...: expected an operator or the end at position 2 of '2x', got 'x'
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            f"an expression may have at most {MAX_LENGTH} characters, got {len(text)}"
        )
    parser = _Parser(text)
    expression = parser.read()
    if columns is not None:
        names.check_columns(expression, columns, text=text, positions=parser.positions)
    return expression


class _Parser:
    """Cursor over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.cursor = 0
        self.nesting = 0
        self.positions: dict[str, int] = {}

    def read(self) -> Expression:
        expression = self._expression(0)
        if self._next.kind != "end":
            self._fail("an operator or the end")
        if tree.depth(expression) > MAX_DEPTH:
            self._refuse_depth(0)
        return expression

    @property
    def _next(self) -> Token:
        return self.tokens[self.cursor]

    def _advance(self) -> Token:
        token = self._next
        self.cursor += 1
        return token

    def _at(self, *operators: str) -> bool:
        return self._next.kind == "operator" and self._next.value in operators

    def _accept(self, *operators: str) -> bool:
        found = self._at(*operators)
        self.cursor += found
        return found

    def _expect(self, operator: str, expected: str) -> None:
        if not self._accept(operator):
            self._fail(expected)

    def _fail(self, expected: str, token: Token | None = None) -> NoReturn:
        token = token or self._next
        got = "the end" if token.kind == "end" else repr(tree.shorten(token.source))
        raise error_at(self.text, token.start, expected, got)

    def _refuse_depth(self, index: int) -> NoReturn:
        raise error_at(self.text, index, f"at most {MAX_DEPTH} levels of operations", "more")

    def _expression(self, weakest: int) -> Expression:
        """An operand and the operators after it that bind at least as strongly as ``weakest``."""
        self.nesting += 1
        if self.nesting > MAX_DEPTH:
            self._refuse_depth(self._next.start)
        left = self._operand(weakest)
        while (level := self._level()) and level >= weakest:
            left = self._infix(left, level)
            if level == tree.COMPARISON and self._level() == level:
                self._fail("'and' between two comparisons (as in 'a < b and b < c')")
        self.nesting -= 1
        return left

    def _level(self) -> int | None:
        if self._at("in", "not"):
            return tree.COMPARISON
        return tree.PRECEDENCE.get(self._next.value) if self._next.kind == "operator" else None

    def _infix(self, left: Expression, level: int) -> Expression:
        token = self._advance()
        if token.value in ("in", "not"):
            if token.value == "not":
                self._expect("in", "'in' after 'not'")
            found = self._options(left, token)
            return found if token.value == "in" else Not(found)
        if self._next.kind == "text" and token.value in ("==", "!="):
            found = Membership(self._column_of(left, token), (self._advance().value,))
            return found if token.value == "==" else Not(found)
        # Powers group from the right, and their exponent may carry a sign: 2^-x^2 = 2^(-(x^2)).
        right = self._expression(tree.UNARY if level == tree.POWER else level + 1)
        return Binary(token.value, left, right)

    def _column_of(self, left: Expression, token: Token) -> Column:
        if not isinstance(left, Column):
            self._fail(
                f"a single column to the left of '{token.source}' with text or a list", token
            )
        return left

    def _options(self, left: Expression, token: Token) -> Membership:
        column = self._column_of(left, token)
        self._expect("(", "a list in parentheses after 'in'")
        options: list[str | float] = []
        while not options or self._accept(","):
            kind = self._next.kind
            if options and (kind == "text") != isinstance(options[0], str):
                self._fail("options that are all text or all numbers")
            options.append(self._option())
        self._expect(")", "',' or ')' in the list")
        return Membership(column, tuple(options))  # type: ignore[arg-type]

    def _option(self) -> str | float:
        if self._next.kind == "text":
            return self._advance().value
        sign = -1.0 if self._accept("-") else 1.0
        if self._next.kind != "number":
            self._fail("text or a number in the list")
        return sign * self._number().value

    def _operand(self, weakest: int) -> Expression:
        token = self._next
        match token.kind:
            case "number":
                return self._number()
            case "name":
                return self._name()
            case "quoted":
                return self._column(self._advance())
            case "text":
                place = "right of '==' or '!=', in a list after 'in', or as date('2020-12-31')"
                raise error_at(self.text, token.start, _OPERAND, f"text, which may stand {place}")
        if self._accept("-"):
            return Negative(self._expression(tree.UNARY))
        if self._accept("+"):
            return self._expression(tree.UNARY)
        if self._at("not") and weakest <= tree.NOT:
            self._advance()
            return Not(self._expression(tree.NOT))
        if self._accept("("):
            inner = self._expression(0)
            self._expect(")", "an operator or ')'")
            return inner
        self._fail(_OPERAND)

    def _number(self) -> Number:
        token = self._advance()
        value = float(token.value)
        lost = value == 0.0 and re.search("[1-9]", re.split("[eE]", token.value)[0])
        if lost or math.isinf(value):
            self._fail("a number within the range of floating point", token)
        return Number(value)

    def _name(self) -> Expression:
        token = self._advance()
        if self._at("("):
            return self._call(token)
        if token.value in FUNCTIONS and self._next.kind in ("number", "name", "quoted"):
            self._fail(f"'(' after {token.value}")
        self.positions.setdefault(token.value, token.start + 1)
        return Constant(token.value) if token.value in tree.CONSTANTS else self._column(token)

    def _column(self, token: Token) -> Column:
        self.positions.setdefault(token.value, token.start + 1)
        return Column(token.value)

    def _call(self, token: Token) -> Expression:
        name = ALIASES.get(token.value, token.value)
        if name == "date":
            return self._date()
        if name != "pow" and name not in FUNCTIONS:
            self._refuse_function(token)
        arguments = self._arguments()
        least, most = (2, 2) if name == "pow" else (FUNCTIONS[name].least, FUNCTIONS[name].most)
        if len(arguments) < least or len(arguments) > (most or math.inf):
            words = "2 arguments" if name == "pow" else FUNCTIONS[name].arity()
            count = str(len(arguments))
            raise error_at(self.text, token.start, f"{words} for {token.value}", count)
        return Binary("^", *arguments) if name == "pow" else Call(name, tuple(arguments))

    def _date(self) -> Date:
        self._advance()
        if self._next.kind != "text":
            self._fail("a date in quotes, as in date('2020-12-31')")
        token = self._advance()
        self._expect(")", "')' after the date")
        try:
            return Date(token.value)
        except ExpressionError:
            self._fail("a date such as 2020-12-31 or 2020-12-31T13:45", token)

    def _arguments(self) -> list[Expression]:
        self._advance()
        arguments: list[Expression] = []
        if self._accept(")"):
            return arguments
        while not arguments or self._accept(","):
            arguments.append(self._expression(0))
        self._expect(")", "an operator, ',' or ')'")
        return arguments

    def _refuse_function(self, token: Token) -> NoReturn:
        known = sorted({*FUNCTIONS, *ALIASES, "pow", "date"})
        near = difflib.get_close_matches(token.value, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
        excerpt = tree.shorten(self.text, token.start)
        name = tree.shorten(token.value)
        raise ExpressionError(
            f"unknown function {name!r} at position {token.start + 1} of {excerpt!r}; {hint}",
            token.start + 1,
        )
