"""Terms, libraries and their builders."""

import doctest
import importlib
import json
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.expressions import ExpressionError, parse
from lisdd_jax.library import Library, Term, hinge, polynomials, sign

X1 = np.array([-2.0, -0.5, 0.0, 0.7, 1.5])
X2 = np.array([0.3, 1.0, 2.0, 0.5, 4.0])
ROWS = {"x1": jnp.asarray(X1), "x2": jnp.asarray(X2)}
CORE = ["x1^2", "x1^3", "x2^2", "x2^3", "x1*x2", "sin(x1)"]


def test_from_expressions():
    library = Library.from_expressions(["x1**2", "x1 ^ 3", *CORE[2:]])
    assert library.names == tuple(CORE)
    assert library.columns == ("x1", "x2")
    assert len(library) == 6
    assert [term.name for term in library] == CORE
    expected = np.stack([X1**2, X1**3, X2**2, X2**3, X1 * X2, np.sin(X1)], axis=1)
    np.testing.assert_allclose(library.evaluate(ROWS), expected, rtol=1e-14)
    np.testing.assert_allclose(library.evaluate({"x1": X1, "x2": X2}, xp=np), expected, rtol=1e-15)


def test_from_expressions_checks_columns_and_syntax():
    with pytest.raises(ExpressionError, match="unknown column 'x3' at position 1 of 'x3\\^2'"):
        Library.from_expressions(["x1", "x3^2"], columns=["x1", "x2"])
    with pytest.raises(ExpressionError, match="unknown column 'x3'"):
        Library.from_expressions([parse("x3")], columns=["x1", "x2"])
    with pytest.raises(ExpressionError, match="expected"):
        Library.from_expressions(["x1", "x1 +"])
    with pytest.raises(TypeError, match="texts must be a list of expressions"):
        Library.from_expressions("x1^2")


def test_from_callables():
    functions = {
        "x1^3": lambda columns: columns["x1"] ** 3,
        "ramp on x2": lambda columns: jnp.maximum(columns["x2"] - 1, 0),
        "is positive": lambda columns: columns["x1"] > 0,
    }
    library = Library.from_callables(functions)
    assert library.names == tuple(functions)
    assert library.columns == ()
    expected = np.stack([X1**3, np.maximum(X2 - 1, 0), X1 > 0], axis=1)
    features = library.evaluate(ROWS)
    assert features.dtype == jnp.float64
    np.testing.assert_allclose(features, expected, rtol=1e-15)
    np.testing.assert_allclose(jax.jit(library.evaluate)(ROWS), expected, rtol=1e-15)


@pytest.mark.parametrize(
    "function, error, message",
    [
        (lambda c: c["x1"][:, None], ValueError, r"one value per row, shape \(5,\), got shape"),
        (lambda c: 1.0, ValueError, r"one value per row, shape \(5,\), got shape \(\)"),
        (lambda c: None, ValueError, "got None"),
        (lambda c: c["x9"], ValueError, r"raised KeyError\('x9'\); available columns: x1, x2"),
        (lambda c: c["x1"].astype(complex), TypeError, "term 'bad' must hold float32 or float64"),
        (lambda c: np.array(["a"] * 5), TypeError, "term 'bad' must hold real numbers"),
    ],
)
def test_callable_with_a_wrong_result(function, error, message):
    with pytest.raises(error, match=message):
        Library.from_callables({"bad": function}).evaluate(ROWS)


def test_terms_are_checked():
    with pytest.raises(ValueError, match="name of a term must be non-empty text, got ' '"):
        Term(" ", parse("x1"))
    with pytest.raises(TypeError, match="source of term 'x1' must be an expression or a function"):
        Term("x1", "x1")


def test_names_are_unique():
    with pytest.raises(ValueError, match=r"must be unique, got 'x1\^2', 'x2' more than once"):
        Library.from_expressions(["x1^2", "x2", "x1**2", "`x2`", "x1"])
    with pytest.raises(ValueError, match="must be unique, got 'x1' more than once"):
        polynomials(["x1"], 1) + Library.from_callables({"x1": lambda c: c["x1"]})


