"""Ends, terms and the law beside them by turns (docs/method.md, sections 3.7 and 3.8)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
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
from lisdd_jax.numerics.hosted import namespace, to_host

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
    """

    placed: Placed
    form: ChosenForm
    theta: Any
    outside: Any
    settled: Any

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
    own = about_law(to_host(sums).gram[:-1].sum(1), theta, layout)
    change = own_change(own, variance, layout)
    none = xp.zeros((len(present), layout.num_terms), bool)
    use = xp.concatenate([change, none], 1) & present[:, None]

    def turn(theta: Any, begin: Start) -> Turned:
        ends = (begin.start, begin.stop)
        placed, sums = rows.move_ends(ordered, region, theta, begin.use, begin.shared, ends, layout)
        sums = to_host(sums)
        settings = (layout, config.max_terms, config.tolerance)
        form = choose_form(sums, theta, present, variance, *settings)
        outside = xp.where(xp.any(present), law_outside(sums, theta, layout), theta)
        pairs = zip(*to_host((begin, _next(placed, form))), strict=True)
        settled = xp.all(xp.stack([xp.all(before == after) for before, after in pairs]))
        return Turned(placed, form, theta, outside, settled)

    begin = Start(use, xp.zeros((), bool), region.spans.start, region.spans.stop)
    return (_take_turns if xp is np else _trace_turns)(turn, theta, begin)


def _take_turns(turn: Callable[..., Turned], theta: Any, begin: Start) -> Turned:
    for _ in range(_NUM_LAWS):
        for _ in range(_NUM_TURNS):
            found = turn(theta, begin)
            begin = found.next
            if found.settled:
                break
        theta = found.outside
    return found


def _trace_turns(turn: Callable[..., Turned], theta: Any, begin: Start) -> Turned:
    """The same loops as one, so that a turn is compiled once."""

    def body(state: tuple[Any, ...]) -> tuple[Any, ...]:
        law, step, theta, begin, _ = state
        found = turn(theta, begin)
        done = found.settled | (step == _NUM_TURNS - 1)
        theta = jnp.where(done, found.outside, theta)
        law = law + done.astype(law.dtype)
        return law, jnp.where(done, 0, step + 1), theta, found.next, found

    zero = jnp.int32(0)
    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(turn, theta, begin)
    )
    first = (zero, zero, theta, begin, empty)
    return lax.while_loop(lambda state: state[0] < _NUM_LAWS, body, first)[-1]
