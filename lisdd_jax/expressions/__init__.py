"""Arithmetic expressions over columns: read by a grammar, evaluated by JAX, printed as formulas."""

from lisdd_jax.expressions.evaluation import evaluate
from lisdd_jax.expressions.export import import_sympy, to_latex, to_sympy
from lisdd_jax.expressions.grammar import parse
from lisdd_jax.expressions.names import check_columns, column_names, suggest
from lisdd_jax.expressions.tree import Expression, ExpressionError, to_text

__all__ = [
    "Expression",
    "ExpressionError",
    "check_columns",
    "column_names",
    "evaluate",
    "import_sympy",
    "parse",
    "suggest",
    "to_latex",
    "to_sympy",
    "to_text",
]
