"""Builders of libraries."""

import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.library import Library, hinge, polynomials, saturation, sign, trigonometric

X1 = np.array([-2.0, -0.5, 0.0, 0.7, 1.5])
X2 = np.array([0.3, 1.0, 2.0, 0.5, 4.0])
ROWS = {"x1": jnp.asarray(X1), "x2": jnp.asarray(X2)}


@pytest.mark.parametrize(
    "library, names",
    [
        (polynomials(["x1"], 3), "x1, x1^2, x1^3"),
        (polynomials(["x1", "x2"], 2), "x1, x2, x1^2, x1*x2, x2^2"),
        (
            polynomials(["a", "b", "c"], 3, include_constant=True),
            "1, a, b, c, a^2, a*b, a*c, b^2, b*c, c^2, a^3, a^2*b, a^2*c, a*b^2, a*b*c, a*c^2,"
            " b^3, b^2*c, b*c^2, c^3",
        ),
        (polynomials(["x1", "x2"], 2, interactions=False), "x1, x2, x1^2, x2^2"),
        (polynomials(["air temp"], 2), "`air temp`, `air temp`^2"),
        (trigonometric(["x1"]), "sin(x1), cos(x1)"),
        (trigonometric(["u"], [1, 0.5]), "sin(u), cos(u), sin(0.5*u), cos(0.5*u)"),
        (hinge("t", [18, -3.5, 0]), "max(t - 18, 0), max(t + 3.5, 0), max(t, 0)"),
        (hinge("t", [18, -3, -0.0], "left"), "max(18 - t, 0), max(-3 - t, 0), max(-t, 0)"),
        (hinge("t", [1], "both"), "max(t - 1, 0), max(1 - t, 0)"),
        (sign(["x1", "x2"]), "sign(x1), sign(x2)"),
        (saturation(["x1"]), "tanh(x1)"),
        (saturation(["v"], [2, 1]), "tanh(v/2), tanh(v)"),
    ],
)
def test_builders_print_as_formulas(library, names):
    assert ", ".join(library.names) == names
    # Every name reads back as the term it stands for.
    assert Library.from_expressions(library.names) == library


def test_builders_evaluate():
    library = (
        polynomials(["x1", "x2"], 3)
        + trigonometric(["x1"], [2])
        + hinge("x1", [0.5, -1], "both")
        + sign(["x1"])
        + saturation(["x1"], [0.5])
    )
    monomials = [X1, X2, X1**2, X1 * X2, X2**2, X1**3, X1**2 * X2, X1 * X2**2, X2**3]
    rest = [np.sin(2 * X1), np.cos(2 * X1)]
    rest += [np.maximum(s * (X1 - k), 0) for k in (0.5, -1) for s in (1, -1)]
    rest += [np.sign(X1), np.tanh(X1 / 0.5)]
    expected = np.stack(monomials + rest, axis=1)
    np.testing.assert_allclose(library.evaluate(ROWS), expected, rtol=1e-14)


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda: polynomials(["x1"], 0), ValueError, "degree must be an integer of at least 1"),
        (lambda: polynomials(["x1"], 1.5), ValueError, "degree must be an integer of at least 1"),
        (lambda: polynomials([], 2), ValueError, "columns must be one or more different names"),
        (lambda: sign(["a", "a"]), ValueError, "columns must be one or more different names"),
        (lambda: sign("ab"), TypeError, "columns must be a list of names"),
        (lambda: trigonometric(["a"], [0]), ValueError, "frequencies must be positive and finite"),
        (lambda: saturation(["a"], [-1]), ValueError, "scales must be positive and finite"),
        (lambda: hinge("a", [float("nan")]), ValueError, "knots must be finite"),
        (lambda: hinge("a", [1], "up"), ValueError, "sides must be 'right', 'left' or 'both'"),
    ],
)
def test_builders_check_their_arguments(build, error, message):
    with pytest.raises(error, match=message):
        build()
