"""Rows with a known answer for the passes over rows, and the default method run on tables."""

from typing import NamedTuple

import jax
import numpy as np

from lisdd_jax import Config, Diagnosis, diagnose

NUM = 500


class Table(NamedTuple):
    """Arguments of a diagnosis."""

    design: np.ndarray
    response: np.ndarray
    axis: np.ndarray
    features: np.ndarray


def library(axis, covariate):
    """Seven terms that know nothing of the fault."""
    hinge = np.maximum(axis - 5, 0)
    return np.stack([axis**0, axis, axis**2, hinge, np.sin(axis), covariate, covariate**2], axis=1)


def straight(seed, fault, num=NUM, noise=None):
    """The law ``1 + 2 x1 - x2`` over an axis on (0, 10), ``x1`` correlated with it.

    Args:
      seed: of the generator.
      fault: function of axis and ``x1`` that is added to the response.
      num: rows.
      noise: function of a generator and the axis; standard normal where None.
    """
    rng = np.random.default_rng(seed)
    axis = rng.uniform(0, 10, num)
    first = 0.6 * (axis - 5) / 2.9 + 0.8 * rng.normal(size=num)
    second = rng.normal(size=num)
    drawn = rng.normal(size=num) if noise is None else noise(rng, axis)
    design = np.stack([np.ones(num), first, second], axis=1)
    response = design @ [1.0, 2.0, -1.0] + fault(axis, first) + drawn
    return Table(design, response, axis, library(axis, first))


def pad(table, num=NUM):
    """A table with rows out of use up to ``num``, whose programs serve it, and which rows are."""
    used = np.arange(num) < len(table.axis)
    widths = [(0, num - len(table.axis))]
    return Table(*(np.pad(part, widths + [(0, 0)] * (part.ndim - 1)) for part in table)), used


def sound(axis, first):
    """No fault."""
    return 0 * axis


def step(size, low, high=np.inf):
    """A constant on an interval."""
    return lambda axis, first: np.where((axis >= low) & (axis < high), size, 0.0)


def run(table, config=None, seed=0, **optional) -> Diagnosis:
    """The default method on a table."""
    config = config or Config()
    return diagnose(*table, key=jax.random.key(seed), config=config, **optional)


@jax.jit
def _contains(regions, axis):
    return regions.contains(axis)


def overlap(found, axis, truth):
    """Rows that the regions and the truth share, over those of either."""
    inside = np.asarray(_contains(found.regions, axis)).any(0)
    return (inside & truth).sum() / max((inside | truth).sum(), 1)
