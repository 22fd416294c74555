"""The integral behind the chi-square and F tails, by one Gauss-Legendre rule of fixed size."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


class Rule(NamedTuple):
    """Gauss-Legendre on (0, 1) for one dtype.

    Attributes:
        nodes: positions.
        weights: weights, of sum 1.
        depth: the integrand is cut where it has fallen to about exp(-depth).
    """

    nodes: np.ndarray
    weights: np.ndarray
    depth: float


@functools.cache
def rule(dtype: np.dtype) -> Rule:
    """The rule whose own error and cut are both at the rounding of ``dtype``."""
    size, depth = (24, 36.0) if dtype == np.float64 else (12, 17.0)
    nodes, weights = np.polynomial.legendre.leggauss(size)
    return Rule(((nodes + 1) / 2).astype(dtype), (weights / 2).astype(dtype), depth)


class Exponent(NamedTuple):
    r"""The exponent of the tail of a log F or log chi-square variable.

    .. math:: E(v) = \pm k v - n \log(1 + z (e^{\pm v} - 1))

    Attributes:
        rate: k.
        sign: +1 or -1.
        total: n, or None for the limit of infinite n with n z fixed.
        share: z, or n z in the limit.
    """

    rate: Array
    sign: Array
    total: Array | None
    share: Array

    def __call__(self, v: Array) -> Array:
        """E at ``v``."""
        signed = self.sign * v
        return self.rate * signed - self._growth(jnp.expm1(signed))

    def end_point(self, slope: Array, curvature: Array, depth: float) -> Array:
        """A point where E is near ``-depth``: measured, between -1.2 and -0.9 times it.

        The root of the parabola that touches E at 0, then one step of the fixed-point form of
        E(v) = -depth, which draws in a point that is orders of magnitude too far out.
        """
        first = 2 * depth / (slope + jnp.sqrt(slope * slope + 2 * depth * curvature))
        plus = jnp.log1p(self._growth_inverse(depth + self.rate * first))
        minus = (depth - self._growth(jnp.expm1(-first))) / self.rate
        return jnp.where(self.sign > 0, plus, minus)

    def _growth(self, e: Array) -> Array:
        return self.share * e if self.total is None else self.total * jnp.log1p(self.share * e)

    def _growth_inverse(self, y: Array) -> Array:
        return (y if self.total is None else jnp.expm1(y / self.total)) / self.share


def integrate(exponent: Exponent, slope: Array, curvature: Array) -> Array:
    r"""Return :math:`\int_0^\infty e^{E(v)} dv` for E concave and falling from 0.

    The end point of the rule carries no derivative: the integral does not depend on it.

    Args:
        exponent: E, with fields of one shape.
        slope: -E'(0) >= 0, of the same shape.
        curvature: -E''(0) > 0, of the same shape.

    Returns:
        The integral, of the same shape.
    """
    nodes, weights, depth = rule(slope.dtype)
    end = lax.stop_gradient(exponent.end_point(slope, curvature, depth))
    at_nodes = jax.tree.map(lambda field: field[..., None], exponent)
    place, weight = (part.reshape((1,) * end.ndim + (-1,)) for part in (nodes, weights))
    return end * jnp.sum(jnp.exp(at_nodes(end[..., None] * place)) * weight, axis=-1)
