"""Rows in regions and folds, for the tests of the form and its certificate."""

from typing import NamedTuple

import numpy as np
from brute_force_default import SPLITS, all_supports, held_out_error
from cell_data import THETA, products

from lisdd_jax.default.form import Sums, choose_form
from lisdd_jax.default.layout import ColumnLayout

LAYOUT = ColumnLayout(num_physics=2, num_terms=3)
LAW = LAYOUT.physics
SUPPORTS = all_supports(3, 2)
VARIANCE = np.float64(0.25)
BOTH = np.ones(2, bool)


class RegionRows(NamedTuple):
    """Rows of regions and outside.

    Attributes:
      columns: ``(n, m)`` of ``[1, axis, physics, terms, response]``.
      region: ``(n,)`` int; the number of regions outside.
      fold: ``(n,)`` int, 0 to 3.
      sums: of the same rows.
    """

    columns: np.ndarray
    region: np.ndarray
    fold: np.ndarray
    sums: Sums

    def part(self, region, folds=(0, 1, 2, 3)):
        """Rows of a region in some folds."""
        return self.columns[(self.region == region) & np.isin(self.fold, folds)]

    @property
    def num_regions(self):
        return len(self.sums.gram) - 1


def region_rows(seed, sizes, effects, *, everywhere=None, noise=0.5, scale=None):
    """Rows of regions, the last of ``sizes`` outside.

    Args:
      seed: of the random numbers.
      sizes: rows of every region and outside.
      effects: of every region, function of its columns that is added to the response.
      everywhere: the same on all rows.
      noise: standard deviation.
      scale: ``(R + 1,)`` factors of all columns; 1 where None.
    """
    rng = np.random.default_rng(seed)
    num, last = sum(sizes), len(sizes) - 1
    region = np.repeat(np.arange(last + 1), sizes)
    fold = rng.permutation(num) % 4
    axis, terms = rng.uniform(-1.7, 1.7, num), rng.normal(size=(num, 3))
    physics = rng.normal(size=(num, 2))
    terms[:, 1] += 0.5 * physics[:, 0]
    response = physics @ THETA[:2] + noise * rng.normal(size=num)
    columns = np.column_stack([np.ones(num), axis, physics, terms, response])
    for r, effect in enumerate(effects):
        columns[region == r, -1] += effect(columns[region == r])
    if everywhere is not None:
        columns[:, -1] += everywhere(columns)
    if scale is not None:
        columns = columns * np.asarray(scale)[region][:, None]
    gram, count = products(columns, 4 * region + fold, 4 * last + 4)
    size = LAYOUT.size
    sums = Sums(gram.reshape(last + 1, 4, size, size), count.reshape(last + 1, 4))
    return RegionRows(columns, region, fold, sums)


def term(number, size=1.0):
    return lambda columns: size * columns[:, 4 + number]


def nothing(columns):
    return 0.0 * columns[:, 0]


def choose(rows, present=BOTH, tolerance=0.15, theta=THETA[:2]):
    return choose_form(rows.sums, theta, present, VARIANCE, LAYOUT, 2, tolerance)


def residual(columns, theta=THETA[:2]):
    return columns[:, -1] - columns[:, LAW] @ theta


def error_of(rows, regions, columns, theta=THETA[:2]):
    """Held-out error of some columns in some regions, by loops over splits and halves."""
    errors = []
    for split in SPLITS:
        parts = [np.concatenate([rows.part(r, half) for r in regions]) for half in split]
        targets = [residual(part, theta) for part in parts]
        errors.append(held_out_error([part[:, columns] for part in parts], targets))
    return np.mean(errors)
