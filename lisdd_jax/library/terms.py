"""Terms and libraries: ordered, under unique names that print as formulas."""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import validation
from lisdd_jax.expressions import evaluation, export, grammar, names, tree
from lisdd_jax.expressions.tree import Column, Expression, ExpressionError

TermFunction = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Term:
    """A named function of the columns.

    Attributes:
      name: how the term is printed; the canonical text where it is an expression.
      source: an expression, or a function from the columns ``{name: (n,)}`` to ``(n,)``.

    Example:
      >>> import numpy as np
      >>> Term("load", lambda columns: np.maximum(columns["temp"] - 18, 0)).name
      'load'
    """

    name: str
    source: Expression | TermFunction

    def __post_init__(self) -> None:
        """Check the types."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"name of a term must be non-empty text, got {self.name!r}")
        if not (isinstance(self.source, Expression) or callable(self.source)):
            raise TypeError(
                f"source of term {self.name!r} must be an expression or a function,"
                f" got {type(self.source).__name__}"
            )

    @classmethod
    def from_expression(cls, expression: str | Expression) -> "Term":
        """The term that an expression, or the text of one, stands for."""
        parsed = grammar.parse(expression) if isinstance(expression, str) else expression
        return cls(str(parsed), parsed)

    @property
    def label(self) -> Expression:
        """The name as a formula, or as a single symbol where it does not read as one."""
        if isinstance(self.source, Expression):
            return self.source
        try:
            return grammar.parse(self.name)
        except ExpressionError:
            return Column(self.name)

    def evaluate(self, columns: Mapping[str, Any], *, xp: ModuleType = jnp) -> Any:
        """Value at every row, in the shape of the columns; see ``Library.evaluate``."""
        if isinstance(self.source, Expression):
            return evaluation.evaluate(self.source, columns, xp=xp)
        value = self._call(self.source, columns)
        if xp is np:
            return np.asarray(value)
        return validation.float_array(f"term {self.name!r}", value)

    def _call(self, function: TermFunction, columns: Mapping[str, Any]) -> Any:
        try:
            value = function(columns)
        except KeyError as error:
            listed = ", ".join(columns)
            raise ValueError(
                f"function of term {self.name!r} raised KeyError({error}); available columns:"
                f" {listed}"
            ) from error
        expected = evaluation.row_shape(columns, columns)
        if value is None or np.shape(value) != expected:
            got = "None" if value is None else f"shape {np.shape(value)}"
            raise ValueError(
                f"function of term {self.name!r} must return one value per row, shape {expected},"
                f" got {got}"
            )
        return value


@jax.tree_util.register_static
@dataclass(frozen=True)
class Library:
    """An ordered set of candidate terms with unique names.

    Immutable, and static under ``jax.jit``: the terms are part of the compiled program. Libraries
    of equal expressions are equal. A function equals itself only, so a library of lambdas is to be
    kept, not built anew for every call.

    Attributes:
      terms: in the order of the columns of ``features`` everywhere.

    Raises:
      ValueError: two terms have the same name.

    Example:
      >>> library = Library.from_expressions(["x1^3"]) + Library.from_expressions(["sin(x1)"])
      >>> library.names
      ('x1^3', 'sin(x1)')
    """

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        """Check that names are unique."""
        object.__setattr__(self, "terms", tuple(self.terms))
        repeated = [name for name, count in collections.Counter(self.names).items() if count > 1]
        if repeated:
            listed = ", ".join(map(repr, repeated))
            raise ValueError(f"names of terms must be unique, got {listed} more than once")

    @classmethod
    def from_expressions(
        cls, texts: Iterable[str | Expression], columns: Iterable[str] | None = None
    ) -> "Library":
        """Terms from expressions.

        Args:
          texts: for example ``["x1^3", "sin(x1)"]``; see ``expressions.parse``.
          columns: the available columns; checked where given.

        Raises:
          ExpressionError: an expression does not parse or names an unknown column.
          ValueError: two expressions have the same canonical text.

        Example:
          >>> Library.from_expressions(["x1**3", "max(temp-18,0)"]).names
          ('x1^3', 'max(temp - 18, 0)')
        """
        if isinstance(texts, str):
            raise TypeError(f"texts must be a list of expressions, got the single text {texts!r}")
        known = None if columns is None else list(columns)
        terms = []
        for text in texts:
            expression = grammar.parse(text, known) if not isinstance(text, Expression) else text
            if known is not None:
                names.check_columns(expression, known)
            terms.append(Term.from_expression(expression))
        return cls(tuple(terms))

    @classmethod
    def from_callables(cls, functions: Mapping[str, TermFunction]) -> "Library":
        """Terms from functions of the columns.

        Args:
          functions: by name; each takes the columns ``{name: (n,)}`` and returns ``(n,)``, and is
            traceable where the library is used under ``jax.jit``.

        Example:
          >>> library = Library.from_callables({"x1^3": lambda columns: columns["x1"] ** 3})
          >>> library.evaluate({"x1": jnp.array([1.0, 2.0])}).tolist()
          [[1.0], [8.0]]
        """
        return cls(tuple(Term(name, function) for name, function in functions.items()))

    def __add__(self, other: "Library") -> "Library":
        """The terms of both, in order."""
        return Library(self.terms + other.terms) if isinstance(other, Library) else NotImplemented

    def __len__(self) -> int:
        """Number of terms."""
        return len(self.terms)

    def __iter__(self) -> Iterator[Term]:
        """The terms, in order."""
        return iter(self.terms)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the terms, in order."""
        return tuple(term.name for term in self.terms)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the expressions use; what functions use is not known."""
        sources = (term.source for term in self.terms)
        used = (names.column_names(s) for s in sources if isinstance(s, Expression))
        return tuple(dict.fromkeys(name for group in used for name in group))

    def evaluate(self, columns: Mapping[str, Any], *, xp: ModuleType = jnp) -> Any:
        """Value of every term at every row.

        Traceable and differentiable in the columns. Values outside the domain of a term are NaN
        or infinite; ``check_finite`` names them.

        Args:
          columns: arrays by name, all of one shape ``(n,)`` (or ``()`` for one row).
          xp: ``jax.numpy``, or ``numpy`` for float64 on the host whatever JAX's settings.

        Returns:
          ``features (n, L)`` in the common floating-point type of the terms.

        Raises:
          ExpressionError: a column is unknown or holds text, or the shapes differ.
          ValueError: ``columns`` is empty, or a function returns another shape.

        Example:
          >>> library = Library.from_expressions(["1", "x1^2"])
          >>> library.evaluate({"x1": jnp.array([2.0, 3.0])}).tolist()
          [[1.0, 4.0], [1.0, 9.0]]
        """
        if len(columns) == 0:
            raise ValueError("columns must hold at least one array, got none")
        shape = evaluation.row_shape(columns, columns)
        values = [term.evaluate(columns, xp=xp) for term in self.terms]
        return xp.stack(values, axis=-1) if values else xp.zeros((*shape, 0))

    def check_finite(self, features: Any, *, mask: Any = None) -> None:
        """Refuse terms that are NaN or infinite somewhere, by name; on the host.

        Args:
          features: ``(n, L)``, concrete.
          mask: ``(n,)`` bool, rows in use; all where None.

        Raises:
          ValueError: names each such term, the number of rows and the first row (from 0).

        Example:
          >>> library = Library.from_expressions(["log(x1)"])
          >>> library.check_finite(library.evaluate({"x1": jnp.array([1.0, -1.0])}))
          Traceback (most recent call last):
            ...
          ValueError: terms must be finite in the rows in use, got NaN or an infinite value for \
