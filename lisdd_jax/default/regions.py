"""Where: the runs of cells whose exclusion describes all cells in the fewest nats (section 3.4).

The search starts from the law of all cells, with its scatter and without, and those of five
different windows, and divides the cells and refits the law by turns. What it gains over a law for
all cells bounds the p-value of the place: a description is a probability, and under a law for all
cells another probability exceeds its own by a factor ``exp(gain)`` at most as often as
``exp(-gain)`` (Markov's inequality). Every run that might have been chosen has been paid for in
that probability, so the bound holds for the chosen one.
"""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default import description
from lisdd_jax.default.description import SCATTERS, Costs, Described, fit_law
from lisdd_jax.default.local_fits import LocalFits
from lisdd_jax.default.windows import OVERLAP, SEEDS, choose_seeds, clean_windows, screen
from lisdd_jax.numerics.hosted import choose, contract, namespace, repeat, running_sums

_NUM_STEPS = 5
"""Divisions of the cells, each followed by a refit; they repeat themselves after two or three."""

RIVAL = 8.0
"""Nats by which a rival may describe the cells worse and still be one."""

_ENOUGH = 0.75
"""Share of the gain that a law of more rows must keep to be the law: real laws hold nearly, and a
short stretch on which one holds exactly is not the regime that explains the data."""


class FoundPlace(NamedTuple):
    """The regime that describes the cells best, and its rival.

    Attributes:
      gain: nats saved against a law for all cells.
      cost: nats of the description.
      clean: ``(K,)`` bool, cells that the law describes.
      theta: ``(p,)`` the law.
      scatter: int, its scatter, as position in ``SCATTERS``.
      rival_gap: nats by which a law for other rows describes the cells worse, below zero for a
        better one of fewer rows; inf where there is none.
      rival: ``(K,)`` bool, its cells.
      rival_theta: ``(p,)`` that law.
      other_rows: rows of the largest excluded run that one law of its own describes.
      theta_all: ``(p,)`` the law of all cells.
      scatter_all: int, its scatter.
    """

    gain: Any
    cost: Any
    clean: Any
    theta: Any
    scatter: Any
    rival_gap: Any
    rival: Any
    rival_theta: Any
    other_rows: Any
    theta_all: Any
    scatter_all: Any


class _Search(NamedTuple):
    theta: Any
    scatter: Any
    best_theta: Any
    best: Described


