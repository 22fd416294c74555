"""What: the support that predicts held-out rows of the regions (docs/method.md, section 3.8).

Every support is fitted on half of the rows of a region and scored on the others, both ways and in
several splits. Beside the candidate terms stands the region's own change of the law in ``[1,
axis, physics]``: where no support predicts nearly as well, the library lacks the term.
"""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default.cross_fits import (
    cross_fit,
    fit_supports,
    halves,
    held_out_errors,
    residual_sums,
)
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import choose, namespace
from lisdd_jax.statistics.supports import (
    Choice,
    choose_support,
    error_limit,
    sizes,
    supports,
    term_places,
)

_FITTED = 2.0
"""Noise variances of held-out error that a coefficient without effect costs in cross-fitting."""


def separation(num_terms: int, num_rows: Any) -> Any:
    """Noise variances of held-out error, per further coefficient, that own terms must gain.

    What a coefficient costs; as much as the best of ``L`` terms without effect seems to gain; and,
    since one form for all regions is what most discrepancies have, Schwarz's log of the rows.

    References:
      Foster and George (1994), The risk inflation criterion for multiple regression, Annals of
      Statistics 22. Schwarz (1978), Estimating the dimension of a model, Annals of Statistics 6.
    """
    xp = namespace(num_rows)
    return _FITTED + 2 * float(np.log(num_terms)) + xp.log(xp.maximum(num_rows, 1))


class Sums(NamedTuple):
    """Sums of products of the regions and of what lies outside, in four folds.

    Attributes:
      gram: ``(R + 1, 4, m, m)``; the last entry is outside.
      num_rows: ``(R + 1, 4)``.
    """

    gram: Any
    num_rows: Any


class ChosenForm(NamedTuple):
    """The chosen terms.

    Attributes:
      support: ``(R,)`` int, row of ``supports``.
      shared: bool, one mechanism for all regions.
      errors: ``(R, S)`` held-out sum of squares of every support, inf where it is undetermined.
      equivalent: ``(R, S)`` bool.
      usable: ``(R,)`` bool, some support could be judged.
      change: ``(R, q)`` bool, directions of the region's own change of the law.
      lacking: ``(R,)`` bool, that change predicts better than any support.
      error: ``(R,)`` held-out sum of squares of what predicts best.
      use: ``(R, q + L)`` bool, columns of that.
    """

    support: Any
    shared: Any
    errors: Any
    equivalent: Any
    usable: Any
    change: Any
    lacking: Any
    error: Any
    use: Any


def about_law(gram: Any, theta: Any, layout: ColumnLayout) -> Any:
    """Sums of products with the response replaced by the residual of a law ``theta (p,)``."""
    xp = namespace(gram)
    zero = xp.zeros((layout.size,), gram.dtype)
    one = xp.ones((1,), gram.dtype)
    residual = xp.concatenate([zero[:2], -theta, zero[layout.num_directions : -1], one])
    cross = xp.sum(gram * residual.reshape((1,) * (gram.ndim - 1) + (-1,)), -1)
    last = np.arange(layout.size) == layout.size - 1
    last = last.reshape((1,) * (gram.ndim - 2) + (-1,))
    corner = xp.sum(cross * residual.reshape((1,) * (cross.ndim - 1) + (-1,)), -1)
    cross = xp.where(last, corner[..., None], cross)
    made = xp.where(last[..., None, :], cross[..., :, None], gram)
    return xp.where(last[..., :, None], cross[..., None, :], made)


def own_change(gram: Any, variance: Any, layout: ColumnLayout) -> Any:
    """Directions ``(R, q)`` of each region's own change of the law: one of them, or all.

    By Schwarz's criterion; ``gram (R, m, m)`` of the residual.
    """
    xp = namespace(gram)
    size = layout.num_directions
    cross = gram[:, :size, -1]
    square = xp.diagonal(gram, axis1=1, axis2=2)[:, :size]
    single = xp.where(square > 0, cross**2 / xp.where(square > 0, square, 1.0), 0.0)
    every = small_systems.solve(gram[:, :size, :size], cross, tolerances.gram(gram.dtype))
    gain = xp.sum(every.solution * cross, -1)
    price = variance * xp.log(xp.maximum(gram[:, 0, 0], 2))
    one = xp.max(single, -1) - price - 2 * variance * float(np.log(size))
    best = xp.argmax(single, -1)
    alone = (one >= gain - every.rank * price)[:, None]
    return xp.where(alone, np.arange(size)[None] == best[:, None], True)


def _error_of_change(gram: Any, change: Any, layout: ColumnLayout) -> Any:
    """Held-out sums of squares ``(R,)`` of each region's own change."""
    xp = namespace(gram)
    columns = xp.asarray(np.tile(np.arange(layout.num_directions), (len(gram), 1)))
    return held_out_errors(gram, columns, change)


def error_of_form(gram: Any, form: "ChosenForm", layout: ColumnLayout, max_terms: int) -> Any:
    """Held-out sums of squares ``(R,)`` of what was chosen for the regions."""
    xp = namespace(gram)
    place, used = term_places(layout.num_terms, max_terms)
    # Of one width with the directions of a change, positions out of use repeat the first column.
    size, most = layout.num_directions, max(layout.num_directions, place.shape[1])
    beyond = [(0, 0), (0, most - place.shape[1])]
    columns = xp.asarray(np.pad(place + size, beyond))[form.support]
    used = xp.asarray(np.pad(used, beyond))[form.support]
    directions = np.pad(np.arange(size), (0, most - size))[None]
    change = xp.pad(form.change, [(0, 0), (0, most - size)])
    lacking = form.lacking[:, None]
    columns, used = xp.where(lacking, directions, columns), xp.where(lacking, change, used)
    return held_out_errors(gram, columns, used)


