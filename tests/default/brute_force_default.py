"""Pieces of the default method in plain NumPy, by rows and loops, from docs/method.md alone."""

import itertools

import numpy as np
from scipy import stats

SCATTERS = [0.0] + [10 ** (-2 + 6 * i / 14) for i in range(15)]


def fit(columns, response):
    """Coefficients and residuals of least squares."""
    coefficients = np.linalg.lstsq(columns, response, rcond=None)[0]
    return coefficients, response - columns @ coefficients


def residual_sum(columns, response):
    return float(np.sum(fit(columns, response)[1] ** 2))


def rank_of(columns):
    return 0 if len(columns) == 0 else int(np.linalg.matrix_rank(columns))


def in_directions(directions, residual):
    """Square of the part of a residual in some directions, and of the rest."""
    rest = residual_sum(directions, residual)
    return float(np.sum(residual**2)) - rest, rest


def cost_of_cell(rank, gap, rest, variance, ratio):
    """Equation 21; ``ratio`` is ``n delta^2 / (d s^2)``."""
    v = 1 + ratio
    return (rank * np.log(v) + gap / (variance * v) + rest / variance) / 2


class Cells:
    """Rows of cells and what a law costs there.

    Args:
      columns: of every cell ``(n, k)``, the directions in which a law may change.
      responses: of every cell ``(n,)``.
      variances: of every cell's noise.
      physics: slice of the law's columns.
      directions: of every cell, its own directions; the columns where None.
    """

    def __init__(self, columns, responses, variances, physics, directions=None):
        self.columns, self.responses, self.variances = columns, responses, variances
        self.physics = physics
        self.directions = columns if directions is None else directions
        self.rows = [len(part) for part in responses]
        self.present = sum(num > 0 for num in self.rows)

    def ratio(self, k, scatter):
        return SCATTERS[scatter] * self.rows[k] / (sum(self.rows) / self.present)

    def cost_at(self, k, residual, scatter):
        if self.rows[k] == 0:
            return 0.0
        gap, rest = in_directions(self.directions[k], residual)
        rank = rank_of(self.directions[k])
        return cost_of_cell(rank, gap, rest, self.variances[k], self.ratio(k, scatter))

    def residual(self, k, theta):
        return self.responses[k] - self.columns[k][:, self.physics] @ theta

    def cost_of_law(self, k, theta, scatter):
        return self.cost_at(k, self.residual(k, theta), scatter)

    def law_of(self, cells, columns=None):
        """Least squares on some cells, rows weighted by the cells' noise."""
        columns = self.physics if columns is None else columns
        weights = [np.full(self.rows[k], self.variances[k] ** -0.5) for k in cells]
        weight = np.concatenate(weights)
        design = np.concatenate([self.columns[k][:, columns] for k in cells])
        response = np.concatenate([self.responses[k] for k in cells])
        return fit(design * weight[:, None], response * weight)[0]

    def own_scatter(self, run, theta):
        """Equation 22."""
        return min(sum(self.cost_of_law(k, theta, t) for k in run) for t in range(len(SCATTERS)))

    def changed(self, run, theta, scatter):
        """Equation 23."""
        size = self.columns[0].shape[1]
        gains = []
        for j in range(size):
            score = square = 0.0
            for k in run:
                precision = 1 / (self.variances[k] * (1 + self.ratio(k, scatter)))
                for x, r in zip(self.columns[k][:, j], self.residual(k, theta), strict=True):
                    score += precision * x * r
                    square += precision * x * x
            gains.append(score**2 / (2 * square))
        plain = sum(self.cost_of_law(k, theta, scatter) for k in run)
        num = sum(self.rows[k] for k in run)
        return plain - max(gains) + np.log(num) / 2 + np.log(size)

    def own_law(self, run, scatter):
        """Equation 24, with the law of least squares weighted by the noise alone."""
        every = slice(0, self.columns[0].shape[1])
        beta = self.law_of(run, every)
        cost = sum(
            self.cost_at(k, self.responses[k] - self.columns[k] @ beta, scatter) for k in run
        )
        stacked = np.concatenate([self.columns[k] for k in run])
        return cost + rank_of(stacked) * np.log(len(stacked)) / 2

    def describe(self, theta, scatter, barred=()):
        """The best division: cost, cells of the law, rows of the largest run with its own law."""
        num_cells = len(self.rows)
        runs = {}
        for first, end in itertools.combinations(range(num_cells + 1), 2):
            run = range(first, end)
            num = sum(self.rows[k] for k in run)
            if num == 0 or num > 0.75 * sum(self.rows) or set(run) & set(barred):
                continue
            by_scatter = self.own_scatter(run, theta)
            by_law = min(self.changed(run, theta, scatter), self.own_law(run, scatter))
            lawful = num if by_law <= by_scatter else 0
            runs[first, end] = (1 + np.log(self.present) + min(by_law, by_scatter), lawful)

        def divisions(position):
            if position == num_cells:
                yield 0.0, [], 0
                return
            for cost, clean, lawful in divisions(position + 1):
                here = self.cost_of_law(position, theta, scatter)
                yield cost + here, [position, *clean], lawful
            for end in range(position + 1, num_cells + 1):
                if (position, end) in runs:
                    own, rows = runs[position, end]
                    for cost, clean, lawful in divisions(end):
                        yield cost + own, clean, max(lawful, rows)

        return min(divisions(0), key=lambda division: division[0])


def two_sided(statistic, degrees):
    """Log of the two-sided tail of Student's t."""
    return np.log(2) + stats.t.logsf(statistic, degrees)


SPLITS = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
"""Halves of four folds."""


def held_out_error(folds, target):
    """Fitted on either half and scored on the other: ``folds`` and ``target`` are pairs."""
    total = 0.0
    for here, there in ((0, 1), (1, 0)):
        weights = fit(folds[here], target[here])[0]
        total += float(np.sum((target[there] - folds[there] @ weights) ** 2))
    return total


def all_supports(num_terms, max_terms):
    """Positions of every support, by size."""
    sizes = range(1, max_terms + 1)
    return [list(s) for k in sizes for s in itertools.combinations(range(num_terms), k)]


def smallest_within(errors, supports, tolerance):
    """Position of the lowest error of the smallest size within the tolerance (equation 11)."""
    within = [i for i, error in enumerate(errors) if error <= (1 + tolerance) * min(errors)]
    size = min(len(supports[i]) for i in within)
    return min((i for i in within if len(supports[i]) == size), key=lambda i: errors[i]), within


def partial_f(design, extra, response):
    """Partial F of added columns, with its degrees of freedom."""
    wide = np.column_stack([design, extra])
    before, after = residual_sum(design, response), residual_sum(wide, response)
    df_num, df_den = rank_of(wide) - rank_of(design), len(response) - rank_of(wide)
    return (before - after) / df_num / (after / df_den), df_num, df_den