def test_sum_keeps_order():
    library = polynomials(["x1"], 2) + sign(["x1"]) + hinge("x2", [1])
    assert library.names == ("x1", "x1^2", "sign(x1)", "max(x2 - 1, 0)")
    with pytest.raises(TypeError):
        library + "x1"


def test_empty_library():
    library = Library.from_expressions([])
    assert library.evaluate(ROWS).shape == (5, 0)
    assert library.formula(np.zeros(0, bool), np.zeros(0)) == "0"
    assert (library + sign(["x1"])).names == ("sign(x1)",)


# Arrays.


def test_type_and_shape_of_features():
    library = Library.from_expressions(["1", "x1^2", "x1 > 0"])
    for dtype in (jnp.float32, jnp.float64):
        features = library.evaluate({"x1": jnp.ones(4, dtype)})
        assert features.shape == (4, 3)
        assert features.dtype == dtype
    assert library.evaluate({"x1": 2.0}).shape == (3,)
    with pytest.raises(ValueError, match="columns must hold at least one array"):
        library.evaluate({})
    with pytest.raises(ExpressionError, match=r"got \(4,\) for 'x1' and \(3,\) for 'x2'"):
        library.evaluate({"x1": np.ones(4), "x2": np.ones(3)})


def test_library_is_static_under_jit():
    @chex.assert_max_traces(1)
    def features(library, rows):
        return library.evaluate(rows)

    chex.clear_trace_counter()
    jitted = jax.jit(features)
    library = Library.from_expressions(CORE)
    eager = library.evaluate(ROWS)
    # Equal libraries and other numbers share one compilation; fusing may move the last bits.
    np.testing.assert_allclose(jitted(library, ROWS), eager, rtol=1e-14)
    again = Library.from_expressions(CORE)
    assert again == library
    assert hash(again) == hash(library)
    jitted(again, {name: 2 * values for name, values in ROWS.items()})


def test_vmap_is_loop_and_gradient_is_that_of_finite_differences():
    library = Library.from_expressions(["x1^3", "max(x1 - 1, 0)", "sin(x1)*x2"])
    mapped = jax.jit(jax.vmap(library.evaluate))(ROWS)
    np.testing.assert_allclose(mapped, library.evaluate(ROWS), rtol=1e-14)

    @jax.jit
    def shifted(shift):
        return library.evaluate({**ROWS, "x1": ROWS["x1"] + shift})

    step = 1e-6
    differences = (np.asarray(shifted(step)) - np.asarray(shifted(-step))) / (2 * step)
    # Central differences: step^2 of truncation, 1e-16 / step of rounding.
    slope = jax.jit(jax.jacrev(shifted))(0.0)
    np.testing.assert_allclose(slope, differences, rtol=1e-7, atol=1e-8)


def test_check_finite_names_term_count_and_first_row():
    library = Library.from_expressions(["x1", "log(x1)", "1/x1"])
    features = library.evaluate(ROWS)
    with pytest.raises(ValueError) as caught:
        library.check_finite(features)
    assert str(caught.value) == (
        "terms must be finite in the rows in use, got NaN or an infinite value for"
        " 'log(x1)' in 3 of 5 rows (the first at row 0),"
        " '1/x1' in 1 of 5 rows (the first at row 2)"
    )
    mask = np.array([False, True, False, True, True])
    with pytest.raises(ValueError, match=r"for 'log\(x1\)' in 1 of 3 rows \(the first at row 1\)$"):
        library.check_finite(features, mask=mask)
    library.check_finite(features, mask=X1 > 0)
    with pytest.raises(ValueError, match=r"features must have shape \(n, 3\), got \(5, 2\)"):
        library.check_finite(features[:, :2])


# Formulas and exports.


