"""How many nats it takes to describe the cells: a law, its scatter, and what is excluded (3.4).

With a law of coefficients ``theta``, cell ``k`` of ``n`` rows has a gap from it: ``d`` coordinates
with noise ``s^2`` each. Real laws hold only nearly, so the gap may also have a scatter of ``delta``
per row, and ``v = 1 + n delta^2 / (d s^2)``. The cell then costs

    c(theta, delta) = (d log v + |gap|^2 / (s^2 v) + rest / s^2) / 2,

where ``rest`` is the misfit that the cell's own directions do not contain. An excluded run of cells
is described as the cheapest of: a scatter of its own about the law; a change in one direction; a
law of its own in all directions. A change costs half a log of its rows per coefficient, and a run
one nat and a log of the number of cells for its place.

References:
  Rissanen (1983), A universal prior for integers and estimation by minimum description length,
  Annals of Statistics 11. docs/method.md, equations 21 to 27.
"""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default.local_fits import LocalFits, spans
from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import namespace

SCATTERS = np.concatenate([[0.0], np.geomspace(1e-2, 1e4, 15)])
"""Scatter of a law over the noise of a cell's gap, ``n delta^2 / (d s^2)``, in steps of 2.7."""

_RUN_COST = 1.0
"""Nats for a run beside the log of the number of cells: it has two ends."""

LARGEST_RUN = 0.75
"""Share of the rows that one run may exclude: a law of less than a quarter is none."""


class Costs(NamedTuple):
    """Parts of the cost that no law changes.

    Attributes:
      weight: ``(K,)`` one over the noise variance; 0 for empty cells.
      precision: ``(K, T)`` one over noise and scatter.
      spread: ``(K, T)`` ``d log v / 2``.
      own_law: ``(T, K + 1, K + 1)`` cost of runs ``[first, end)`` with a law of their own.
      rows: ``(K + 1, K + 1)`` of runs.
      direction_squares: ``(K, k)`` of the columns.
    """

    weight: Any
    precision: Any
    spread: Any
    own_law: Any
    rows: Any
    direction_squares: Any


class Law(NamedTuple):
    """Laws ``theta (B, p)`` and whether their cells determine them ``(B,)``."""

    theta: Any
    determined: Any


def fit_law(fits: LocalFits, weight: Any, clean: Any, physics: slice) -> Law:
    """Least squares on sets of cells ``clean (B, K)``, weighted by the cells' noise."""
    xp = namespace(fits.gram)
    table = fits.gram[:, physics]
    both = xp.einsum("bk,kij->bij", clean.astype(weight.dtype) * weight[None], table)
    solved = small_systems.solve(
        both[..., physics], both[..., -1], tolerances.gram(fits.gram.dtype)
    )
    return Law(solved.solution, xp.all(solved.independent, -1))


def misfit(fits: LocalFits, theta: Any, columns: slice) -> tuple[Any, Any]:
    """Squares of the cells' gaps from laws ``theta (B, q)``, and of the rest, each ``(B, K)``."""
    xp = namespace(fits.gram)
    gap = fits.local[None, :, :, -1] - xp.einsum("kdq,bq->bkd", fits.local[..., columns], theta)
    own = xp.sum(gap**2, -1)
    gram = fits.gram
    whole = (
        gram[None, :, -1, -1]
        - 2 * theta @ gram[:, columns, -1].T
        + xp.einsum("bp,kpq,bq->bk", theta, gram[:, columns, columns], theta)
    )
    return own, xp.maximum(whole - own, 0.0)


def moments(fits: LocalFits, theta: Any, physics: slice) -> Any:
    """Products of all columns with the residuals of laws, ``(B, K, k)``."""
    xp = namespace(fits.gram)
    table = fits.gram[:, :-1]
    return table[None, ..., -1] - xp.einsum("kip,bp->bki", table[..., physics], theta)


