"""Does a term act on all rows, rather than in the regions? (docs/method.md, section 3.8)."""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default.cross_fits import cross_fit, fit_supports, residual_sums
from lisdd_jax.default.form import ChosenForm, Sums, about_law, error_of_form
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.numerics.hosted import namespace
from lisdd_jax.statistics.supports import term_places

_HELD_OUT = 3.0
"""Noise variances, per coefficient, by which held-out sums of two folds exceed the residual sum of
all rows on average over folds: two for being fitted on a half, one for degrees of freedom."""


class Everywhere(NamedTuple):
    """Terms that act on all rows, against terms that act in the regions.

    Attributes:
      wins: bool, a support acting everywhere predicts held-out rows as well as the regions do, or
        saves something where there is none.
      support: int, that support.
      gain: noise variances that it saves against the law alone where there is no region; else 0.
    """

    wins: Any
    support: Any
    gain: Any


def act_everywhere(
    sums: Sums,
    whole: Any,
    form: ChosenForm,
    theta: Any,
    present: Any,
    num_ends: Any,
    variance: Any,
    layout: ColumnLayout,
    max_terms: int,
) -> Everywhere:
    """Compare the best support on all rows with the regions, on held-out rows.

    Terms act everywhere where they predict all rows as well as the law and the regions do, and
    where the rows outside need them: there they must predict better than the law alone by ``log n``
    variances per term. Regions with several ends imitate a term that acts everywhere piece by
    piece, so each further end pays ``log n``, and then the rows outside need not show it: it is
    enough that they are not predicted worse by as much. Without regions terms must save three
    variances each, weighted by the cells' own noise.

    Args:
      sums: of the regions and outside.
      whole: ``(m, m)`` sums of all rows, weighted by one over the noise variance.
      form: what was chosen for the regions.
      theta: ``(p,)`` the law.
      present: ``(R,)`` bool.
      num_ends: ends that do not lie at the end of the axis.
      variance: of the noise.
      layout: columns.
      max_terms: largest support.
    """
    xp = namespace(variance)
    place, used = term_places(layout.num_terms, max_terms)
    physics = np.arange(layout.num_directions)[layout.physics]
    outside = cross_fit(sums.gram[-1], physics[None], np.ones((1, len(physics)), bool))[0]
    own = error_of_form(about_law(sums.gram[:-1], theta, layout), form, layout, max_terms)
    local = outside + xp.where(present, own, 0.0).sum()
    fitted = _fit_everywhere(sums.gram, whole, physics, place + layout.num_directions, used)
    lengths = xp.asarray(used.sum(-1), variance.dtype)
    some = xp.any(present)
    # Without a region single folds would decide by chance, and unequal noise would pass for a term.
    saved = fitted.left[0] - fitted.left[1:] - _HELD_OUT * lengths
    errors = xp.where(fitted.allowed, xp.where(some, fitted.held_out, -saved), xp.inf)
    best = xp.argmin(errors)
    price = xp.log(xp.maximum(sums.num_rows.sum(), 2)) * variance
    further = xp.maximum(num_ends - 1, 0).astype(variance.dtype)
    saves = outside - fitted.outside[best]
    limit = lengths[best] * price
    shown = (saves > limit) | ((further > 0) & (saves > -limit))
    predicts = (errors[best] < local + price * further) & shown
    gain = xp.where(some, 0.0, -errors[best])
    return Everywhere(xp.where(some, predicts, gain > 0), best, gain)


class _FittedEverywhere(NamedTuple):
    """Supports on all rows beside the law, ``(S,)``.

    Attributes:
      allowed: bool, determined in either fold and in all rows.
      held_out: sums of squares of either fold's fit on the other one.
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
      gram: ``(R + 1, 2, m, m)`` of regions and outside, in two folds.
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
    folds = gram.sum(0)
    every = xp.concatenate([folds, whole[None]])
    coefficients, determined = fit_supports(every, columns, in_use)
    scored = xp.concatenate([folds[::-1], whole[None]])
    errors = residual_sums(scored, columns, coefficients)
    outside = residual_sums(gram[-1][::-1], columns, coefficients[:2]).sum(0)
    return _FittedEverywhere(
        xp.all(determined, 0)[1:], errors[:2].sum(0)[1:], outside[1:], errors[2]
    )
