"""LaTeX and SymPy forms of expressions."""

import functools
import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from lisdd_jax.expressions import ExpressionError, evaluate, parse, to_latex, to_sympy
from lisdd_jax.expressions.functions import FUNCTIONS
from lisdd_jax.expressions.tree import (
    Binary,
    Column,
    Negative,
    Number,
)

X = np.array([-2.0, -0.5, 0.0, 0.7, 1.5, 3.0])
Y = np.array([0.3, 1.0, 2.0, 0.5, 4.0, 1.2])

SMOOTH = [
    "x^3 - 1.5*x*y + 2",
    "sin(x)*exp(-y)/(1 + x^2)",
    "log(y)^2 + sqrt(y) + y^x + cbrt(y)",
    "max(x - 1, 0) + abs(x + 0.25)*tanh(x)",
    "(x > 0.1)*x^3 + clip(x, -1, 1)",
    "y^-2 + log1p(y) + expm1(x) + atan2(x, y)",
    "asin(x/4) + acos(x/4) + atan(x) + sinh(x) + cosh(x) + tan(x/4) + log2(y)*log10(y)",
]


settings = functools.partial(hypothesis.settings, deadline=None, derandomize=True)

LATEX = [
    ("x1^3", r"x_{1}^{3}"),
    ("sin(x1)^2", r"\left(\sin\left(x_{1}\right)\right)^{2}"),
    ("1/Re", r"\frac{1}{\mathrm{Re}}"),
    ("max(temp_C - 18, 0)", r"\max\left(\mathrm{temp\_C} - 18, 0\right)"),
    ("-velocity*speed", r"-\mathrm{velocity} \, \mathrm{speed}"),
    ("abs(y0)*y0", r"\left|y_{0}\right| \, y_{0}"),
    ("a*2", r"a \cdot 2"),
    ("a - (b - c)", r"a - \left(b - c\right)"),
    ("a - (-b)", r"a - \left(-b\right)"),
    ("--a", r"-\left(-a\right)"),
    ("-(a + b)", r"-\left(a + b\right)"),
    ("(a + b)*c", r"\left(a + b\right) \, c"),
    ("a*(b*c)", r"a \, \left(b \, c\right)"),
    ("(a/b)*c", r"\frac{a}{b} \, c"),
    ("(a/b)^2", r"\left(\frac{a}{b}\right)^{2}"),
    ("(-a)^2", r"\left(-a\right)^{2}"),
    ("-a^2", r"-a^{2}"),
    ("a^b^c", r"a^{b^{c}}"),
    ("(a^b)^c", r"\left(a^{b}\right)^{c}"),
    ("1e-7*theta", r"1 \cdot 10^{-7} \, \theta"),
    ("(1e-7)^2", r"\left(1 \cdot 10^{-7}\right)^{2}"),
    ("pi*e*sigma_2", r"\pi \, \mathrm{e} \, \sigma_{2}"),
    ("log10(Re) + ln(x) + log2(x)", None),
    ("sqrt(x)*cbrt(x)", r"\sqrt{x} \, \sqrt[3]{x}"),
    ("(x > 2)*x^3", r"\mathbf{1}\left[x > 2\right] \, x^{3}"),
    ("x > 2 and not (y <= 3 or z)", None),
    ("x_*x", r"\mathrm{x\_} \, x"),
    ("`50% of $`", r"\mathrm{50\%\ of\ \$}"),
    ("k == 'a_b'", r"\mathbf{1}\left[k \in \left\{\mathrm{a\_b}\right\}\right]"),
    ("k in (1, -2)", r"\mathbf{1}\left[k \in \left\{1, -2\right\}\right]"),
]
LATEX_LONG = {
    "log10(Re) + ln(x) + log2(x)": (
        r"\log_{10}\left(\mathrm{Re}\right) + \ln\left(x\right) + \log_{2}\left(x\right)"
    ),
    "x > 2 and not (y <= 3 or z)": (
        r"\mathbf{1}\left[x > 2 \wedge \neg \left(y \leq 3 \vee z \neq 0\right)\right]"
    ),
}


