"""The form of what is missing: every support by cross-fit, with mechanisms shared or of their own.

The rows are in two folds. Each support is fitted on one fold, edges and coefficients together, and
scored on the other; the two errors are added. This is done twice, with one mechanism for all
regions and with one for each, and the two are compared on the held-out predictions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.config import Config
from lisdd_jax.default import blocks, edges
from lisdd_jax.default.edges import RowSpan, Terms
from lisdd_jax.default.runs import Spans
from lisdd_jax.numerics import extremes, scaling, tolerances
from lisdd_jax.statistics.supports import choose_support, sizes, term_places

_NUM_STEPS = 3
"""Alternations of edges and coefficients; they settle in two or three."""


class Shape(NamedTuple):
    """Terms and edges of every region.

    Attributes:
      terms: of every region, ``(K, m)``.
      region: refined ends as positions ``(K,)``.
      start_interval, stop_interval: ``(K, 2)`` positions that bound their confidence intervals.
      shared: bool.
      support: ``(K,)`` int32, row of ``supports``.
      errors: ``(K, S)`` mean squared held-out error, inf where a support is not determined.
      equivalent: ``(K, S)`` bool.
      main: int32, the region in which the terms gain most.
      usable: bool, every region present has a support.
    """

    terms: Terms
    region: RowSpan
    start_interval: jax.Array
    stop_interval: jax.Array
    shared: jax.Array
    support: jax.Array
    errors: jax.Array
    equivalent: jax.Array
    main: jax.Array
    usable: jax.Array


class _Choice(NamedTuple):
    support: jax.Array
    errors: jax.Array
    equivalent: jax.Array


def _choose(errors: jax.Array, num_terms: np.ndarray, tolerance: jax.Array) -> _Choice:
    support, equivalent = choose_support(errors, num_terms, tolerance)
    return _Choice(support, errors, equivalent)


class _CrossFit(NamedTuple):
    """Candidates ``(2, 2, S, K, ...)``: own or shared mechanism, fold, support, region."""

    candidates: blocks.Candidate
    total: jax.Array
    num_rows: jax.Array


def _cross_fit(
    parts: blocks.Blocks, spans: Spans, bonus: jax.Array, index: np.ndarray, used: np.ndarray
) -> _CrossFit:
    coarse = blocks.to_blocks(spans, parts)

    def fit(shared: jax.Array, fold: jax.Array) -> blocks.Candidate:
        def one(index: jax.Array, used: jax.Array) -> blocks.Candidate:
            return blocks.fit_candidate(parts, fold, shared, index, used, coarse, bonus, _NUM_STEPS)

        return jax.vmap(one)(jnp.asarray(index), jnp.asarray(used))

    over_folds = jax.vmap(fit, in_axes=(None, 0))
    candidates = jax.vmap(over_folds, in_axes=(0, None))(jnp.array([False, True]), jnp.arange(2))
    squares = jnp.sum(parts.products[..., -1, -1], axis=0)
    rows = extremes.running_sum(jnp.any(parts.folds, axis=0).astype(squares.dtype))
    n = rows.shape[0] - 1
    start, stop = (jnp.minimum(end * parts.size, n) for end in (coarse.start, coarse.stop))
    total = jnp.where(spans.present, squares[coarse.stop] - squares[coarse.start], 0.0)
    num_rows = jnp.where(spans.present, rows[stop] - rows[start], 0.0)
    return _CrossFit(candidates, total, num_rows)


def _held_out_errors(fit: _CrossFit, smallest: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Errors of every support ``(S, K)`` with own mechanisms, and ``(S,)`` with a shared one."""
    gain = jnp.sum(fit.candidates.gain, axis=1)
    determined = jnp.all(fit.candidates.determined, axis=1)

    def error(total: jax.Array, gain: jax.Array, num_rows: jax.Array) -> jax.Array:
        # Without noise, errors that differ by rounding only must count as equal.
        rounding = tolerances.CANCELLATION(total.dtype) * total
        left = jnp.maximum(total - gain, rounding) / jnp.maximum(num_rows, 1)
        return jnp.maximum(left, smallest)

    own = error(fit.total, gain[0], fit.num_rows)
    joint = error(jnp.sum(fit.total), jnp.sum(gain[1], axis=1), jnp.sum(fit.num_rows))
    all_determined = jnp.all(determined[1], axis=1)
    return jnp.where(determined[0], own, jnp.inf), jnp.where(all_determined, joint, jnp.inf)