def prepare_costs(fits: LocalFits, scatter: Any) -> Costs:
    """The parts of the cost that no law changes.

    Args:
      fits: the cells' own fits.
      scatter: least scatter over noise, below which nothing matters.
    """
    xp = namespace(fits.gram)
    dtype = fits.gram.dtype
    num_cells = fits.present.sum().astype(dtype)
    share = fits.num_rows / (fits.num_rows.sum() / xp.maximum(num_cells, 1))
    grid = xp.asarray(SCATTERS, dtype) + scatter
    v = 1 + grid[None] * share[:, None]
    weight = xp.where(fits.present, 1 / xp.where(fits.present, fits.variance, 1.0), 0.0)
    precision = weight[:, None] / v
    spread = 0.5 * xp.where(fits.present, fits.rank, 0.0)[:, None] * xp.log(v)
    rows = spans(fits.num_rows)
    squares = xp.diagonal(fits.gram, axis1=1, axis2=2)[:, :-1]
    own_law = _own_laws(fits, weight, precision, spread, rows)
    return Costs(weight, precision, spread, own_law, rows, squares)


def cost_of_runs(fits: LocalFits, barred: Any) -> Any:
    """What a run costs whatever is in it, ``(B, K + 1, K + 1)``; inf where none is allowed.

    Args:
      fits: the cells' own fits.
      barred: ``(B, K)`` bool, cells that no run may exclude.
    """
    xp = namespace(fits.gram)
    dtype = fits.gram.dtype
    rows = spans(fits.num_rows)
    first = np.arange(len(fits.num_rows) + 1)
    forbidden = xp.asarray(first[:, None] >= first) | (rows <= 0)
    forbidden = forbidden | (rows > LARGEST_RUN * fits.num_rows.sum())
    forbidden = forbidden[None] | (spans(barred.astype(dtype)) > 0)
    cost = _RUN_COST + xp.log(xp.maximum(fits.present.sum(), 1).astype(dtype))
    return xp.where(forbidden, xp.inf, cost)


def _own_laws(fits: LocalFits, weight: Any, precision: Any, spread: Any, rows: Any) -> Any:
    """Cost of every run with a law of its own in all directions, ``(T, K + 1, K + 1)``."""
    xp = namespace(fits.gram)
    num_cells = len(fits.num_rows)
    first, end = np.triu_indices(num_cells + 1, 1)
    weighted = xp.moveaxis(fits.gram * weight[:, None, None], 0, -1)
    gram = xp.moveaxis(spans(weighted)[..., first, end], -1, 0)
    solved = small_systems.solve(
        gram[:, :-1, :-1], gram[:, :-1, -1], tolerances.gram(fits.gram.dtype)
    )
    own, rest = misfit(fits, solved.solution, slice(0, gram.shape[-1] - 1))
    cells = np.arange(num_cells)
    inside = (cells >= first[:, None]) & (cells < end[:, None])
    inside = xp.asarray(inside, fits.gram.dtype)
    within = xp.maximum(rows[first, end], 2)
    price = 0.5 * xp.minimum(solved.rank, within) * xp.log(within)
    fixed = price + 0.5 * (inside * rest) @ weight
    cost = inside @ spread + 0.5 * (inside * own) @ precision + fixed[:, None]
    place = np.zeros((num_cells + 1, num_cells + 1), np.int32)
    place[first, end] = np.arange(len(first))
    return xp.moveaxis(cost[place], -1, 0)


class Described(NamedTuple):
    """The cheapest description of the cells with each of ``B`` laws.

    Attributes:
      cost: ``(B,)`` nats.
      clean: ``(B, K)`` bool, cells that the law describes.
      law_rows: ``(B,)`` rows of the largest run that has a law of its own; 0 where none has.
      largest: ``(B, K)`` bool, that run.
      scatter: ``(B,)`` int, which scatter of the law.
    """

    cost: Any
    clean: Any
    law_rows: Any
    largest: Any
    scatter: Any