@pytest.mark.parametrize(
    "support, coefficients, expected",
    [
        ([1, 0, 1, 0, 0, 0], [0.2, 9, -1.1, 9, 9, 9], "0.2 x1^3 - 1.1 sin(x1)"),
        ([0, 0, 1, 0, 0, 0], [0, 0, -1.1, 0, 0, 0], "-1.1 sin(x1)"),
        ([0, 1, 0, 1, 1, 1], [0, 600, 0, 2, -3, 1], "600 + 2 (x1 + 1) - 3 (1/x2) + 1 (-x1*x2)"),
        ([0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], "0"),
        ([1, 0, 0, 0, 0, 0], [np.nan] * 6, "nan x1^3"),
        ([1, 0, 1, 0, 0, 0], [1234567.0, 0, 1e-9, 0, 0, 0], "1.235e+06 x1^3 + 1e-09 sin(x1)"),
    ],
)
def test_formula(support, coefficients, expected):
    library = Library.from_expressions(["x1^3", "1", "sin(x1)", "x1 + 1", "1/x2", "-x1*x2"])
    assert library.formula(np.array(support, bool), jnp.asarray(coefficients)) == expected


def test_formula_of_callables_and_digits():
    library = Library.from_callables(
        {
            "x1^3": lambda c: c["x1"] ** 3,
            "ramp - 1": lambda c: c["x1"],
            "my ramp": lambda c: c["x1"],
        }
    )
    text = library.formula(np.ones(3, bool), np.array([1 / 3, 1, 1]), digits=2)
    assert text == "0.33 x1^3 + 1 (ramp - 1) + 1 my ramp"


def test_formula_checks_its_arguments():
    library = Library.from_expressions(["x1", "x2"])
    with pytest.raises(ValueError, match=r"support must have shape \(2,\), got \(3,\)"):
        library.formula(np.ones(3, bool), np.ones(2))
    with pytest.raises(ValueError, match=r"coefficients must have shape \(2,\), got \(\)"):
        library.formula(np.ones(2, bool), 1.0)
    with pytest.raises(TypeError, match="support must be boolean, got int64"):
        library.formula(np.array([0, 1]), np.ones(2))


def test_latex():
    library = Library.from_expressions(["x1^3", "x1*x2"]) + Library.from_callables(
        {"x1^2": lambda c: c["x1"] ** 2, "my ramp": lambda c: c["x1"]}
    )
    assert library.latex() == (r"x_{1}^{3}", r"x_{1} \, x_{2}", r"x_{1}^{2}", r"\mathrm{my\ ramp}")


def test_sympy():
    sympy = pytest.importorskip("sympy")
    x1, x2 = sympy.symbols("x1 x2", real=True)
    library = Library.from_expressions(CORE)
    assert library.sympy() == (x1**2, x1**3, x2**2, x2**3, x1 * x2, sympy.sin(x1))
    # What a function computes is not known: it is a symbol of its name.
    opaque = Library.from_callables({"x1^2": lambda c: c["x1"]})
    assert opaque.sympy() == (sympy.Symbol("x1^2", real=True),)


@pytest.mark.parametrize("name", ["terms", "builders"])
def test_doctests(name):
    outcome = doctest.testmod(importlib.import_module(f"lisdd_jax.library.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_terms_of_real_tables(shared):
    """Response, physics, axis, row filters and terms of the real tables, against NumPy."""
    pd = pytest.importorskip("pandas")
    folder = shared / "data"
    for entry in json.loads((folder / "index.json").read_text()):
        table = pd.read_csv(folder / entry["csv"])
        columns = {name: table[name].to_numpy() for name in table.columns}
        scope = {"np": np, "maximum": np.maximum, "one": np.ones(len(table)), **columns}
        texts = {entry["y"], entry["axis"], entry["clean"], entry["use"] or "one"}
        texts.update(entry["phi"].values(), *entry["library"].values())
        for text in sorted(texts):
            term = Term.from_expression(re.sub(r"\bone\b", "1", text).replace("np.", ""))
            value = term.evaluate(columns, xp=np)
            words = re.search(r"\b(in|and)\b", text)
            with np.errstate(all="ignore"):
                reference = table.eval(text, engine="python") if words else eval(text, scope)
            np.testing.assert_allclose(value, np.asarray(reference, float), rtol=1e-14)
