"""The grammar of expressions: what is read, how it prints, what is refused."""

import doctest
import importlib
import time

import numpy as np
import pytest

from lisdd_jax import expressions
from lisdd_jax.expressions import ExpressionError, evaluate, parse, to_latex, to_sympy
from lisdd_jax.expressions.grammar import MAX_DEPTH, MAX_LENGTH

X = np.array([-2.0, -0.5, 0.0, 0.7, 1.5, 3.0])
Y = np.array([0.3, 1.0, 2.0, 0.5, 4.0, 1.2])
ROWS = {
    "x": X,
    "y": Y,
    "air temp": 10 * Y,
    "kind": np.array(["a", "b", "b", "it's", "c", "a"], object),
}


CANONICAL = [
    ("x1^3", "x1^3"),
    ("x1**3", "x1^3"),
    ("pow(x1, 3)", "x1^3"),
    ("power(x1, 3)", "x1^3"),
    ("max(temp-18,0)", "max(temp - 18, 0)"),
    ("maximum( temp - 18 ,0 ) ** 2", "max(temp - 18, 0)^2"),
    ("ln(x)", "log(x)"),
    ("-velocity*speed", "-velocity*speed"),
    ("-(velocity*speed)", "-(velocity*speed)"),
    ("+x", "x"),
    ("a-(b-c)", "a - (b - c)"),
    ("(a-b)-c", "a - b - c"),
    ("a/(b*c)", "a/(b*c)"),
    ("a*-b", "a*(-b)"),
    ("(x^2)^3", "(x^2)^3"),
    ("x^(2^3)", "x^2^3"),
    ("2^(-x)", "2^-x"),
    ("(-x)^2", "(-x)^2"),
    ("-(x^2)", "-x^2"),
    ("1.50e2*x + 1e-7 + 1E16", "150*x + 1e-07 + 1e+16"),
    (".5*x + 2.", "0.5*x + 2"),
    ("`air temp`*`c``d`*`x`*`or`", "`air temp`*`c``d`*x*`or`"),
    ("pi*e*`pi`", "pi*e*`pi`"),
    ("not(a<b) and (c or d)", "not a < b and (c or d)"),
    ("(a<b)==(c<d)", "(a < b) == (c < d)"),
    ("fluid == 'Water'", "fluid == 'Water'"),
    ('fluid != "it\'s"', "not fluid == 'it''s'"),
    ("ball in ('a',\"b\")", "ball in ('a', 'b')"),
    ("k not in (1,-2.5)", "not k in (1, -2.5)"),
    ("θ*x_1", "θ*x_1"),
    ("\n x\t+ 1 ", "x + 1"),
]


@pytest.mark.parametrize("text, canonical", CANONICAL)
def test_canonical_text(text, canonical):
    expression = parse(text)
    assert str(expression) == canonical
    assert parse(canonical) == expression
    assert hash(parse(canonical)) == hash(expression)


ERRORS = [
    ("", 1, "expected a number, a column, a function or '(' at position 1 of '', got the end"),
    ("sin(x1 +", 9, "got the end"),
    ("sin(x1", 7, "expected an operator, ',' or ')'"),
    ("(x1", 4, "expected an operator or ')'"),
    ("x1)", 3, "expected an operator or the end at position 3 of 'x1)', got ')'"),
    ("2x", 2, "got 'x'"),
    ("x y", 3, "expected an operator or the end"),
    ("sin x", 5, "expected '(' after sin at position 5 of 'sin x', got 'x'"),
    ("x +* y", 4, "got '*'"),
    ("1.2.3", 4, "got '.3'"),
    ("1e999", 1, "within the range of floating point"),
    ("1e-999", 1, "within the range of floating point"),
    ("f(x)", 1, "unknown function 'f'"),
    ("sni(x)", 1, "unknown function 'sni' at position 1 of 'sni(x)'; did you mean sin"),
    ("x + max(x)", 5, "expected at least 2 arguments for max at position 5"),
    ("sin(x, y)", 1, "expected 1 argument for sin at position 1 of 'sin(x, y)', got 2"),
    ("sin()", 1, "expected 1 argument for sin at position 1 of 'sin()', got 0"),
    ("clip(x, 1)", 1, "expected 3 arguments for clip"),
    ("pow(x)", 1, "expected 2 arguments for pow"),
    ("max(x,)", 7, "got ')'"),
    ("(x, y)", 3, "got ','"),
    ("a < b < c", 7, "'a < b and b < c'"),
    ("a in (1) in (2)", 10, "between two comparisons"),
    ("a = b", 3, "expected '==' at position 3 of 'a = b', got '='"),
    ("a & b", 3, "expected 'and'"),
    ("a % b", 3, "expected 'mod(a, b)'"),
    ("a + not b", 5, "got 'not'"),
    ("a not b", 7, "expected 'in' after 'not'"),
    ("x in 3", 6, "expected a list in parentheses"),
    ("x in ()", 7, "expected text or a number in the list"),
    ("x in (1, 'a')", 10, "all text or all numbers"),
    ("x in (1 2)", 9, "expected ',' or ')' in the list"),
    ("x + 1 in (1, 2)", 7, "expected a single column to the left of 'in'"),
    ("x*2 == 'a'", 5, "expected a single column to the left of '=='"),
    ("x + 'a'", 5, "got text, which may stand right of"),
    ("'a' == x", 1, "got text, which may stand right of"),
    ("`x", 1, "expected a closing `"),
    ("``", 1, "expected a column name between the backticks"),
    ("x == 'a", 6, "expected a closing '"),
    ("x²", 1, "expected a name of letters, digits and '_'"),
    ("x − 1", 3, "got '−'"),
    ("x[0]", 2, "got '['"),
    ("x.real", 2, "got '.'"),
    ("y" + " + y" * 60 + " $", 243, "got '$'"),
]


