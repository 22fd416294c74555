"""Candidate terms as people have them: strings, terms, libraries, also those of PySINDy."""

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lisdd_jax.expressions import evaluation, grammar, tokens
from lisdd_jax.expressions.tokens import Token
from lisdd_jax.expressions.tree import Column, Expression, ExpressionError, to_text
from lisdd_jax.library.terms import Library, Term

_PLACE = re.compile(r"q_[0-9]+_")
_OPERANDS = ("number", "name", "quoted")


def as_terms(candidates: Any, columns: Sequence[str]) -> list[str | Expression | Term]:
    """Candidate terms from whatever holds them.

    Args:
      candidates: a library, a feature library of PySINDy, or a list of strings, expressions, terms
        and such libraries.
      columns: what the variables of a PySINDy library are called, in order.

    Returns:
      Strings (which are read where the table is known), expressions and terms, in order.

    Raises:
      ValueError: a feature of PySINDy is no expression.

    Example:
      >>> as_terms(["1", Library.from_expressions(["x^2"])], ["x"])
      ['1', Term(name='x^2', source=Binary(operator='^', left=Column(name='x'), \
right=Number(value=2.0)))]
    """
    if isinstance(candidates, Library):
        return list(candidates.terms)
    if isinstance(candidates, str | Expression | Term):
        return [candidates]
    if hasattr(candidates, "get_feature_names") and hasattr(candidates, "transform"):
        return list(from_pysindy(candidates, columns).terms)
    if not isinstance(candidates, Iterable):
        raise TypeError(
            "candidates must be strings, expressions, terms or libraries, got"
            f" {type(candidates).__name__}"
        )
    return [term for item in candidates for term in as_terms(item, columns)]


def from_pysindy(feature_library: Any, columns: Sequence[str]) -> Library:
    """The terms of a feature library of PySINDy, as expressions.

    The names of its features are read as formulas, in which factors stand side by side, and every
    formula is compared with what the library computes.

    Args:
      feature_library: such as ``pysindy.PolynomialLibrary(degree=3)``; fitted or not, it stays as
        it is.
      columns: what its variables are called, in order.

    Returns:
      The library.

    Raises:
      ValueError: the name of a feature is no formula, or not that of its values.

    Example:
      >>> import pysindy
      >>> from_pysindy(pysindy.PolynomialLibrary(degree=2, include_bias=False), ["u", "v"]).names
      ('u', 'v', 'u^2', 'u*v', 'v^2')
    """
    names = list(columns)
    library = copy.deepcopy(feature_library)
    # Away from zero, so that logarithms and roots have a value.
    points = np.random.default_rng(0).uniform(0.5, 1.5, (8, len(names)))
    values = np.asarray(library.fit(points).transform(points))
    features = library.get_feature_names([f"q_{k}_" for k in range(len(names))])
    data = dict(zip(names, points.T, strict=True))
    expressions = []
    for feature, column in zip(features, values.T, strict=True):
        expression = _read(feature, names)
        if expression is None or not _agrees(expression, data, column):
            shown = _PLACE.sub(lambda place: names[int(place[0][2:-1])], feature)
            raise ValueError(
                f"feature {shown!r} must be a formula in the grammar of expressions that gives its"
                " values; name it so, or give the term as a function (Library.from_callables)"
            )
        expressions.append(expression)
    return Library.from_expressions(expressions)


def _read(feature: str, names: Sequence[str]) -> Expression | None:
    """A feature's name as an expression over the columns; None where it does not read as one."""
    try:
        found = tokens.tokenize(_PLACE.sub(r"\g<0> ", feature))
        written = []
        for k, token in enumerate(found[:-1]):
            product = _is_product(token, found[k + 1])
            if not (product and token.value == "1"):
                written.append(_column(token, names) + ("*" if product else ""))
        return grammar.parse(" ".join(written), names)
    except ExpressionError:
        return None


def _agrees(expression: Expression, data: Mapping[str, np.ndarray], values: np.ndarray) -> bool:
    return np.allclose(evaluation.evaluate(expression, data, xp=np), values, rtol=1e-9)


def _is_product(left: Token, right: Token) -> bool:
    """Whether two neighbours are factors: ``x y``, ``2 x``, ``x sin(y)``, ``x (y + 1)``."""
    opens = right.value == "(" and right.kind == "operator"
    called = left.kind == "name" and not _PLACE.fullmatch(left.value)
    ends = left.kind in _OPERANDS or left.value == ")"
    return ends and (right.kind in _OPERANDS or (opens and not called))


def _column(token: Token, names: Sequence[str]) -> str:
    if token.kind == "name" and _PLACE.fullmatch(token.value):
        return to_text(Column(names[int(token.value[2:-1])]))
    return token.source