def _improve(
    fits: LocalFits, costs: Costs, run_cost: Any, state: _Search, physics: slice
) -> _Search:
    xp = namespace(fits.gram)
    found = description.describe_cells(fits, costs, run_cost, state.theta, state.scatter, physics)
    clean = found.clean & fits.present[None]
    several = clean.sum(-1) >= 2
    cost = xp.where(several, found.cost, xp.inf)
    # Where runs with laws of their own leave nothing to this one, that of the largest is tried.
    clean = xp.where(several[:, None], clean, found.largest & fits.present[None])
    several = clean.sum(-1) >= 2
    better = cost < state.best.cost

    def keep(new: Any, old: Any) -> Any:
        return xp.where(better.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

    best = Described(*map(keep, found._replace(cost=cost), state.best))
    law = fit_law(fits, costs.weight, clean, physics)
    theta = xp.where((several & law.determined)[:, None], law.theta, state.theta)
    scatter = description.scatter_of(fits, costs, theta, clean, physics)
    return _Search(theta, scatter, keep(state.theta, state.best_theta), best)


def find_place(fits: LocalFits, costs: Costs, trusted: Any, physics: slice) -> FoundPlace:
    """Find the regime that describes the cells best.

    Args:
      fits: the cells' own fits.
      costs: of their descriptions.
      trusted: ``(K,)`` bool, cells that may not be excluded.
      physics: columns of the law.
    """
    xp = namespace(fits.gram)
    rows = fits.num_rows
    sets = xp.asarray(clean_windows(len(rows)))
    allowed = ((sets & fits.present[None]).sum(-1) >= 2) & ~xp.any(~sets & trusted[None], -1)
    windows = (sets | ~fits.present[None]).astype(rows.dtype)
    laws = fit_law(fits, costs.weight, windows, physics)
    cost, scatters = screen(fits, costs, windows, laws.theta, physics)
    none, none_scatter = cost[0], scatters[0]
    cost = xp.where(allowed & laws.determined, cost, xp.inf)
    seeds = choose_seeds(cost, windows, rows)
    start = fit_law(fits, costs.weight, seeds, physics)
    usable = (start.determined & (xp.where(fits.present[None], seeds, 0.0).sum(-1) >= 2))[:, None]
    theta = xp.where(usable, start.theta, laws.theta[:1])
    scatter = description.scatter_of(fits, costs, theta, seeds, physics)
    scatter = xp.where(xp.asarray(SEEDS.exact), 0, scatter)
    barred = xp.broadcast_to(trusted[None], seeds.shape)
    state = _search(fits, costs, barred, theta, scatter, physics, SEEDS.alternates)
    place, largest = _judge(fits, state, (none, laws.theta[0], none_scatter))
    return _prefer_larger(fits, costs, place, largest, trusted, physics)


def _search(
    fits: LocalFits,
    costs: Costs,
    barred: Any,
    theta: Any,
    scatter: Any,
    physics: slice,
    alternates: Any = False,
) -> _Search:
    """Divide the cells and refit by turns, from laws ``theta (B, p)``.

    Where it ``alternates (B,)`` every second division is about the law without its scatter.
    """
    xp = namespace(fits.gram)
    num, num_cells = barred.shape
    run_cost = description.cost_of_runs(fits, barred)
    nothing = Described(
        cost=xp.full(num, xp.inf, theta.dtype),
        clean=xp.ones((num, num_cells), bool),
        law_rows=xp.zeros(num, theta.dtype),
        largest=xp.zeros((num, num_cells), bool),
        scatter=scatter,
    )

    def step(k: Any, state: _Search) -> _Search:
        scatter = xp.where(xp.asarray(alternates) & (k % 2 == 1), 0, state.scatter)
        return _improve(fits, costs, run_cost, state._replace(scatter=scatter), physics)

    return repeat(_NUM_STEPS, step, _Search(theta, scatter, theta, nothing))


def _prefer_larger(
    fits: LocalFits, costs: Costs, place: FoundPlace, largest: Any, trusted: Any, physics: slice
) -> FoundPlace:
    """The regime about the largest excluded run, where that explains more rows nearly as well.

    Args:
      fits, costs: the cells.
      place: the shortest description.
      largest: ``(K,)`` bool, its largest run with a law of its own.
      trusted: ``(K,)`` bool.
      physics: columns of the law.
    """
    xp = namespace(fits.gram)
    rows = fits.num_rows
    run = largest[None]
    law = fit_law(fits, costs.weight, run, physics)
    scatter = description.scatter_of(fits, costs, law.theta, run, physics)
    state = _search(fits, costs, run | trusted[None], law.theta, scatter, physics)
    best = state.best
    clean = best.clean[0] & fits.present
    size, before = (xp.where(cells, rows, 0.0).sum() for cells in (clean, place.clean))
    gain = place.gain + place.cost - best.cost[0]
    larger = (place.other_rows > before) & (size > before) & law.determined[0]
    larger = larger & (gain > _ENOUGH * place.gain) & ~xp.any(trusted)
    other = place._replace(
        gain=gain,
        cost=best.cost[0],
        clean=clean,
        theta=state.best_theta[0],
        scatter=best.scatter[0],
        rival_gap=place.cost - best.cost[0],
        rival=place.clean,
        rival_theta=place.theta,
        other_rows=best.law_rows[0],
    )
    return FoundPlace(*(choose(larger, *pair) for pair in zip(other, place, strict=True)))


def gain_of_regions(
    fits: LocalFits, place: FoundPlace, costs: Costs, trusted: Any, members: Any, physics: slice
) -> Any:
    """Nats ``(R,)`` that the exclusion of each region saves, the law and the other regions staying.

    Args:
      fits, place: the cells and what was found.
      costs, trusted: as for ``find_place``.
      members: ``(R, K)`` bool, cells of the regions.
      physics: columns of the law.
    """
    xp = namespace(fits.gram)
    num = len(members)
    theta = xp.broadcast_to(place.theta[None], (num, len(place.theta)))
    position = xp.broadcast_to(xp.reshape(place.scatter, (1,)), (num,))
    barred = members | (place.clean | trusted)[None]
    state = _search(fits, costs, barred, theta, position, physics)
    gain = xp.where(xp.any(members, -1), state.best.cost - place.cost, 0.0)
    return xp.minimum(xp.maximum(gain, 0.0), place.gain)


def members_of_runs(clean: Any, present: Any, most: int) -> Any:
    """Cells of the longest runs of excluded cells, ``(most, K)`` bool, in the order of the axis."""
    xp = namespace(clean)
    num_cells = len(clean)
    bad = present & ~clean
    begins = bad & ~xp.concatenate([xp.zeros(1, bool), bad[:-1]])
    run = running_sums(begins.astype(np.int32))[1:] - 1
    slots = np.arange(num_cells, dtype=np.int32)
    members = bad[None] & (run[None] == slots[:, None])
    size = members.sum(-1)
    earlier = np.tri(num_cells, k=-1, dtype=bool)
    larger = (size[None] > size[:, None]) | ((size[None] == size[:, None]) & earlier)
    chosen = (larger.sum(-1) < most) & (size > 0)
    slot = xp.where(chosen, running_sums(chosen.astype(np.int32))[:-1], num_cells)
    picked = slot[None] == np.arange(most, dtype=np.int32)[:, None]
    return xp.any(picked[:, :, None] & members[None], axis=1)


def _judge(fits: LocalFits, state: _Search, none: tuple[Any, Any, Any]) -> tuple[FoundPlace, Any]:
    """The best division, and the cells ``(K,)`` of its largest run with a law of its own.

    Of two laws that describe the cells about as well it is that of more rows.
    """
    xp = namespace(fits.gram)
    rows, found = fits.num_rows, state.best
    kept = found.clean & fits.present[None]
    size = contract("bk,k->b", kept.astype(rows.dtype), rows)
    best = xp.argmin(found.cost)
    common = contract("bk,k->b", (kept & kept[best][None]).astype(rows.dtype), rows)
    apart = common < OVERLAP * xp.minimum(size, size[best])
    near = apart & (found.cost < found.cost[best] + RIVAL) & (size > size[best])
    chosen = xp.argmin(xp.where(near | (xp.arange(len(size)) == best), -size, 0.0))
    common = contract("bk,k->b", (kept & kept[chosen][None]).astype(rows.dtype), rows)
    apart = (common < OVERLAP * xp.minimum(size, size[chosen])) & xp.isfinite(found.cost)
    rival_cost = xp.where(apart, found.cost, xp.inf)
    rival = xp.argmin(rival_cost)
    cost_none, theta_none, scatter_none = none
    some = found.cost[chosen] < cost_none
    cost = xp.where(some, found.cost[chosen], cost_none)
    place = FoundPlace(
        gain=xp.where(some, cost_none - found.cost[chosen], 0.0),
        cost=cost,
        clean=choose(some, kept[chosen], fits.present),
        theta=choose(some, state.best_theta[chosen], theta_none),
        scatter=choose(some, found.scatter[chosen], scatter_none),
        rival_gap=xp.where(some, rival_cost[rival] - cost, xp.inf),
        rival=kept[rival] & some,
        rival_theta=state.best_theta[rival],
        other_rows=xp.where(some, found.law_rows[chosen], 0.0),
        theta_all=theta_none,
        scatter_all=scatter_none,
    )
    return place, found.largest[chosen] & fits.present & some


def size_of_scatter(fits: LocalFits, scatter: Any) -> Any:
    """The scatter per row, in units of the response, of positions in ``SCATTERS``."""
    xp = namespace(fits.gram)
    cells = xp.maximum(fits.present.sum(), 1).astype(fits.gram.dtype)
    variance = xp.where(fits.present, fits.variance, 0.0).sum() / cells
    each = xp.where(fits.present, fits.rank, 0.0).sum() / xp.maximum(fits.num_rows.sum(), 1)
    return xp.sqrt(xp.asarray(SCATTERS, fits.gram.dtype)[scatter] * variance * each)