'log(x1)' in 1 of 2 rows (the first at row 1)
        """
        bad = ~np.isfinite(np.asarray(features))
        if bad.ndim != 2 or bad.shape[1] != len(self):
            raise ValueError(f"features must have shape (n, {len(self)}), got {bad.shape}")
        used = np.ones(len(bad), bool) if mask is None else np.asarray(mask, bool)
        bad &= used[:, None]
        found = [
            f"{name!r} in {rows.sum()} of {used.sum()} rows (the first at row {rows.argmax()})"
            for name, rows in zip(self.names, bad.T, strict=True)
            if rows.any()
        ]
        if found:
            raise ValueError(
                "terms must be finite in the rows in use, got NaN or an infinite value for "
                + ", ".join(found)
            )

    def latex(self) -> tuple[str, ...]:
        """LaTeX of every term; a function's is that of its name."""
        return tuple(export.to_latex(term.label) for term in self.terms)

    def sympy(self) -> tuple[Any, ...]:
        """SymPy form of every term; a function is opaque, a symbol of its name."""
        sources = (t.source if isinstance(t.source, Expression) else Column(t.name) for t in self)
        return tuple(export.to_sympy(source) for source in sources)

    def formula(self, support: Any, coefficients: Any, *, digits: int = 4) -> str:
        """The sum of the terms in a support, as text.

        Args:
          support: ``(L,)`` bool.
          coefficients: ``(L,)``; those off the support are not looked at.
          digits: significant digits.

        Returns:
          For example ``0.2 x1^3 - 1.1 sin(x1)``; ``0`` for an empty support.

        Example:
          >>> library = Library.from_expressions(["x1^3", "x1 + 1", "sin(x1)"])
          >>> library.formula([True, False, True], [0.2, 0.0, -1.1])
          '0.2 x1^3 - 1.1 sin(x1)'
        """
        support, values = np.asarray(support), np.asarray(coefficients, float)
        for name, array in (("support", support), ("coefficients", values)):
            if array.shape != (len(self),):
                raise ValueError(f"{name} must have shape ({len(self)},), got {array.shape}")
        if support.dtype != bool:
            raise TypeError(f"support must be boolean, got {support.dtype}")
        parts = [_summand(t, v, digits) for t, v, s in zip(self, values, support, strict=True) if s]
        text = " ".join(f"{sign} {product}" for sign, product in parts)
        return text[:1].replace("+", "") + text[2:] or "0"  # no space after the first sign


def _summand(term: Term, coefficient: float, digits: int) -> tuple[str, str]:
    """Sign, and coefficient times name."""
    number = f"{abs(coefficient):.{digits}g}"
    sign = "-" if coefficient < 0 else "+"
    if term.label == tree.Number(1):
        return sign, number
    bare = tree.precedence(term.label) >= tree.MULTIPLICATIVE and term.name[0] not in "-.0123456789"
    return sign, f"{number} {term.name}" if bare else f"{number} ({term.name})"
