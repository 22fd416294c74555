"""Windows of cells left out one at a time: where the search for the place begins (section 3.4)."""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default import description
from lisdd_jax.default.description import LARGEST_RUN, Costs
from lisdd_jax.default.local_fits import LocalFits
from lisdd_jax.numerics.hosted import namespace

OVERLAP, _LIKENESS = 0.3, 0.7
"""Two regimes are rivals below the first share of rows in common, and the same above the second."""


class _Seeds(NamedTuple):
    """How the search goes on from each set of ``choose_seeds``, ``(B,)`` bool.

    With the scatter of cells that hold a region a law explains the region too, and division and
    scatter would keep each other. Rivals are to stay what they are.

    Attributes:
      exact: the first law is taken to be exact.
      alternates: every second division is about a law that is taken to be exact.
    """

    exact: np.ndarray
    alternates: np.ndarray


SEEDS = _Seeds(
    exact=np.array([False, False, False, False, False, False, True]),
    alternates=np.array([True, True, False, True, True, False, False]),
)


def clean_windows(num_cells: int) -> np.ndarray:
    """All cells, and all but each window of adjacent ones, ``(S, num_cells)`` bool.

    Windows may go over the end to the beginning.

    Example:
      >>> clean_windows(4).astype(int).tolist()[:4]
      [[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1], [1, 0, 1, 1]]
    """
    sets = [np.ones(num_cells, bool)]
    for first in range(num_cells):
        for length in range(1, int(np.ceil(LARGEST_RUN * num_cells)) + 1):
            clean = np.ones(num_cells, bool)
            clean[(first + np.arange(length)) % num_cells] = False
            if clean.sum() >= 2:
                sets.append(clean)
    return np.array(sets)


def _bounds_of(windows: np.ndarray) -> np.ndarray:
    """The cells that ``windows (S, K)`` leave out, as two runs ``(S, 2, 2)`` of ``[first, end)``.

    The second run is empty but for windows that go over the end.

    Example:
      >>> _bounds_of(clean_windows(4)[[3, 8]]).tolist()
      [[[1, 2], [4, 4]], [[0, 1], [3, 4]]]
    """
    num_cells = windows.shape[1]
    found = []
    for clean in windows:
        out = np.concatenate([[0], ~clean, [0]]).astype(int)
        first, end = np.flatnonzero(np.diff(out) > 0), np.flatnonzero(np.diff(out) < 0)
        runs = [*zip(first.tolist(), end.tolist(), strict=True), *[(num_cells, num_cells)] * 2]
        found.append(runs[:2])
    return np.array(found)


def screen(
    fits: LocalFits, costs: Costs, windows: Any, theta: Any, physics: slice
) -> tuple[Any, Any]:
    """Roughly the cost ``(S,)`` of excluding each window, and the scatter of what is left.

    Args:
      fits, costs: the cells.
      windows: ``(S, K)`` 1 for cells left in, in the order of ``clean_windows``.
      theta: ``(S, p)`` laws of these.
      physics: columns of the law.
    """
    xp = namespace(fits.gram)
    own, rest = description.misfit(fits, theta, physics)
    out = 1 - windows
    clean = windows @ costs.spread + 0.5 * (windows * own) @ costs.precision
    left = out @ costs.spread + 0.5 * (out * own) @ costs.precision
    scatter = xp.argmin(clean, -1)

    def at(values: Any) -> Any:
        return xp.take_along_axis(values, scatter[:, None], 1)[:, 0]

    precision = out * costs.precision.T[scatter]
    score = xp.einsum("sk,ski->si", precision, description.moments(fits, theta, physics))
    square = precision @ costs.direction_squares
    usable = square > 0
    gain = xp.max(xp.where(usable, score**2 / xp.where(usable, square, 1.0), 0.0), -1)
    price = 0.5 * xp.log(fits.num_rows.sum()) + float(np.log(square.shape[-1]))
    changed = at(left) - 0.5 * gain + price
    about_law = xp.minimum(xp.min(left, -1), changed) + 0.5 * (out * rest) @ costs.weight
    bounds = _bounds_of(clean_windows(windows.shape[1]))
    own_law = costs.own_law[scatter[:, None], bounds[..., 0], bounds[..., 1]].sum(-1)
    excluded = xp.where(out.sum(-1) > 0, xp.minimum(about_law, own_law), 0.0)
    return at(clean) + 0.5 * (windows * rest) @ costs.weight + excluded, scatter


def choose_seeds(cost: Any, windows: Any, rows: Any) -> Any:
    """Sets of cells whose laws start the search, ``(B, K)``.

    All cells; the best window, the best against it, and the best that is like neither; the first
    two of these without the cells beside what they exclude, which may be part of it; and all cells
    again (see ``SEEDS``).
    """
    xp = namespace(cost)
    common = xp.einsum("sk,tk->st", windows * rows[None], windows)
    size = xp.diagonal(common)
    union = size[:, None] + size[None] - common
    like = common / xp.maximum(union, 1)
    shared = common / xp.maximum(xp.minimum(size[:, None], size[None]), 1)
    best = xp.argmin(cost)
    rival = xp.argmin(xp.where(shared[best] < OVERLAP, cost, xp.inf))
    different = (like[best] < _LIKENESS) & (like[rival] < _LIKENESS)
    other = xp.argmin(xp.where(different, cost, xp.inf))
    chosen = windows[xp.stack([xp.zeros_like(best), best, rival, other])]
    inner = chosen[1:3]
    inner = inner * xp.roll(inner, 1, -1) * xp.roll(inner, -1, -1)
    return xp.concatenate([chosen, inner, chosen[:1]])
