"""Formulas and candidate terms as people write them elsewhere."""

import numpy as np
import pytest

from lisdd_jax.expressions import ExpressionError
from lisdd_jax.library import Library, Term, as_terms, from_pysindy
from lisdd_jax.tables import formula, problem

NAMES = ["demand", "workday", "temp", "day", "wall temp", "z"]


@pytest.mark.parametrize(
    "text, physics, intercept",
    [
        ("demand ~ workday + temp | temp", ("workday", "temp"), True),
        ("demand ~ workday - 1 | temp", ("workday",), False),
        ("demand ~ workday + 0 | temp", ("workday",), False),
        ("demand ~ 0 + workday | temp", ("workday",), False),
        ("demand ~ -1 + workday | temp", ("workday",), False),
        ("demand ~ 1 + workday | temp", ("workday",), True),
        ("demand ~ 1 | temp", (), True),
        ("demand~workday*temp^-1+2e-3*z|temp", ("workday*temp^-1", "2e-3*z"), True),
        ("demand ~ (temp - 18)^2 + max(temp - 18, 0) | temp",
         ("(temp - 18)^2", "max(temp - 18, 0)"), True),
        ("demand ~ C(day) + `wall temp` | temp", ("C(day)", "`wall temp`"), True),
        ("demand ~ wall temp | temp", ("wall temp",), True),
        ("demand ~ (day == 'a|b ~ c + d') | temp", ("(day == 'a|b ~ c + d')",), True),
    ],
)  # fmt: skip
def test_parts_of_a_formula(text, physics, intercept):
    found = formula.parse_formula(text, NAMES)
    assert (found.response, found.axis) == ("demand", "temp")
    assert (found.physics, found.intercept) == (physics, intercept)


def test_expressions_on_every_side():
    found = formula.parse_formula("log10(demand) ~ z | temp/10", NAMES)
    assert (found.response, found.axis) == ("log10(demand)", "temp/10")


@pytest.mark.parametrize(
    "text, words",
    [
        ("demand", "a formula must have the form 'response ~ physics | axis', got 'demand'"),
        ("demand ~ temp", "the axis, along which it may fail, stands after '|'"),
        ("demand ~ | temp", "a formula must have the form"),
        ("~ temp | temp", "a formula must have the form"),
        ("demand ~ temp | z | day", "a formula must have the form"),
        ("demand ~ temp ~ z | z", "a formula must have the form"),
        ("demand ~ temp - z | temp", "only '- 1' may follow a minus between terms, got '- z'"),
        ("demand ~ temp + | temp", "physics: a term is missing in 'temp +'"),
        ("demand ~ tmp | temp", "physics: unknown column 'tmp' at position 1 of 'tmp'; did you"),
        ("demnd ~ temp | temp", "response: unknown column 'demnd'"),
        ("demand ~ temp | tmp", "axis: unknown column 'tmp'"),
        ("demand ~ C(dy) | temp", "physics: unknown column 'dy'"),
        ("demand ~ 2temp | temp", "physics: expected an operator or the end at position 2"),
    ],
)
def test_wrong_formulas(text, words):
    with pytest.raises(ExpressionError) as caught:
        formula.parse_formula(text, NAMES)
    assert words in str(caught.value)


def test_a_formula_gives_the_problem_of_its_parts():
    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=9), "x": rng.normal(size=9), "k": ["a", "b", "c"] * 3}
    by_hand = problem.from_table(
        data, response="y", physics=["x", "C(k)"], axis="x", library=["x^2"], intercept=True
    )
    parts = formula.parse_formula("y ~ x + k | x", list(data))
    found = problem.from_table(data, **vars(parts), library=["x^2"])
    np.testing.assert_array_equal(found.design, by_hand.design)
    assert found.physics == by_hand.physics


def test_candidates_of_every_kind():
    squares = Library.from_expressions(["x^2"])
    found = as_terms(["x", squares, Term("z", squares.terms[0].source)], ["x"])
    assert found == ["x", squares.terms[0], Term("z", squares.terms[0].source)]
    assert as_terms("x^3", ["x"]) == ["x^3"]
    with pytest.raises(TypeError, match="candidates must be strings, .* got int"):
        as_terms(3, ["x"])
    functions = Library.from_callables({"double": lambda columns: 2 * columns["x"]})
    data = {"x": [1.0, 2.0, 3.0]}
    parts = {"response": "x", "physics": ["1"], "axis": "x"}
    with pytest.raises(problem.ProblemError, match="library must hold .* the function 'double'"):
        problem.from_table(data, **parts, library=as_terms(functions, ["x"]))
    assert problem.from_table(data, **parts, library=squares).features.tolist() == [[1], [4], [9]]


@pytest.fixture
def pysindy():
    return pytest.importorskip("pysindy")


COLUMNS = ["u", "wall temp"]


def test_libraries_of_pysindy(pysindy):
    polynomials = pysindy.PolynomialLibrary(degree=2)
    fourier = pysindy.FourierLibrary(n_frequencies=2)
    assert from_pysindy(polynomials, COLUMNS).names == (
        "1", "u", "`wall temp`", "u^2", "u*`wall temp`", "`wall temp`^2",
    )  # fmt: skip
    assert from_pysindy(fourier, ["u"]).names == ("sin(u)", "cos(u)", "sin(2*u)", "cos(2*u)")
    both = pysindy.IdentityLibrary() + fourier * pysindy.IdentityLibrary()
    points = np.random.default_rng(1).uniform(0.5, 1.5, (7, 2))
    found = from_pysindy(both, COLUMNS)
    values = found.evaluate(dict(zip(COLUMNS, points.T, strict=True)), xp=np)
    np.testing.assert_allclose(values, both.fit(points).transform(points), rtol=1e-12)
    assert not hasattr(polynomials, "n_features_in_"), "the library given stays as it is"


def test_named_functions_of_pysindy(pysindy):
    def library(*names):
        functions = [lambda x: np.exp(-x), lambda x, y: x * y]
        return pysindy.CustomLibrary(library_functions=functions, function_names=list(names))

    named = library(lambda x: f"exp(-{x})", lambda x, y: x + y)
    assert from_pysindy(named, COLUMNS).names == (
        "exp(-u)", "exp(-`wall temp`)", "u*`wall temp`",
    )  # fmt: skip
    for wrong, shown in (
        (pysindy.CustomLibrary(library_functions=[lambda x: np.exp(x)]), "'f0(u)'"),
        (library(lambda x: f"exp({x})", lambda x, y: x + y), "'exp(u)'"),
        (library(lambda x: f"exp(-{x}", lambda x, y: x + y), "'exp(-u'"),
    ):
        with pytest.raises(ValueError, match="must be a formula in the grammar") as caught:
            from_pysindy(wrong, COLUMNS)
        assert f"feature {shown}" in str(caught.value)


def test_candidates_may_hold_a_library_of_pysindy(pysindy):
    found = as_terms(["max(u, 0)", pysindy.PolynomialLibrary(degree=1)], ["u"])
    assert [str(getattr(term, "source", term)) for term in found] == ["max(u, 0)", "1", "u"]