def _held_out_correction(
    parts: blocks.Blocks,
    candidates: blocks.Candidate,
    support: jax.Array,
    index: np.ndarray,
    present: jax.Array,
) -> jax.Array:
    """Correction ``(n,)`` of every row, from the fit on the fold that it is not in.

    ``candidates (2, S, K, ...)`` of one way to share, ``support (K,)``.
    """
    region_slot = jnp.arange(support.shape[0])
    terms = parts.columns.T[jnp.asarray(index)[support]]
    num_rows = terms.shape[-1]

    def of_fold(candidate: blocks.Candidate, other: jax.Array) -> jax.Array:
        coefficients = candidate.coefficients[support, region_slot]
        region = RowSpan(*(ends[support, region_slot] for ends in candidate.region))
        correction = jnp.sum(terms * coefficients[..., None], axis=1)
        inside = region.inside(num_rows, present) & other
        return jnp.sum(jnp.where(inside, correction, 0.0), axis=0)

    return jnp.sum(jax.vmap(of_fold)(candidates, parts.folds[::-1]), axis=0)


def _is_shared(
    residual: jax.Array, mask: jax.Array, own: jax.Array, shared: jax.Array, separation: jax.Array
) -> jax.Array:
    """Own mechanisms do not predict better than a shared one beyond their standard error."""
    gain = jnp.where(mask, (residual - shared) ** 2 - (residual - own) ** 2, 0.0)
    spread = scaling.root(jnp.sum(gain**2))
    return jnp.sum(gain) <= separation * spread


def find_form(
    terms: jax.Array,
    residual: jax.Array,
    axis: jax.Array,
    used: jax.Array,
    folds: jax.Array,
    spans: Spans,
    variance: jax.Array,
    config: Config,
) -> Shape:
    """Choose terms and place edges.

    Args:
      terms: ``(n, L)`` scaled, sorted along the axis.
      residual: ``(n,)`` of the trusted physics.
      axis: ``(n,)``.
      used: ``(n,)`` bool, rows of the data set; they come first.
      folds: ``(2, n)`` bool, rows to use.
      spans: the flagged runs.
      variance: of the noise.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Shape``.
    """
    index, in_use = term_places(terms.shape[1], config.max_terms)
    num_terms = sizes(terms.shape[1], config.max_terms)
    mask = jnp.any(folds, axis=0)
    # Schwarz: an edge inside the axis is a parameter that a region up to its end does not have.
    bonus = 2 * jnp.log(jnp.maximum(jnp.sum(mask), 2).astype(variance.dtype)) * variance
    parts = blocks.make_blocks(terms, residual, used, folds, config.num_blocks)
    fit = _cross_fit(parts, spans, bonus, index, in_use)
    smallest = 1e-3 * variance
    own_errors, shared_errors = _held_out_errors(fit, smallest)
    own = jax.vmap(_choose, in_axes=(1, None, None))(own_errors, num_terms, config.tolerance)
    one = _choose(shared_errors, num_terms, config.tolerance)
    num = spans.present.shape[0]
    joint = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num, *leaf.shape)), one)
    own_correction, shared_correction = jax.vmap(
        lambda candidates, support: _held_out_correction(
            parts, candidates, support, index, spans.present
        )
    )(fit.candidates, jnp.stack([own.support, joint.support]))
    shared = (
        (jnp.sum(spans.present) > 1)
        & jnp.any(one.equivalent)
        & _is_shared(residual, mask, own_correction, shared_correction, config.separation)
    )
    choice = jax.tree.map(lambda a, b: jnp.where(shared, a, b), joint, own)
    chosen = Terms(jnp.asarray(index)[choice.support], jnp.asarray(in_use)[choice.support])
    slot = jnp.arange(num)
    mode = shared.astype(jnp.int32)
    begin = RowSpan(*(ends[mode, 0, choice.support, slot] for ends in fit.candidates.region))
    sums = edges.row_sums(terms.T[chosen.place], residual, mask)
    distinct = jnp.concatenate([jnp.ones(1, bool), axis[1:] > axis[:-1], jnp.ones(1, bool)])
    region = edges.alternate(sums, chosen.used, shared, spans, begin, bonus, distinct, _NUM_STEPS)
    region = edges.without_overlap(region, spans.present)
    gain = sums.gain(edges.fit_terms(sums, region, chosen.used, shared).coefficients)
    start_interval, stop_interval = edges.intervals(gain, region, spans, variance)
    gains = jnp.where(spans.present, gain[slot, region.stop] - gain[slot, region.start], -jnp.inf)
    return Shape(
        terms=chosen,
        region=region,
        start_interval=start_interval,
        stop_interval=stop_interval,
        shared=shared,
        support=choice.support.astype(jnp.int32),
        errors=choice.errors,
        equivalent=choice.equivalent & spans.present[:, None],
        main=jnp.argmax(gains),
        usable=jnp.all(jnp.any(choice.equivalent, axis=1) | ~spans.present),
    )