@pytest.mark.parametrize("text, latex", LATEX)
def test_latex(text, latex):
    assert to_latex(parse(text)) == (latex or LATEX_LONG[text])


def test_latex_is_set_by_matplotlib():
    mathtext = pytest.importorskip("matplotlib.mathtext")
    parser = mathtext.MathTextParser("path")
    calls = [f"{n}({', '.join('xyz'[: f.least])})" for n, f in FUNCTIONS.items()]
    others = ["x >= 1 and x <= 2 or not x != 3", "k in ('a b', '{c}')", r"`a^b~c\d`*`%$#_`"]
    for text in [*calls, *others, *(text for text, _ in LATEX)]:
        parser.parse(f"${to_latex(parse(text))}$")


SYMBOLIC = [
    *SMOOTH,
    "x^3",
    "-x^2 + 2^-x - y^0.5^2",
    "abs(x)*x + sign(x) + floor(x) + mod(x, 0.75)",
    "max(x, y, 1) - min(x, 0.3)",
    "(x > 0)*x^3 + (y <= 1 or x == 0.7)*2 + (not x)",
    "(x > 0 and not y < 1) + x",
    "x in (0, -0.5, 3)",
    "2^10*x + sqrt(2)*y + pi/e + log10(2100)",
    "(2 > 1)*x",
]


@pytest.mark.parametrize("text", SYMBOLIC)
def test_sympy_agrees_numerically(text):
    sympy = pytest.importorskip("sympy")
    expression = parse(text)
    symbols = sympy.symbols("x y", real=True)
    formula = to_sympy(expression)
    assert formula.free_symbols <= set(symbols)
    expected = evaluate(expression, {"x": X, "y": Y}, xp=np)
    exact = [[sympy.Rational(v) for v in row] for row in zip(X, Y, strict=True)]
    values = [float(formula.subs(zip(symbols, row, strict=True)).evalf(30)) for row in exact]
    np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-13)


ARITHMETIC_TREES = st.recursive(
    st.sampled_from(["x", "y"]).map(Column) | st.integers(0, 3).map(Number),
    lambda children: (
        st.builds(Binary, st.sampled_from("+-*/"), children, children)
        | st.builds(Negative, children)
        | st.builds(lambda base, n: Binary("^", base, Number(n)), children, st.integers(0, 2))
    ),
    max_leaves=8,
)


@hypothesis.given(ARITHMETIC_TREES)
@settings(max_examples=100)
def test_sympy_agrees_on_random_trees(expression):
    sympy = pytest.importorskip("sympy")
    expected = evaluate(expression, {"x": 1.5, "y": 0.75}, xp=np)
    hypothesis.assume(np.isfinite(expected))
    try:
        formula = to_sympy(expression)
    except ExpressionError as error:
        assert "not finite" in str(error)  # noqa: PT017
        return
    substitutes = {sympy.Symbol("x", real=True): 1.5, sympy.Symbol("y", real=True): 0.75}
    value = formula.evalf(30, subs=substitutes)
    hypothesis.assume(value.is_finite)
    # Cancellation: the error of float64 is relative to the parts, not to their sum.
    np.testing.assert_allclose(float(value), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "text, fragment",
    [
        ("kind == 'a'", "SymPy has no text"),
        ("log(-1)*x", "not finite"),
        ("x/0", "not finite"),
        ("9^9^9", "not finite"),
    ],
)
def test_sympy_refusals(text, fragment):
    pytest.importorskip("sympy")
    with pytest.raises(ExpressionError, match=fragment):
        to_sympy(parse(text))


def test_sympy_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(ImportError, match="export to SymPy needs SymPy"):
        to_sympy(parse("x"))
