"""Values of expressions: arithmetic, missing values, types, transforms."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.expressions import ExpressionError, evaluate, parse, to_latex
from lisdd_jax.expressions.functions import ALIASES, FUNCTIONS

X = np.array([-2.0, -0.5, 0.0, 0.7, 1.5, 3.0])
Y = np.array([0.3, 1.0, 2.0, 0.5, 4.0, 1.2])
ROWS = {
    "x": X,
    "y": Y,
    "air temp": 10 * Y,
    "kind": np.array(["a", "b", "b", "it's", "c", "a"], object),
}


def host(text):
    return evaluate(parse(text), ROWS, xp=np)


VALUES = [
    ("1", np.ones(6)),
    ("-x^2", -(X**2)),
    ("2^3^2", np.full(6, 512.0)),
    ("2^-1", np.full(6, 0.5)),
    ("-2^2", np.full(6, -4.0)),
    ("x - y - 1", X - Y - 1),
    ("12/y/2*3", 12 / Y / 2 * 3),
    ("x*y^2", X * Y**2),
    ("abs(x)*x", abs(X) * X),
    ("y^x", Y**X),
    ("max(x, y, 1)", np.maximum(np.maximum(X, Y), 1)),
    ("min(x, 0.5)", np.minimum(X, 0.5)),
    ("clip(x, -1, 1)", np.clip(X, -1, 1)),
    ("cbrt(x)^3", X),
    ("mod(x, 2)", np.mod(X, 2)),
    ("atan2(x, y)", np.arctan2(X, Y)),
    ("log10(y) + log2(y) + ln(y)", np.log10(Y) + np.log2(Y) + np.log(Y)),
    ("sin(pi) + log(e)", np.full(6, np.sin(np.pi) + 1)),
    ("`air temp` - 18", 10 * Y - 18),
    ("x > 0.5", (X > 0.5).astype(float)),
    ("(x > 0)*x^3", (X > 0) * X**3),
    ("x >= 0 and y < 2", ((X >= 0) & (Y < 2)).astype(float)),
    ("x < 0 or y == 4", ((X < 0) | (Y == 4)).astype(float)),
    ("not x < 0 and y < 2", (~(X < 0) & (Y < 2)).astype(float)),
    ("not (x < 0 and y < 2)", (~((X < 0) & (Y < 2))).astype(float)),
    ("x <= 0 or x >= 1 and y != 4", ((X <= 0) | ((X >= 1) & (Y != 4))).astype(float)),
    ("x + 1 < y*2", (X + 1 < Y * 2).astype(float)),
    ("x in (0, -0.5, 3)", np.isin(X, [0, -0.5, 3]).astype(float)),
    ("kind == 'a'", [1, 0, 0, 0, 0, 1]),
    ("kind != 'a'", [0, 1, 1, 1, 1, 0]),
    ("kind in ('b', 'it''s')", [0, 1, 1, 1, 0, 0]),
    ("kind not in ('b', 'c') and x > 0", [0, 0, 0, 1, 0, 1]),
]


@pytest.mark.parametrize("text, expected", VALUES)
def test_value(text, expected):
    np.testing.assert_allclose(host(text), expected, rtol=1e-15, atol=1e-15)
    # XLA's elementary functions differ from the C library's in the last bits.
    np.testing.assert_allclose(evaluate(parse(text), ROWS), expected, rtol=1e-14, atol=1e-14)


def test_every_function_and_alias():
    for name, function in FUNCTIONS.items():
        arguments = ", ".join(["y", "x", "2"][: function.least])
        expression = parse(f"{name}({arguments})")
        assert str(expression) == f"{name}({arguments})"
        on_device = evaluate(expression, ROWS)
        on_host = evaluate(expression, ROWS, xp=np)
        np.testing.assert_allclose(on_device, on_host, rtol=1e-14)
        assert to_latex(expression).startswith("\\")
    for alias, name in ALIASES.items():
        arguments = "y, x" if name == "pow" or FUNCTIONS[name].least == 2 else "y"
        assert parse(f"{alias}({arguments})") == parse(f"{name}({arguments})")


def test_missing_values_are_not_false():
    rows = {"x": np.array([1.0, np.nan]), "kind": np.array(["a", None], object)}
    for text in ("x > 0", "x != 1", "not x", "x > 0 and 1", "x < 0 or 0", "x in (1, 2)"):
        for xp in (np, jnp):
            value = np.asarray(evaluate(parse(text), rows, xp=xp))
            assert np.isfinite(value[0])
            assert np.isnan(value[1])
    assert np.isnan(evaluate(parse("kind == 'a'"), rows, xp=np)).tolist() == [False, True]
    assert np.isnan(evaluate(parse("kind != 'a'"), rows, xp=np)).tolist() == [False, True]


def test_outside_the_domain_is_not_finite():
    rows = {"x": np.array([-1.0, 0.0])}
    for xp in (np, jnp):
        value = np.asarray(evaluate(parse("log(x) + 1/x"), rows, xp=xp))
        assert not np.isfinite(value).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, bool])
@pytest.mark.parametrize("xp", [np, jnp])
def test_result_type_follows_the_columns(dtype, xp):
    rows = {"x": xp.asarray(np.array([0, 1, 1]).astype(dtype))}
    expected = np.float32 if dtype == np.float32 else np.float64
    for text in ("x", "1", "x/2", "x > 0", "x^2 + pi", "max(x, 0.5)", "x in (1, 2)"):
        value = evaluate(parse(text), rows, xp=xp)
        assert value.dtype == expected
        assert value.shape == (3,)
    assert np.asarray(evaluate(parse("x/2"), rows, xp=xp)).tolist() == [0.0, 0.5, 0.5]


@pytest.mark.filterwarnings("ignore:float64 input is computed in float32")
def test_without_x64_values_are_right_or_refused():
    stamps = np.array([1_700_000_000, 1_700_000_010, 1_700_000_020])
    with jax.enable_x64(False):
        large = evaluate(parse("x"), {"x": np.array([0, 10**12, 3 * 10**12])})
        assert large.dtype == jnp.float32
        np.testing.assert_allclose(large, [0, 1e12, 3e12], rtol=1e-6)
        with pytest.raises(ValueError, match=r"column 't'.*must keep its variation in float32"):
            evaluate(parse("t - 1700000000"), {"t": stamps})
        shifted = evaluate(parse("t - 1700000000"), {"t": stamps}, xp=np)
        # A column that is not used cannot be lost.
        assert evaluate(parse("1"), {"t": stamps}).tolist() == [1.0, 1.0, 1.0]
    assert shifted.tolist() == [0.0, 10.0, 20.0]


def test_shapes():
    assert evaluate(parse("x + 1"), {"x": 2.0}).shape == ()
    assert evaluate(parse("pi"), {}).shape == ()
    assert evaluate(parse("x"), {"x": np.zeros(0)}).shape == (0,)
    assert evaluate(parse("2"), {"x": np.zeros((0, 3))}).shape == (0, 3)
    with pytest.raises(ExpressionError, match=r"one shape, got \(6,\) for 'x' and \(2,\) for 'y'"):
        evaluate(parse("x + y"), {"x": X, "y": np.zeros(2)})


@pytest.mark.parametrize("xp", [np, jnp])
def test_text_and_numbers_are_not_mixed(xp):
    with pytest.raises(ExpressionError, match=r"column 'kind' must hold real numbers.*object"):
        evaluate(parse("kind + 1"), ROWS, xp=xp)
    with pytest.raises(ExpressionError, match="column 'kind' must hold real numbers"):
        evaluate(parse("kind == 'a' and kind"), ROWS, xp=xp)
    with pytest.raises(ExpressionError, match="column 'x' must hold text"):
        evaluate(parse("x == 'a'"), ROWS, xp=xp)
    with pytest.raises(ExpressionError, match="column 'x' must hold text"):
        evaluate(parse("x == 'a'"), {"x": jnp.asarray(X)}, xp=xp)
    with pytest.raises(ExpressionError, match="must hold real numbers"):
        evaluate(parse("z"), {"z": X + 1j}, xp=xp)


def test_pandas_table():
    pd = pytest.importorskip("pandas")
    kinds = pd.Series(["a", "b", pd.NA], dtype=object)
    table = pd.DataFrame({"k": kinds, "x": [1, 2, 3], "air temp": [1.0, np.nan, 3.0]})
    assert evaluate(parse("`air temp`*x"), table, xp=np).tolist()[::2] == [1.0, 9.0]
    for dtype in (object, "string", "category"):
        kind = evaluate(parse("k == 'a'"), table.astype({"k": dtype}), xp=np)
        assert kind[:2].tolist() == [1.0, 0.0]
        assert np.isnan(kind[2])
    with pytest.raises(ExpressionError, match="unknown column 'z' in 'z'; available columns: 0, 1"):
        evaluate(parse("z"), pd.DataFrame(np.zeros((2, 2))))


SMOOTH = [
    "x^3 - 1.5*x*y + 2",
    "sin(x)*exp(-y)/(1 + x^2)",
    "log(y)^2 + sqrt(y) + y^x + cbrt(y)",
    "max(x - 1, 0) + abs(x + 0.25)*tanh(x)",
    "(x > 0.1)*x^3 + clip(x, -1, 1)",
    "y^-2 + log1p(y) + expm1(x) + atan2(x, y)",
    "asin(x/4) + acos(x/4) + atan(x) + sinh(x) + cosh(x) + tan(x/4) + log2(y)*log10(y)",
]


@pytest.mark.parametrize("text", SMOOTH)
def test_jit_is_eager_and_vmap_is_loop(text):
    expression = parse(text)
    rows = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}
    eager = evaluate(expression, rows)
    # A few roundings: XLA fuses products and sums of one expression.
    jitted = jax.jit(evaluate, static_argnums=0)(expression, rows)
    np.testing.assert_allclose(jitted, eager, rtol=1e-13, atol=1e-13)
    mapped = jax.jit(jax.vmap(lambda row: evaluate(expression, row)))(rows)
    np.testing.assert_allclose(mapped, eager, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("text", SMOOTH)
def test_gradient_is_that_of_finite_differences(text):
    expression = parse(text)
    step = 1e-6

    @jax.jit
    def value(shift):
        return evaluate(expression, {"x": X + shift[0], "y": Y + shift[1]})

    both = jax.jit(lambda shift: (jax.jacfwd(value)(shift), jax.jacrev(value)(shift)))
    forward, reverse = map(np.asarray, both(np.zeros(2)))
    np.testing.assert_allclose(reverse, forward, rtol=1e-12, atol=1e-12)
    for i, shift in enumerate(step * np.eye(2)):
        differences = (np.asarray(value(shift)) - np.asarray(value(-shift))) / (2 * step)
        # Central differences: step^2 of truncation, 1e-16 / step of rounding.
        np.testing.assert_allclose(forward[:, i], differences, rtol=1e-7, atol=1e-8)


def test_power_is_differentiable_at_zero_and_below():
    slope = jax.jit(jax.vmap(jax.grad(lambda x: evaluate(parse("x^3 - x^1 + x^0"), {"x": x}))))
    np.testing.assert_allclose(slope(X), 3 * X**2 - 1, rtol=1e-15)


def test_equal_expressions_share_one_compilation():
    @chex.assert_max_traces(1)
    def value(expression, rows):
        return evaluate(expression, rows)

    chex.clear_trace_counter()
    jitted = jax.jit(value, static_argnums=0)
    jitted(parse("x^2"), {"x": jnp.asarray(X)})
    jitted(parse("x**2"), {"x": jnp.asarray(Y)})
