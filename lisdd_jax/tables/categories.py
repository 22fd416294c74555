"""Categories as indicators: ``C(kind)``, or a column of text by its name, in physics or library."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lisdd_jax.expressions import tokens, tree
from lisdd_jax.expressions.tree import Column, ExpressionError, Membership
from lisdd_jax.library import Term
from lisdd_jax.tables.columns import Kind, kind, missing, numbers
from lisdd_jax.tables.errors import ProblemError
from lisdd_jax.tables.table import Levels

_CALL = re.compile(r"\s*C\s*\(")
#: Digits and marks only: a number as people write it, rather than the name of a level.
_LIKE_A_NUMBER = re.compile(r"[+-]?[€$£]?\s*\d[\d.,'’ ]*[%€$£]?")

MAX_LEVELS = 64
"""Levels of a category; a column with more of them is a name or a note rather than a group."""


@dataclass(frozen=True)
class Category:
    """A column whose levels each have an indicator.

    Attributes:
      column: name.
    """

    column: str


@dataclass(frozen=True)
class Coding:
    """The indicators that stand for a category.

    Attributes:
      column: name.
      terms: indicators by the names ``kind[level]``.
      levels: all levels in use, the baseline among them.
      note: what was made of the column, in a sentence.
    """

    column: str
    terms: tuple[Term, ...]
    levels: Levels
    note: str


def is_call(text: str) -> bool:
    """Whether a text begins as ``C(kind)`` does."""
    return bool(_CALL.match(text))


def parse_category(text: str) -> Category:
    """The category that ``C(kind)`` stands for.

    Raises:
      ExpressionError: it holds something else than the name of a column, or more follows.

    Example:
      >>> parse_category("C(day)")
      Category(column='day')
    """
    # The five are: C, bracket, name, bracket, end.
    found = tokens.tokenize(text)
    named = len(found) == 5 and found[2].kind in ("name", "quoted") and found[3].value == ")"
    if not named:
        raise ExpressionError(
            "C(...) must hold the name of a column and stand alone, got"
            f" {tree.shorten(text)!r}; one level within an expression is written (kind == 'level')"
        )
    return Category(found[2].value)


def is_category(values: np.ndarray, levels: Levels | None) -> bool:
    """Whether a column is one of text, so that its bare name stands for its indicators.

    Text that is like a number, such as ``1,5`` or ``12 %``, is none: it would be taken for one.

    Args:
      values: ``(n,)`` of the rows in use.
      levels: declared ones, if any.
    """
    if levels is not None:
        return True
    if values.dtype.kind != "O" or kind(values) is not Kind.TEXT:
        return False
    return not any(_LIKE_A_NUMBER.fullmatch(value.strip()) for value in set(values.tolist()))


def code(
    role: str,
    category: Category,
    values: np.ndarray,
    declared: Levels | None,
    *,
    baseline: bool,
) -> Coding:
    """The indicators of a category.

    Args:
      role: ``physics`` or ``library``, for messages.
      category: the column.
      values: ``(n,)`` of the rows in use, none missing.
      declared: order of its levels; None for the alphabet or the order of numbers.
      baseline: whether the first level goes without an indicator, as a constant stands for it.

    Returns:
      One indicator per level that has rows, less the baseline.

    Raises:
      ProblemError: there are fewer than two levels, or too many.
      TableError: the values are neither text nor numbers.
    """
    name = category.column
    levels = _levels(name, values, declared)
    if len(levels) < 2:
        raise ProblemError(
            f"{role}: C({name}) must have at least two levels, got only {levels[0]!r}"
        )
    if len(levels) > MAX_LEVELS:
        raise ProblemError(
            f"{role}: column {name!r} holds {len(levels)} different values, such as"
            f" {levels[0]!r}; a category may have at most {MAX_LEVELS}"
        )
    coded = levels[1:] if baseline else levels
    terms = tuple(
        Term(label(name, level), Membership(Column(name), (level,)))  # type: ignore[arg-type]
        for level in coded
    )
    words = f"{role}: {len(levels)} levels of {name!r}"
    note = (
        f"{words} stand as {_range(terms)} beside the baseline {_text(levels[0])}"
        if baseline
        else f"{words} have an indicator each, {_range(terms)}"
    )
    return Coding(name, terms, levels, note)


def label(column: str, level: str | float) -> str:
    """Name of an indicator.

    Example:
      >>> label("day", "Mon"), label("floor", 2.0)
      ('day[Mon]', 'floor[2]')
    """
    return f"{column}[{_text(level)}]"


def unknown(name: str, values: np.ndarray, known: Sequence[str | float]) -> np.ndarray:
    """Rows of a column ``(n,)`` whose level is not among the known ones; missing ones are not."""
    if all(isinstance(level, str) for level in known):
        present = np.array([str(value) in known for value in values.tolist()], bool)
    else:
        present = np.isin(numbers(name, values), np.asarray(known, float))
    return ~present & ~missing(values)


def _levels(name: str, values: np.ndarray, declared: Levels | None) -> Levels:
    if declared is not None:
        present = set(values.tolist())
        return tuple(level for level in declared if level in present)  # type: ignore[return-value]
    if values.dtype.kind == "O" and kind(values) in (Kind.TEXT, Kind.MIXED):
        return tuple(sorted(set(map(str, values.tolist()))))
    return tuple(sorted(set(numbers(name, values).tolist())))


def _text(level: str | float) -> str:
    if isinstance(level, str):
        return level
    return ("-" if level < 0 else "") + tree.number_text(abs(level))


def _range(terms: Sequence[Term]) -> str:
    first, last = terms[0].name, terms[-1].name
    return first if first == last else f"{first} to {last}"
