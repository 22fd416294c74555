"""The parts of a diagnosis read from text: a column's name, an expression, or a category."""

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from lisdd_jax import expressions
from lisdd_jax.expressions.tree import Column, Expression, ExpressionError, Number
from lisdd_jax.library import Library, Term
from lisdd_jax.tables import categories
from lisdd_jax.tables.categories import Category, Coding
from lisdd_jax.tables.errors import ProblemError
from lisdd_jax.tables.table import Levels

INTERCEPT = "intercept"

Part = Term | Category


class Expanded(NamedTuple):
    """The columns of a design or of the features.

    Attributes:
      terms: in order, each an expression.
      codings: of the categories among them.
    """

    terms: Library
    codings: tuple[Coding, ...]


def read_term(role: str, text: str, names: Sequence[str]) -> Term:
    """A term from the exact name of a column, whatever its characters, or from an expression.

    Args:
      role: what it is for, for messages.
      text: the name or expression.
      names: of the columns.

    Raises:
      ExpressionError: it does not parse, or names an unknown column.
    """
    if text in names:
        return Term.from_expression(Column(text))
    with _in_role(role):
        return Term.from_expression(expressions.parse(text, names))


def read_parts(
    role: str, given: Iterable[str | Expression | Term], names: Sequence[str]
) -> list[Part]:
    """Terms and categories of the physics or of the library.

    Args:
      role: ``physics`` or ``library``.
      given: names of columns, expressions, ``C(column)``, or terms.
      names: of the columns.

    Raises:
      ExpressionError: one does not parse, or names an unknown column.
      ProblemError: a term is a function, whose columns are not known.
    """
    if isinstance(given, str):
        raise ProblemError(f"{role} must be a list of expressions, got the single text {given!r}")
    return [_read_part(role, item, names) for item in given]


def _read_part(role: str, given: str | Expression | Term, names: Sequence[str]) -> Part:
    if isinstance(given, str):
        if given in names or not categories.is_call(given):
            return read_term(role, given, names)
        with _in_role(role):
            category = categories.parse_category(given)
            expressions.check_columns(Column(category.column), names)
            return category
    term = Term.from_expression(given) if isinstance(given, Expression) else given
    if not isinstance(term, Term) or not isinstance(term.source, Expression):
        what = f"the function {term.name!r}" if isinstance(term, Term) else repr(term)
        raise ProblemError(f"{role} must hold expressions over columns of the table, got {what}")
    with _in_role(role):
        expressions.check_columns(term.source, names)
    return term


@contextmanager
def _in_role(role: str) -> Iterator[None]:
    """Say in an error which part it is about."""
    try:
        yield
    except ExpressionError as error:
        raise ExpressionError(f"{role}: {error}", error.position) from None


def columns_of(parts: Iterable[Part]) -> list[str]:
    """Columns that parts use, in order of appearance."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, Category):
            found.append(part.column)
        else:
            found.extend(expressions.column_names(source_of(part)))
    return list(dict.fromkeys(found))


def source_of(term: Term) -> Expression:
    """The expression of a term; here every term has one."""
    assert isinstance(term.source, Expression)
    return term.source


def expand(
    role: str,
    parts: Sequence[Part],
    raw: Mapping[str, np.ndarray],
    levels: Mapping[str, Levels],
    complete: np.ndarray,
) -> Expanded:
    """Write categories, and columns of text that stand alone, as indicators.

    In the physics the first level of a category is the baseline if there is a constant, or a
    category before it; else the indicators would add up to what is there already. In the library,
    whose terms compete, every level has its own.

    Args:
      role: ``physics`` or ``library``.
      parts: of it.
      raw: columns ``(n,)`` as read.
      levels: declared ones, by column.
      complete: ``(n,)`` bool, rows in use.

    Raises:
      ProblemError: nothing is given, a term is repeated, or a category has too few or many levels.
    """
    constant = role == "physics" and any(map(_is_constant, parts))
    terms: list[Term] = []
    codings: list[Coding] = []
    for part in parts:
        category = _category_of(part, raw, levels, complete)
        if category is None:
            assert isinstance(part, Term)
            terms.append(part)
            continue
        values, declared = raw[category.column][complete], levels.get(category.column)
        coding = categories.code(role, category, values, declared, baseline=constant)
        constant = constant or role == "physics"
        terms.extend(coding.terms)
        codings.append(coding)
    _check_terms(role, terms)
    return Expanded(Library(tuple(terms)), tuple(codings))


def _is_constant(part: Part) -> bool:
    return isinstance(part, Term) and isinstance(part.source, Number) and part.source.value != 0


def _category_of(
    part: Part,
    raw: Mapping[str, np.ndarray],
    levels: Mapping[str, Levels],
    complete: np.ndarray,
) -> Category | None:
    if isinstance(part, Category):
        return part
    if isinstance(part.source, Column):
        name = part.source.name
        if categories.is_category(raw[name][complete], levels.get(name)):
            return Category(name)
    return None


def _check_terms(role: str, terms: Sequence[Term]) -> None:
    if not terms:
        hint = " or an intercept" if role == "physics" else ""
        raise ProblemError(f"{role} must have at least one expression{hint}, got none")
    counts = collections.Counter(str(term.source) for term in terms)
    repeated = [text for text, count in counts.items() if count > 1]
    if repeated:
        intercept = any(term.name == INTERCEPT for term in terms)
        beside = " (the intercept is one of them)" if intercept and repeated == ["1"] else ""
        raise ProblemError(
            f"{role} must name each expression once, got"
            f" {', '.join(map(repr, repeated))} more than once{beside}"
        )
