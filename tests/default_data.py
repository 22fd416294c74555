"""Small data sets with a known answer, padded to one shape, so that one program serves all."""

from typing import NamedTuple

import numpy as np

# The shape of examples/neural_hybrid.py, whose programs are then those of these data.
NUM_ROWS = 3000
NUM_TERMS = 6


class Rows(NamedTuple):
    design: np.ndarray
    response: np.ndarray
    axis: np.ndarray
    features: np.ndarray
    mask: np.ndarray


def rows(design, response, axis, features, num=NUM_ROWS, num_terms=NUM_TERMS):
    """Rows padded with rows out of use, and the library with terms that are zero."""
    extra = num - len(response)
    features = np.pad(features, ((0, extra), (0, num_terms - features.shape[1])))
    mask = np.arange(num) < len(response)
    padded = (np.pad(design, ((0, extra), (0, 0))), np.pad(response, (0, extra)))
    return Rows(*padded, np.pad(axis, (0, extra)), features, mask)


def powers(x):
    return np.stack([np.ones_like(x), x, x**2, x**3], axis=1)


def oscillator(seed, num=NUM_ROWS, beta=0.2, noise=None, num_rows=NUM_ROWS):
    """The oscillator of the paper; ``noise`` is a function of a generator and the position."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.uniform(-3.3, 3.3, (2, num))
    band = (np.abs(x1) > 1.7) & (np.abs(x1) < 2.7)
    drawn = rng.normal(size=num) * 0.3 if noise is None else noise(rng, x1)
    response = -x1 - 0.3 * x2 + np.where(band, beta * x1**3, 0.0) + drawn
    features = np.stack([x1**2, x1**3, x2**2, x2**3, x1 * x2, np.sin(x1)], axis=1)
    return rows(np.stack([-x1, -x2], axis=1), response, x1, features, num_rows)


# Gas consumption (1000 cubic feet) against outside temperature (degrees Celsius), 26 weeks before
# and 30 after the insulation of a house: Hand et al. (1994), A Handbook of Small Data Sets, number
# 69; as `whiteside` in R's package MASS (Venables and Ripley).
def _read(temperature, gas):
    return np.array([temperature.split(), gas.split()], dtype=float)


BEFORE = _read(
    "-0.8 -0.7 0.4 2.5 2.9 3.2 3.6 3.9 4.2 4.3 5.4 6.0 6.0"
    " 6.0 6.2 6.3 6.9 7.0 7.4 7.5 7.5 7.6 8.0 8.5 9.1 10.2",
    "7.2 6.9 6.4 6.0 5.8 5.8 5.6 4.7 5.8 5.2 4.9 4.9 4.3"
    " 4.4 4.5 4.6 3.7 3.9 4.2 4.0 3.9 3.5 4.0 3.6 3.1 2.6",
)
AFTER = _read(
    "-0.7 0.8 1.0 1.4 1.5 1.6 2.3 2.5 2.5 3.1 3.9 4.0 4.0 4.2 4.3"
    " 4.6 4.7 4.9 4.9 4.9 5.0 5.3 6.2 7.1 7.2 7.5 8.0 8.7 8.8 9.7",
    "4.8 4.6 4.7 4.0 4.2 4.2 4.1 4.0 3.5 3.2 3.9 3.5 3.7 3.5 3.5"
    " 3.7 3.5 3.4 3.7 4.0 3.6 3.7 2.8 3.0 2.8 2.6 2.7 2.8 1.3 1.5",
)


def half_and_half():
    """The insulation data in order of time: two laws, 26 and 30 weeks."""
    temperature, gas = np.concatenate([BEFORE, AFTER], axis=1)
    design = np.stack([np.ones_like(gas), temperature], axis=1)
    return rows(design, gas, np.arange(len(gas), dtype=float), powers(temperature))


def wrong_everywhere():
    """A curve that rises and falls, with a line for its law."""
    hours = np.array([6.0, 9, 12, 14, 30, 35, 40, 47, 51, 55, 60])
    values = np.array([14.0, 28, 50, 70, 89, 94, 90, 75, 59, 44, 27])
    design = np.stack([np.ones_like(hours), hours], axis=1)
    return rows(design, values, hours, powers(hours / 60))


def one_bad_month():
    """Twelve months with one aberrant at the edge of nothing else."""
    temperature = np.array([30.0, 29, 35, 47, 57, 66, 70, 69, 63, 57, 42, 37])
    use = np.array([52.0, 42, 38, 33, 34, 35, 35, 54, 35, 37, 52, 45])
    design = np.stack([np.ones(12), np.maximum(55 - temperature, 0)], axis=1)
    return rows(design, use, np.arange(12.0), powers(temperature / 70))


def level_shift():
    """A constant of 500 that becomes 1100 after row 22, without noise."""
    row = np.arange(1.0, 36.0)
    response = np.where(row <= 22, 500.0, 1100.0)
    return rows(np.ones((35, 1)), response, row, powers(row / 35), num=64)
