"""Does a term act on all rows, rather than in the regions? (docs/method.md, section 3.8).

References:
  Ramsey (1969), Tests for specification errors in classical linear least-squares regression
  analysis, Journal of the Royal Statistical Society B 31.
"""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default.cross_fits import (
    NUM_SPLITS,
    are_even,
    cross_fit,
    fit_supports,
    halves,
    mean_over_splits,
    residual_sums,
)
from lisdd_jax.default.final_sums import DEGREE
from lisdd_jax.default.form import ChosenForm, Sums, about_law, error_of_form, separation
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.numerics.hosted import namespace
from lisdd_jax.statistics.supports import term_places

_HELD_OUT = 3.0
"""Noise variances, per coefficient, by which held-out sums of two halves exceed the residual sum of
all rows on average: two for being fitted on a half, one for degrees of freedom."""

_CURVE = 4.0
"""Prices of a term that a curve of all columns must save outside of one region: where laws hold
nearly, as measured ones do, it saves up to two."""


class Everywhere(NamedTuple):
    """What acts on all rows, against terms that act in the regions.

    Attributes:
      wins: bool, something that acts everywhere predicts held-out rows as well as the regions do,
        or saves something where there is none.
      named: bool, a support does, not only a curve of many columns.
      support: int, the one to report: its terms pay for their choice too (``form.separation``).
      errors: ``(S,)`` held-out sums of squares of all rows; inf where they are undetermined.
      gain: noise variances that it saves against the law alone where there is no region; else 0.
    """

    wins: Any
    named: Any
    support: Any
    errors: Any
    gain: Any


def act_everywhere(
    sums: Sums,
    curved: Any,
    whole: Any,
    form: ChosenForm,
    theta: Any,
    present: Any,
    num_ends: Any,
    vouched: Any,
    variance: Any,
    layout: ColumnLayout,
    max_terms: int,
) -> Everywhere:
    """Compare the best support on all rows with the regions, on held-out rows.

    Terms act everywhere where they predict all rows as well as the law and the regions do, and
    where the rows outside need them: there they must predict better than the law alone by ``log n``
    variances per term. Regions with several ends imitate a term that acts everywhere piece by
    piece, so each further end pays ``log n``. Beside these, and where the regions hold most of the
    rows, those outside need not show it: it is enough that they are not predicted worse by as much.
    Without regions terms must save three variances each, weighted by the cells' own noise.

    The library may hold no such support, though the law bends everywhere. So all its terms are
    tried together in the same way, with powers of the axis, and then with products of axis and
    physics and the square of the prediction (Ramsey 1969) too; what so many columns cost is in
    their held-out errors, and rows outside must not be predicted worse at all. Rows over which a
    deviation begins gradually are not asked: they have a part in it.

    Args:
      sums: of the regions and outside.
      curved: ``(2, 4, m', m')`` of the regions together and outside, but for gradual onsets, with
        columns of curves (``final_sums.Final``).
      whole: ``(m, m)`` sums of all rows, weighted by one over the noise variance.
      form: what was chosen for the regions.
      theta: ``(p,)`` the law.
      present: ``(R,)`` bool.
      num_ends: ends that do not lie at the end of the axis.
      vouched: bool, the law is vouched for somewhere: then nobody is excused.
      variance: of the noise.
      layout: columns.
      max_terms: largest support.
    """
    xp = namespace(variance)
    place, used = term_places(layout.num_terms, max_terms)
    physics = np.arange(layout.num_directions)[layout.physics]
    own = error_of_form(about_law(sums.gram[:-1], theta, layout), form, layout, max_terms)
    own = xp.where(present, own, 0.0).sum()
    further = xp.maximum(num_ends - 1, 0).astype(own.dtype)
    count = sums.num_rows.sum(-1)
    excused = ((further > 0) | (count[:-1].sum() > count[-1])) & ~vouched
    local, sharp = (
        _WithRegions(own, _predict_by_law(gram[-1], physics), further, excused)
        for gram in (sums.gram, curved)
    )
    fitted = _fit_everywhere(sums.gram, whole, physics, place + layout.num_directions, used)
    lengths = xp.asarray(used.sum(-1), variance.dtype)
    some = xp.any(present)
    # Without a region halves would decide by chance, and unequal noise would pass for a term.
    saved = fitted.left[0] - fitted.left[1:] - _HELD_OUT * lengths
    errors = xp.where(fitted.allowed, xp.where(some, fitted.held_out, -saved), xp.inf)
    best = xp.argmin(errors)
    num_rows = sums.num_rows.sum()
    price = xp.log(xp.maximum(num_rows, 2)) * variance
    limit = lengths[best] * price
    named = _rivals(local, errors[best], fitted.outside[best], price, limit, limit)
    curves = _rivals(sharp, *_fit_curves(curved, layout), price, _CURVE * price, 0.0)
    gain = xp.where(some, 0.0, -errors[best])
    named = xp.where(some, named, gain > 0)
    held_out = xp.where(fitted.allowed, fitted.held_out, xp.inf)
    # Without a region errors are in units of the noise variance.
    paid = separation(layout.num_terms, num_rows) * xp.where(some, variance, 1.0)
    support = xp.argmin(errors + lengths * paid)
    return Everywhere(named | (some & xp.any(curves)), named, support, held_out, gain)