def choose_form(
    sums: Sums,
    theta: Any,
    present: Any,
    variance: Any,
    layout: ColumnLayout,
    max_terms: int,
    tolerance: Any,
) -> ChosenForm:
    """Choose the terms of every region, of its own or shared by all.

    Args:
      sums: of the regions and outside.
      theta: ``(p,)`` the law.
      present: ``(R,)`` bool.
      variance: of the noise.
      layout: columns.
      max_terms: largest support.
      tolerance: relative excess of error within which a smaller support wins.
    """
    xp = namespace(theta)
    regions = about_law(sums.gram[:-1], theta, layout)
    total = regions[..., -1, -1].sum(-1)
    rounding = tolerances.CANCELLATION(theta.dtype) * total
    held = _hold_out(regions, rounding, layout, max_terms)
    num_rows = xp.where(present[:, None], sums.num_rows[:-1], 0).sum().astype(theta.dtype)
    price = separation(layout.num_terms, num_rows) * variance
    judged = _judge_supports(held, present, rounding, price, layout, max_terms, tolerance)
    error = xp.take_along_axis(held.own, judged.support[:, None], 1)[:, 0]
    change = own_change(regions.sum(1), variance, layout)
    by_change = _error_of_change(regions, change, layout)
    lacking = present & (error > error_limit(by_change, tolerance, rounding))
    terms = xp.asarray(supports(layout.num_terms, max_terms))[judged.support]
    parts = xp.where(lacking[:, None], change, False), xp.where(lacking[:, None], False, terms)
    return ChosenForm(
        support=judged.support,
        shared=judged.shared & ~xp.any(lacking),
        errors=xp.where(judged.shared, held.joint[None], held.own),
        equivalent=judged.equivalent,
        usable=xp.any(judged.equivalent, -1),
        change=change,
        lacking=lacking,
        error=xp.where(lacking, by_change, error),
        use=xp.concatenate(parts, 1) & present[:, None],
    )


class _HeldOut(NamedTuple):
    """Held-out sums of squares of every support: ``(R, S)`` of each region, ``(S,)`` of all."""

    own: Any
    joint: Any


def _hold_out(regions: Any, rounding: Any, layout: ColumnLayout, max_terms: int) -> _HeldOut:
    xp = namespace(regions)
    place, used = term_places(layout.num_terms, max_terms)
    place = place + layout.num_directions
    every = xp.concatenate([regions, regions.sum(0)[None]])
    least = xp.concatenate([rounding, rounding.sum()[None]])
    errors = xp.maximum(cross_fit(every, place, used), least[:, None])
    return _HeldOut(errors[:-1], errors[-1])


class _Judged(NamedTuple):
    """The support ``(R,)`` of each region, whether it is one for all, and its equivalents."""

    support: Any
    shared: Any
    equivalent: Any


def _judge_supports(
    held: _HeldOut,
    present: Any,
    rounding: Any,
    price: Any,
    layout: ColumnLayout,
    max_terms: int,
    tolerance: Any,
) -> _Judged:
    """The smallest support within the tolerance, one for all unless own ones gain their price."""
    xp = namespace(price)
    size = sizes(layout.num_terms, max_terms)
    every = xp.concatenate([held.own, held.joint[None]])
    least = xp.concatenate([rounding, rounding.sum()[None]])
    found = choose_support(every, size, tolerance, least)
    position, one = found.position[:-1], Choice(found.position[-1], found.equivalent[-1])
    chosen = xp.take_along_axis(held.own, position[:, None], 1)[:, 0]
    apart = xp.where(present, chosen, 0.0).sum()
    lengths = xp.asarray(size, held.own.dtype)
    more = xp.where(present, lengths[position], 0.0).sum() - lengths[one.position]
    allowance = price * xp.maximum(more, 1)
    several = present.sum() > 1
    shared = several & xp.any(one.equivalent)
    shared = shared & (held.joint[one.position] <= apart + allowance)
    equivalent = xp.where(shared, one.equivalent[None], found.equivalent[:-1])
    equivalent = equivalent & present[:, None]
    return _Judged(xp.where(shared, one.position, position), shared, equivalent)


def split_supports(
    sums: Sums, form: ChosenForm, theta: Any, variance: Any, layout: ColumnLayout, max_terms: int
) -> Any:
    """The support that either half of a split would choose by itself, ``(3, 2, R)``, by Schwarz's
    criterion."""
    xp = namespace(theta)
    regions = about_law(sums.gram[:-1], theta, layout)
    place, used = term_places(layout.num_terms, max_terms)
    place = place + layout.num_directions
    joint = xp.broadcast_to(regions.sum(0)[None], regions.shape)
    regions = halves(choose(form.shared, joint, regions), -3)
    coefficients, determined = fit_supports(regions, place, used)
    left = xp.where(determined, residual_sums(regions, place, coefficients), xp.inf)
    rows = xp.maximum(halves(sums.num_rows[:-1], -1), 2)
    length = xp.asarray(used.sum(-1), theta.dtype)[None, None, None]
    price = xp.log(rows)[..., None] * variance * length
    return xp.moveaxis(xp.argmin(left + price, -1), 0, -1)
