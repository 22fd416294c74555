"""Expressions on random trees and texts."""

import functools
from datetime import datetime

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from lisdd_jax.expressions import ExpressionError, evaluate, parse, to_latex
from lisdd_jax.expressions.functions import FUNCTIONS
from lisdd_jax.expressions.tree import (
    Binary,
    Call,
    Column,
    Constant,
    Date,
    Membership,
    Negative,
    Not,
    Number,
)

X = np.array([-2.0, -0.5, 0.0, 0.7, 1.5, 3.0])
Y = np.array([0.3, 1.0, 2.0, 0.5, 4.0, 1.2])
ROWS = {
    "x": X,
    "y": Y,
    "air temp": 10 * Y,
    "kind": np.array(["a", "b", "b", "it's", "c", "a"], object),
}


settings = functools.partial(hypothesis.settings, deadline=None, derandomize=True)

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=4)
NUMBERS = st.floats(0, allow_nan=False, allow_infinity=False) | st.integers(0, 9).map(float)
LEAVES = (
    NUMBERS.map(lambda value: Number(abs(value)))
    | st.sampled_from(["x", "y", "air temp"]).map(Column)
    | st.sampled_from(["pi", "e"]).map(Constant)
    | st.datetimes(min_value=datetime(1800, 1, 1)).map(lambda moment: Date(moment.isoformat()))
)
CONDITIONS = st.builds(
    Membership,
    st.just(Column("kind")),
    st.lists(TEXT | st.sampled_from(["a", "it's"]), min_size=1, max_size=3).map(tuple),
) | st.builds(
    Membership,
    st.just(Column("x")),
    st.lists(st.sampled_from([-0.5, 0.0, 3.0, 1e300]), min_size=1, max_size=3).map(tuple),
)


def call(children):
    def arguments(name):
        least = FUNCTIONS[name].least
        most = least if FUNCTIONS[name].most else 3
        listed = st.lists(children, min_size=least, max_size=most).map(tuple)
        return st.builds(Call, st.just(name), listed)

    return st.sampled_from(sorted(FUNCTIONS)).flatmap(arguments)


def inner(operators, negation=Not):
    def extend(children):
        binary = st.builds(Binary, st.sampled_from(operators), children, children)
        signs = st.builds(Negative, children) | st.builds(negation, children)
        return binary | signs | call(children)

    return extend


OPERATORS = ["+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "and", "or"]
TREES = st.recursive(LEAVES | CONDITIONS, inner(OPERATORS), max_leaves=25)


@hypothesis.given(TREES)
@settings(max_examples=150)
def test_canonical_text_reads_back(expression):
    again = parse(str(expression))
    assert again == expression
    assert str(again) == str(expression)
    value = evaluate(expression, ROWS, xp=np)
    np.testing.assert_array_equal(evaluate(again, ROWS, xp=np), value)
    assert to_latex(expression) == to_latex(again)


@hypothesis.given(TEXT)
@settings(max_examples=200)
def test_any_column_name_reads_back(name):
    expression = Binary("*", Column(name), Column("x"))
    assert parse(str(expression)) == expression
    assert to_latex(expression)


@hypothesis.given(st.text(max_size=60) | st.text("xy01.e+-*/^()<>=!,'` andotrpimx", max_size=40))
@settings(max_examples=500)
def test_any_text_parses_or_is_refused_in_one_sentence(text):
    try:
        expression = parse(text)
    except ExpressionError as error:
        assert 1 <= error.position <= len(text) + 1  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert parse(str(expression)) == expression


PYTHON_TEXT = st.recursive(
    st.sampled_from(["x", "y", "1", "2", "3", "0.5", ".25", "1e1"]),
    lambda children: (
        st.builds(
            "{}{}{}".format,
            children,
            st.sampled_from(["+", "-", "*", "/", "**", "<", ">="]),
            children,
        )
        | st.builds("({})".format, children)
        | st.builds("-{}".format, children)
        | st.builds("{}**{}".format, children, st.sampled_from(["2", "3", "-1"]))
        | st.builds("abs({})".format, children)
    ),
    max_leaves=12,
)


@hypothesis.given(PYTHON_TEXT, st.floats(-3, 3), st.floats(0.25, 3))
@settings(max_examples=500, suppress_health_check=[hypothesis.HealthCheck.filter_too_much])
def test_precedence_is_that_of_python(text, x, y):
    try:
        expression = parse(text)
    except ExpressionError as error:
        # Python chains comparisons, this grammar does not.
        hypothesis.assume("between two comparisons" not in str(error))
        raise
    try:
        expected = eval(text, {"x": x, "y": y, "abs": abs})
    except (ZeroDivisionError, OverflowError):
        hypothesis.reject()
    hypothesis.assume(not isinstance(expected, complex))
    value = float(evaluate(expression, {"x": np.float64(x), "y": np.float64(y)}, xp=np))
    # NumPy's power of an array and the C library's pow of Python may differ in the last bit.
    assert value == pytest.approx(float(expected), rel=1e-9, abs=1e-12, nan_ok=True)
