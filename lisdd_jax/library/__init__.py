"""Candidate terms of the missing mechanism: from expressions, from functions, from builders."""

from lisdd_jax.library.builders import hinge, polynomials, saturation, sign, trigonometric
from lisdd_jax.library.candidates import as_terms, from_pysindy
from lisdd_jax.library.terms import Library, Term

__all__ = [
    "Library",
    "Term",
    "as_terms",
    "from_pysindy",
    "hinge",
    "polynomials",
    "saturation",
    "sign",
    "trigonometric",
]
