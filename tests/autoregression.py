"""Noise in which every value remembers the one before."""

import numpy as np


def simulate(rng, rho, num):
    """A stationary Gaussian autoregression of variance one.

    Args:
      rng: a NumPy generator.
      rho: correlation of neighbours.
      num: values.
    """
    series = rng.normal(size=num)
    for k in range(1, num):
        series[k] = rho * series[k - 1] + np.sqrt(1 - rho**2) * series[k]
    return series
