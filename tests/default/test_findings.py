"""Working units and those of the data, against predictions of rows one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.default.findings import Units
from lisdd_jax.numerics.frame import Frame

RNG = np.random.default_rng(0)
CENTER = np.array([0.0, 30.0, -2.0])
TRANSFORM = np.array([[1.0, 0.4, -0.2], [0.0, 0.1, 0.7], [0.0, 0.0, 5.0]])
LEVEL, UNIT = 100.0, 4.0
INITIAL, TERM_SCALE = np.array([1.5, -0.5, 0.3]), np.array([10.0, 0.1])
UNITS = Units(
    response=np.float64(UNIT),
    initial=INITIAL,
    terms=TERM_SCALE,
    frame=Frame(
        center=CENTER,
        transform=TRANSFORM,
        constant=np.array([0.5, 0.0, 0.0]),
        response_center=np.float64(LEVEL),
        independent=np.ones(3, bool),
    ),
    edges=np.array([0.0, 1.0]),
)
THETA, WEIGHTS = np.array([0.2, -0.1, 0.4]), np.array([[0.7, -0.3], [0.0, 2.0]])


def working_prediction(design, features, region):
    """A row's response by the working columns: level, frame, first fit, unit, terms."""
    # The constant column is twice what it stands for.
    one = design[0] / 2
    shifted = [design[j] - one * CENTER[j] for j in range(3)]
    basis = [sum(TRANSFORM[i, j] * shifted[i] for i in range(3)) for j in range(3)]
    law = sum(basis[j] * (INITIAL[j] + UNIT * THETA[j]) for j in range(3))
    terms = sum(WEIGHTS[region, k] * features[k] / TERM_SCALE[k] for k in range(2))
    return one * LEVEL + law + UNIT * terms


@pytest.mark.parametrize("region", [0, 1])
def test_predictions_are_those_of_the_working_columns(region):
    coefficients, weights = UNITS.law(THETA), UNITS.weights(WEIGHTS)
    for _ in range(10):
        design, features = np.array([2.0, *RNG.normal(20, 5, 2)]), RNG.normal(size=2)
        found = design @ coefficients + features @ weights[region]
        assert found == pytest.approx(working_prediction(design, features, region), rel=1e-12)


def test_covariance_is_that_of_coefficients_drawn_with_it():
    """The map from working to reported coefficients is affine, so its columns are differences."""
    root = np.tril(RNG.normal(size=(3, 3)))
    covariance = root @ root.T
    zero = UNITS.law(np.zeros(3))
    steps = [UNITS.law(root[:, k]) - zero for k in range(3)]
    expected = sum(np.outer(step, step) for step in steps)
    np.testing.assert_allclose(UNITS.law_covariance(covariance), expected, rtol=1e-10)


def test_traced_alike():
    def numbers(units):
        return units.law(THETA), units.law_covariance(jnp.eye(3)), units.weights(WEIGHTS)

    traced = jax.jit(numbers)(jax.device_put(UNITS))
    for found, expected in zip(traced, numbers(UNITS), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
