"""Ends, terms and the law beside them by turns (docs/method.md, sections 3.7 and 3.8)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax.config import Config
from lisdd_jax.default import rows
from lisdd_jax.default.ends import Placed
from lisdd_jax.default.form import ChosenForm, Sums, about_law, choose_form, own_change
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.rows import OpenRegions
from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import choose, namespace, to_host, traced_once

_NUM_TURNS, _NUM_LAWS = 3, 2
"""Moves of the ends, each with the terms chosen after the last; they repeat after one or two. Then
they are made again about the law of the rows outside."""


class Start(NamedTuple):
    """What a turn begins with: columns of the corrections, whether one serves all regions, ends."""

    use: Any
    shared: Any
    start: Any
    stop: Any


class Turned(NamedTuple):
    """Where a turn leads.

    Attributes:
      placed, form: ends and terms about the law ``theta (p,)``.
      outside: ``(p,)`` the law of the rows outside of the ends.
      settled: bool, another turn would begin as this one did.
      cost: squares that are left, and the price of coefficients and ends.
    """

    placed: Placed
    form: ChosenForm
    theta: Any
    outside: Any
    settled: Any
    cost: Any

    @property
    def next(self) -> Start:
        """What the next turn begins with."""
        return _next(self.placed, self.form)


def _next(placed: Placed, form: ChosenForm) -> Start:
    return Start(form.use, form.shared, placed.start, placed.stop)


def law_outside(sums: Sums, theta: Any, layout: ColumnLayout) -> Any:
    """Least squares on rows of the law outside of the regions; ``theta (p,)`` where undefined."""
    xp = namespace(theta)
    gram, physics = sums.gram[-1].sum(0), layout.physics
    law = small_systems.solve(
        gram[physics, physics], gram[physics, -1], tolerances.gram(gram.dtype)
    )
    return xp.where(xp.all(law.independent), law.solution, theta)


def cost_of(
    sums: Sums,
    placed: Placed,
    form: ChosenForm,
    theta: Any,
    outside: Any,
    num_rows: Any,
    variance: Any,
    layout: ColumnLayout,
) -> Any:
    """Squares that law and corrections leave, with Schwarz's price of coefficients and ends.

    Args:
      sums: of the regions between the ends ``placed``, and outside.
      form: what the corrections are.
      theta, outside: ``(p,)`` the law that the corrections are about, and that of the rows outside.
      num_rows: rows in use, at which an end is none.
      variance, layout: of the noise; columns.
    """
    xp = namespace(theta)
    gram = sums.gram.sum(1)
    regions, slots = about_law(gram[:-1], theta, layout), np.arange(len(gram) - 1)
    together = xp.where((slots == 0)[:, None, None], regions.sum(0)[None], 0.0)
    regions = choose(form.shared, together, regions)
    left = about_law(gram[-1:], outside, layout)[0, -1, -1]
    left = left + (regions[:, -1, -1] - _gain(regions, form.use)).sum()
    present = xp.any(form.use, 1)
    ends = (present & (placed.start > 0)).sum() + (present & (placed.stop < num_rows)).sum()
    parameters = (form.use & ~(form.shared & (slots > 0))[:, None]).sum() + 2 * ends
    price = xp.log(xp.maximum(sums.num_rows.sum(), 2)) * variance
    return left + price * parameters.astype(theta.dtype)


def _gain(gram: Any, use: Any) -> Any:
    """What corrections in the columns ``use (R, q + L)`` take off sums of squares, ``(R,)``."""
    xp = namespace(gram)
    moment = xp.where(use, gram[:, :-1, -1], 0.0)
    system = xp.where(use[:, :, None] & use[:, None, :], gram[:, :-1, :-1], 0.0)
    found = small_systems.solve(system, moment, tolerances.gram(gram.dtype))
    return (found.solution * moment).sum(-1)


def find_form(
    ordered: Ordered,
    region: OpenRegions,
    sums: Sums,
    theta: Any,
    variance: Any,
    members: Any,
    layout: ColumnLayout,
    config: Config,
) -> Turned:
    """Move the ends and choose the terms by turns, from the regions' own changes of the law on.

    The law ``theta (p,)`` is that of the clean cells, which hold rows of the regions where an end
    lies within a cell. Once the turns have settled it is that of the rows outside, and they go on.
    A slope and an end that reaches too far can keep each other. So where more than a level was
    found the turns begin once more with levels alone, and the cheaper end counts.

    Args:
      ordered: the rows.
      region, sums: regions as runs of cells, and the sums over their rows.
      theta: the law.
      variance: of the noise.
      members: ``(R, K)`` bool, cells of the regions.
      layout, config: columns and settings.
    """
    xp = namespace(variance)
    present = xp.any(members, -1)
    gram = to_host(sums).gram.sum(1)
    change = own_change(about_law(gram[:-1], theta, layout), variance, layout)
    none = xp.zeros((len(present), layout.num_terms), bool)
    level = _are_level(gram.sum(0))[:-1]
    num_rows = to_host(ordered.num_rows)

    def turn(theta: Any, begin: Start) -> Turned:
        ends = (begin.start, begin.stop)
        placed, sums = rows.move_ends(ordered, region, theta, begin.use, begin.shared, ends, layout)
        placed, sums = to_host((placed, sums))
        settings = (layout, config.max_terms, config.tolerance)
        form = choose_form(sums, theta, present, variance, *settings)
        outside = xp.where(xp.any(present), law_outside(sums, theta, layout), theta)
        pairs = zip(*to_host((begin, _next(placed, form))), strict=True)
        settled = xp.all(xp.stack([xp.all(before == after) for before, after in pairs]))
        cost = cost_of(sums, placed, form, theta, outside, num_rows, variance, layout)
        return Turned(placed, form, theta, outside, settled, cost)

    def begin(use: Any) -> Start:
        none = xp.zeros((), bool)
        return Start(use & present[:, None], none, region.spans.start, region.spans.stop)

    def more(found: Turned) -> Any:
        return xp.any(found.form.use & ~level[None])

    first = begin(xp.concatenate([change, none], 1))
    second = begin(xp.asarray(np.arange(len(level))[None] == 0))
    return (_take_turns if xp is np else _trace_turns)(_Plan(turn, more, theta, first, second))


class _Plan(NamedTuple):
    """How turns are made.

    Attributes:
      turn: from a law ``theta`` and what it begins with to where it leads.
      more: whether what was found is more than levels.
      theta: the law to begin with.
      first: the start; ``second`` where it finds more.
    """

    turn: Callable[[Any, Start], Turned]
    more: Callable[[Turned], Any]
    theta: Any
    first: Start
    second: Start


def _are_level(gram: Any) -> Any:
    """Columns that are a constant, as the first one is, ``(m,)`` bool; ``gram (m, m)``."""
    square = namespace(gram).diagonal(gram)
    return gram[0] ** 2 >= (1 - tolerances.gram(gram.dtype)) * square[0] * square


def _cheaper(found: Turned, other: Turned) -> Any:
    """Whether ``other`` is, and has settled if ``found`` has."""
    return (other.cost < found.cost) & (other.settled | ~found.settled)


def _take_turns(plan: _Plan) -> Turned:
    def run(begin: Start) -> Turned:
        theta = plan.theta
        for _ in range(_NUM_LAWS):
            for _ in range(_NUM_TURNS):
                found = plan.turn(theta, begin)
                begin = found.next
                if found.settled:
                    break
            theta = found.outside
        return found

    found = run(plan.first)
    if not plan.more(found):
        return found
    other = run(plan.second)
    return other if _cheaper(found, other) else found


def _trace_turns(plan: _Plan) -> Turned:
    """The same loops as one, so that a turn is compiled once."""
    turn, empty = traced_once(plan.turn, plan.theta, plan.first)

    def body(state: _Loop) -> _Loop:
        found = turn(state.theta, state.begin)
        done = found.settled | (state.step == _NUM_TURNS - 1)
        law = state.law + done.astype(state.law.dtype)
        again = done & (law == _NUM_LAWS)
        law = jnp.where(again & ~plan.more(found), 2 * _NUM_LAWS, law)
        after = jnp.where(done, found.outside, state.theta)
        return _Loop(
            law=law,
            step=jnp.where(done, 0, state.step + 1),
            theta=jnp.where(again, plan.theta, after),
            begin=choose(again, plan.second, found.next),
            found=found,
            kept=choose(again, found, state.kept),
        )

    zero = jnp.int32(0)
    state = _Loop(zero, zero, plan.theta, plan.first, empty, empty)
    state = lax.while_loop(lambda state: state.law < 2 * _NUM_LAWS, body, state)
    # Where the second start was left out, what was found last is what was kept.
    return choose(_cheaper(state.kept, state.found), state.found, state.kept)


class _Loop(NamedTuple):
    """Laws and turns made, what the next turn begins with, and what was found.

    Attributes:
      law, step: int32, laws settled on in both starts, and turns about the present one.
      theta, begin: of the next turn.
      found, kept: the last turn, and the last one of the first start.
    """

    law: Any
    step: Any
    theta: Any
    begin: Start
    found: Turned
    kept: Turned