@pytest.mark.parametrize("text, position, fragment", ERRORS)
def test_syntax_error_says_where_and_what(text, position, fragment):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    message = str(caught.value)
    assert caught.value.position == position
    assert f"position {position} of" in message
    assert fragment in message
    assert "\n" not in message
    assert len(message) < 400


def test_long_text_is_cut_in_messages():
    with pytest.raises(ExpressionError, match=r"'\.\.\.[y +]+\$[y +]+\.\.\.'"):
        parse("y + " * 50 + "$" + " + y" * 50)


def test_unknown_column_lists_near_matches():
    with pytest.raises(ExpressionError) as caught:
        parse("1 + sin(Temp_C)", ["temp_C", "hour"])
    assert str(caught.value) == (
        "unknown column 'Temp_C' at position 9 of '1 + sin(Temp_C)'; did you mean 'temp_C'?"
        " available columns: temp_C, hour"
    )
    assert caught.value.position == 9
    with pytest.raises(ExpressionError, match="in 'z'; available columns: x, y, air temp, kind"):
        evaluate(parse("z"), ROWS)
    with pytest.raises(ExpressionError, match=r"c0, .*, c19 and 30 more$"):
        parse("z", [f"c{i}" for i in range(50)])


def test_constant_never_hides_a_column():
    with pytest.raises(ExpressionError, match="both a constant and a column"):
        parse("2*e", ["e"])
    with pytest.raises(ExpressionError, match="both a constant and a column"):
        evaluate(parse("2*e"), {"e": X})
    np.testing.assert_array_equal(evaluate(parse("`e`"), {"e": X}, xp=np), X)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "x.__class__",
        "().__class__",
        "lambda: 0",
        "[x for x in y]",
        "x if y else z",
        "x; y",
        "x := 1",
        "f'{x}'",
        "eval(x)",
        "getattr(x, y)",
        "__class__()",
    ],
)
def test_nothing_of_python_is_reachable(text):
    with pytest.raises(ExpressionError):
        parse(text)


def test_dunder_names_are_only_column_names():
    with pytest.raises(ExpressionError, match="unknown column '__class__'"):
        evaluate(parse("__class__"), ROWS)
    rows = {"__index_level_0__": X}
    np.testing.assert_array_equal(evaluate(parse("__index_level_0__"), rows, xp=np), X)


def test_text_must_be_a_string():
    with pytest.raises(TypeError, match="text must be a string, got int"):
        parse(3)


DEEP = [
    "(" * 3000 + "x" + ")" * 900,
    "-" * 3000 + "x",
    "not " * 900 + "x",
    "x^" * 1900 + "x",
    "x + " * 900 + "x",
    "sin(" * 900 + "x" + ")" * 300,
    "(x <" * 900 + "x",
]


@pytest.mark.parametrize("text", DEEP, ids=[text[:8] for text in DEEP])
def test_deep_text_is_refused(text):
    with pytest.raises(ExpressionError, match=f"expected at most {MAX_DEPTH} levels"):
        parse(text)


def test_long_text_is_refused():
    with pytest.raises(ExpressionError, match=f"at most {MAX_LENGTH} characters, got 10000000"):
        parse("1" * 10_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_DEPTH - 1) + "x" + ")" * (MAX_DEPTH - 1),
        "x" + " + x" * (MAX_DEPTH - 1),
        "x^" * (MAX_DEPTH - 2) + "x",
        "sin(" * (MAX_DEPTH - 2) + "x" + ")" * (MAX_DEPTH - 2),
    ],
)
def test_deepest_allowed_text_works_everywhere(text):
    expression = parse(text)
    assert parse(str(expression)) == expression
    assert hash(expression) == hash(parse(text))
    assert to_latex(expression)
    to_sympy(expression)
    assert evaluate(expression, ROWS, xp=np).shape == X.shape


@pytest.mark.parametrize(
    "text",
    ["9^9^9^9^9", "x^9^9^9", "(3*x)^1e15", "(((3*x)^64)^64)^64", "x^-99999", "exp(1e9*ln(3*y))"],
)
def test_huge_exponents_do_not_hang(text):
    expression = parse(text)
    start = time.perf_counter()
    evaluate(expression, ROWS, xp=np)
    evaluate(expression, ROWS)
    try:
        to_sympy(expression)
    except ExpressionError as error:
        assert "not finite" in str(error)  # noqa: PT017
    # Milliseconds, and compilation; exact integer powers would take hours.
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("name", ["tree", "names", "grammar", "evaluation", "export"])
def test_doctests(name):
    module = importlib.import_module(f"{expressions.__name__}.{name}")
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0