class _WithRegions(NamedTuple):
    """How well the law and the regions predict.

    Attributes:
      inside, outside: held-out sums of squares of the regions, and of the rows outside by a law of
        theirs.
      further: ends beyond the first.
      excused: bool, the rows outside need not show what acts on all of them.
    """

    inside: Any
    outside: Any
    further: Any
    excused: Any


def _predict_by_law(gram: Any, physics: Any) -> Any:
    """Held-out sum of squares of rows, in four folds, by a law of their own."""
    return cross_fit(gram, physics[None], np.ones((1, len(physics)), bool))[0]


def _rivals(
    local: _WithRegions, error: Any, outside: Any, price: Any, asked: Any, allowed: Any
) -> Any:
    """Whether what acts on all rows, with held-out errors of all and of those outside, does as well
    as the regions.

    Args:
      local: what they reach.
      error, outside: held-out errors.
      price: of an end.
      asked: what rows outside must save, and ``allowed`` what they may lose where they are excused.
    """
    saves = local.outside - outside
    shown = (saves > asked) | (local.excused & (saves > -allowed))
    return (error < local.inside + local.outside + price * local.further) & shown


def _fit_curves(curved: Any, layout: ColumnLayout) -> tuple[Any, Any]:
    """Held-out errors ``(2,)`` of all rows and of those outside, of curves along the axis, and of
    those in the physics too."""
    size = curved.shape[-1] - 1
    columns = np.broadcast_to(np.arange(size), (2, size))
    used = np.ones((2, size), bool)
    used[0, layout.size - 2 + DEGREE :] = False
    split = halves(curved.sum(0), -3)
    coefficients, _ = fit_supports(split, columns, used)
    every, outside = (
        mean_over_splits(
            residual_sums(scored[:, ::-1], columns, coefficients).sum(1), are_even(split)[:, None]
        )
        for scored in (split, halves(curved[-1], -3))
    )
    return every, outside


class _FittedEverywhere(NamedTuple):
    """Supports on all rows beside the law, ``(S,)``.

    Attributes:
      allowed: bool, determined in both halves of a split and in all rows.
      held_out: sums of squares of either half's fit on the other one.
      outside: the same outside of the regions.
      left: ``(S + 1,)`` weighted residual sums of all rows; the first is that of the law alone.
    """

    allowed: Any
    held_out: Any
    outside: Any
    left: Any


def _fit_everywhere(
    gram: Any, whole: Any, physics: Any, place: Any, used: Any
) -> _FittedEverywhere:
    """Fit all supports on all rows, the law free.

    Args:
      gram: ``(R + 1, 4, m, m)`` of regions and outside, in four folds.
      whole: ``(m, m)`` weighted sums of all rows.
      physics: columns of the law.
      place, used: ``(S, s)`` columns of every support.
    """
    xp = namespace(gram)
    place = np.concatenate([place[:1], place])
    used = np.concatenate([np.zeros_like(used[:1]), used])
    law = np.broadcast_to(physics, (len(place), len(physics)))
    columns = np.concatenate([law, place], 1)
    in_use = np.concatenate([np.ones_like(law, bool), used], 1)
    size, lead = gram.shape[-1], (NUM_SPLITS, 2, len(columns))
    split, there = halves(gram.sum(0), -3), halves(gram[-1], -3)
    every = xp.concatenate([split.reshape(-1, size, size), whole[None]])
    coefficients, determined = fit_supports(every, columns, in_use)
    scored = xp.concatenate([split[:, ::-1].reshape(-1, size, size), whole[None]])
    errors = residual_sums(scored, columns, coefficients)
    outside = residual_sums(there[:, ::-1], columns, coefficients[:-1].reshape(*lead, -1))
    known = xp.all(determined[:-1].reshape(lead), 1) & are_even(split)[:, None]
    held_out, outside = (
        mean_over_splits(each.sum(1), known)[1:] for each in (errors[:-1].reshape(lead), outside)
    )
    allowed = xp.isfinite(held_out) & determined[-1, 1:]
    return _FittedEverywhere(allowed, held_out, outside, errors[-1])
