"""Formulas: ``response ~ physics | axis``, in the grammar of expressions.

Terms of the physics stand between plus signs; the intercept is there unless ``- 1`` or ``+ 0``
takes it away. A difference or a sum within one term is written in parentheses. ``C(day)`` and a
column of text stand for indicators.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lisdd_jax.expressions import tokens, tree
from lisdd_jax.expressions.tokens import Token
from lisdd_jax.expressions.tree import ExpressionError
from lisdd_jax.tables import parts

_FORM = "a formula must have the form 'response ~ physics | axis'"


@dataclass(frozen=True, kw_only=True)
class Formula:
    """The parts of a formula, as ``problem.from_table`` takes them.

    Attributes:
      response, axis: expressions.
      physics: expressions, the intercept not among them.
      intercept: whether the physics has a constant.
    """

    response: str
    physics: tuple[str, ...]
    axis: str
    intercept: bool


def parse_formula(text: str, names: Sequence[str]) -> Formula:
    """Read a formula over the columns of a table.

    Args:
      text: for example ``"demand ~ workday + max(temp - 18, 0) | temp"``.
      names: of the columns.

    Returns:
      Its parts.

    Raises:
      ExpressionError: it has another form, a part does not parse, or a column is unknown.

    Example:
      >>> parse_formula("log10(y) ~ x + (x - z)^2 - 1 | z", ["x", "y", "z"])
      Formula(response='log10(y)', physics=('x', '(x - z)^2'), axis='z', intercept=False)
    """
    sides = _split(text, "~")
    if len(sides) != 2:
        raise ExpressionError(f"{_FORM}, got {tree.shorten(text)!r}")
    response, right = (side.strip() for side in sides)
    pieces = [piece.strip() for piece in _split(right, "|")]
    if len(pieces) != 2 or not all((response, *pieces)):
        hint = "" if len(pieces) > 1 else "; the axis, along which it may fail, stands after '|'"
        raise ExpressionError(f"{_FORM}, got {tree.shorten(text)!r}{hint}")
    physics, axis = pieces
    parts.read_term("response", response, names)
    parts.read_term("axis", axis, names)
    terms, intercept = parse_physics(physics, names)
    return Formula(response=response, physics=terms, axis=axis, intercept=intercept)


def parse_physics(text: str, names: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Read what stands between ``~`` and ``|``.

    Args:
      text: for example ``"workday + max(temp - 18, 0)"``.
      names: of the columns.

    Returns:
      The terms without the intercept, and whether there is one.

    Raises:
      ExpressionError: a term is missing, does not parse, or names an unknown column.

    Example:
      >>> parse_physics("x + (x - z)^2 - 1", ["x", "z"])
      (('x', '(x - z)^2'), False)
    """
    signed = [("+", text)] if text in names else list(_summands(text))
    terms, intercept = [], True
    for sign, term in signed:
        if not term:
            raise ExpressionError(f"physics: a term is missing in {tree.shorten(text)!r}")
        if term in ("0", "1"):
            intercept = (sign == "+") == (term == "1")
        elif sign == "-":
            raise ExpressionError(
                f"physics: only '- 1' may follow a minus between terms, got '- {term}'; put a"
                " difference within one term in parentheses"
            )
        else:
            terms.append(term)
    parts.read_parts("physics", terms, names)
    return tuple(terms), intercept


def _split(text: str, mark: str) -> list[str]:
    """Pieces between marks that stand outside of quotes."""
    pieces, quote = [""], ""
    for character in text:
        if character == mark and not quote:
            pieces.append("")
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'\"":
            quote = character
        pieces[-1] += character
    return pieces


def _summands(text: str) -> Iterator[tuple[str, str]]:
    """Terms and their signs; a sign within parentheses, or after an operator, belongs to a term."""
    sign, start, depth = "+", 0, 0
    previous: Token | None = None
    for token in tokens.tokenize(text):
        operator = token.kind == "operator"
        depth += (token.value == "(") - (token.value == ")") if operator else 0
        signs = operator and token.value in "+-" and depth == 0
        if previous is None and signs:
            # A sign before a term, once more or at the start.
            sign, start = "+" if token.value == sign else "-", token.start + 1
            continue
        ends = token.kind == "end"
        after_operand = previous and (previous.kind != "operator" or previous.value == ")")
        if ends or (signs and after_operand):
            yield sign, text[start : token.start].strip()
            sign, start, previous = token.value, token.start + 1, None
            continue
        previous = token