def describe_cells(
    fits: LocalFits, costs: Costs, run_cost: Any, theta: Any, scatter: Any, physics: slice
) -> Described:
    """Divide the cells between a law and runs, each run described in its cheapest way.

    The division of least cost is a shortest path from the first cell to the last, over steps that
    take in a clean stretch or a run; squaring the matrix of steps in the algebra of minima and sums
    finds it without a loop over cells.

    Args:
      fits, costs: the cells.
      run_cost: ``(B, K + 1, K + 1)`` of runs.
      theta: ``(B, p)`` laws.
      scatter: ``(B,)`` int, scatter of each.
      physics: columns of the law.
    """
    xp = namespace(fits.gram)
    num_cells, num_directions = costs.direction_squares.shape
    own, rest = misfit(fits, theta, physics)
    each = (
        costs.spread[None]
        + 0.5 * own[..., None] * costs.precision[None]
        + 0.5 * (rest * costs.weight[None])[..., None]
    )
    each = xp.swapaxes(each, -1, -2)
    scattered = xp.min(spans(each), axis=-3)
    clean = spans(_pick(each, scatter))
    precision = costs.precision.T[scatter]
    products = xp.swapaxes(moments(fits, theta, physics), -1, -2)
    score = spans(precision[:, None] * products)
    square = spans(precision[:, None] * costs.direction_squares.T[None])
    gain = xp.max(xp.where(square > 0, score**2 / xp.where(square > 0, square, 1.0), 0.0), axis=-3)
    price = 0.5 * xp.log(xp.maximum(costs.rows, 2)) + float(np.log(num_directions))
    changed = clean - 0.5 * gain + price[None]
    lawful = xp.minimum(changed, costs.own_law[scatter])
    run = xp.minimum(lawful, scattered) + run_cost
    position = np.arange(num_cells + 1)
    forward = xp.asarray(position[:, None] <= position)
    step = xp.minimum(xp.where(forward[None], clean, xp.inf), run)
    for _ in range(int(np.ceil(np.log2(num_cells + 1)))):
        step = xp.min(step[:, :, :, None] + step[:, None], axis=2)
    total = step[:, 0, -1]
    slack = tolerances.gram(theta.dtype) * (1 + xp.abs(total))
    through = step[:, 0, :, None] + run + step[:, None, :, -1]
    taken = through <= (total + slack)[:, None, None]
    inside = _cells_of_runs(num_cells)
    excluded = xp.einsum("bij,ijk->bk", taken.astype(theta.dtype), xp.asarray(inside, theta.dtype))
    rows = xp.where(taken & (lawful <= scattered), costs.rows[None], 0.0)
    flat = rows.reshape(len(rows), -1)
    law_rows = xp.max(flat, -1)
    largest = xp.asarray(inside.reshape(-1, num_cells))[xp.argmax(flat, -1)]
    return Described(total, excluded < 0.5, law_rows, largest & (law_rows > 0)[:, None], scatter)


def _pick(values: Any, index: Any) -> Any:
    """``values[b, index[b]]``."""
    xp = namespace(values)
    return xp.take_along_axis(values, index[:, None, None], axis=1)[:, 0]


def _cells_of_runs(num_cells: int) -> np.ndarray:
    """Which cells lie in the runs ``[first, end)``, ``(K + 1, K + 1, K)`` bool."""
    position, cell = np.arange(num_cells + 1), np.arange(num_cells)
    return (cell >= position[:, None, None]) & (cell < position[None, :, None])


def scatter_of(fits: LocalFits, costs: Costs, theta: Any, clean: Any, physics: slice) -> Any:
    """The scatter ``(B,)`` int that describes clean cells ``(B, K)`` about laws best."""
    xp = namespace(fits.gram)
    own, _ = misfit(fits, theta, physics)
    kept = clean.astype(own.dtype)
    return xp.argmin(kept @ costs.spread + 0.5 * (kept * own) @ costs.precision, -1)
