"""The clean regime: a search from every window of groups, its rival, and the flags that follow."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtri

from lisdd_jax.config import Config
from lisdd_jax.default import evidence, lack_of_fit
from lisdd_jax.default.floor import Floor
from lisdd_jax.default.local_fits import LocalFits
from lisdd_jax.numerics import normal_equations
from lisdd_jax.statistics.f_tests import FRatio, f_ratio, log_p_values

_MAX_STEPS = 40
_PAIR_LEVEL = 0.01
"""Level at which two neighbouring groups are flagged together, where ``alpha_cell`` is below it."""

_NUM_FINALISTS = 8
"""Regimes of the plain search that are searched again with the robust test, which costs more."""

_LARGEST_OVERLAP = 0.1
"""Share of a rival's rows in the clean regime up to which the two count as disjoint."""


class Regime(NamedTuple):
    """The regime that explains most rows, its rival, and every group's evidence against it.

    Attributes:
      clean: ``(R,)`` bool, groups that the physics is fitted on and that pass the test.
      flagged: ``(R,)`` bool, groups with a wrong mean.
      noisier: ``(R,)`` bool, groups with larger noise but no wrong mean.
      misfit: local misfit F ``(R,)``.
      log_p_value: ``(R,)`` of the local misfit: the F test, or the HC3 form at twice its level
        where that contradicts.
      law: physics on the regime.
      variance: pure-error variance of the regime.
      runner_up: rows of the largest rival over rows of the regime, after the discounts.
      log_p_fit: lack of fit of the regime, as ``log_p_value`` combines two tests.
      determined: the physics is determined on the regime.
      adequate: the regime shows no lack of fit in the search.
      settled: the search ended at a regime that changes no more.
      num_steps: steps of the search.
    """

    clean: jax.Array
    flagged: jax.Array
    noisier: jax.Array
    misfit: FRatio
    log_p_value: jax.Array
    law: evidence.Law
    variance: jax.Array
    runner_up: jax.Array
    log_p_fit: jax.Array
    determined: jax.Array
    adequate: jax.Array
    settled: jax.Array
    num_steps: jax.Array


def windows(num_groups: int, width: int) -> np.ndarray:
    """All groups, and every window of up to ``width`` adjacent ones, ``(S, num_groups)`` bool.

    Example:
      >>> windows(3, 2).astype(int).tolist()
      [[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]]
    """
    groups = np.arange(num_groups)
    spans = [(0, num_groups)]
    for size in range(1, min(width, num_groups) + 1):
        spans += [(first, first + size) for first in range(num_groups - size + 1)]
    return np.array([(groups >= first) & (groups < end) for first, end in spans])


def search(
    fits: LocalFits,
    starts: jax.Array,
    threshold: jax.Array,
    floor: Floor,
    robust: bool,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Improve every start until nothing changes.

    While a clean group misfits, the worst one leaves. When none does, the best fitting of the
    others that fit enter, at most half as many as are in: a few wrong ones could otherwise take
    over a small start.

    Args:
      fits: the groups' own fits.
      starts: ``(S, R)`` bool.
      threshold: normal score of the misfit F above which a group misfits.
      floor: what is no evidence.
      robust: whether the HC3 form must object as well (static); otherwise larger noise keeps good
        groups out.

    Returns:
      ``(S, R)`` bool, ``(S,)`` bool of those that still changed at the last step allowed, and the
      number of steps.
    """
    groups = jnp.arange(starts.shape[1])

    def step(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        clean, _, num_steps = state
        ratio = evidence.local_misfit(fits, clean, floor)
        score = ratio.score()
        if robust:
            score = jnp.minimum(score, evidence.robust_misfit(fits, clean, ratio, floor).score())
        bad = clean & ratio.defined & (score > threshold)
        good = ~clean & ratio.defined & (score <= threshold)
        worst = jnp.argmax(jnp.where(bad, score, -jnp.inf), axis=-1)
        drop = bad & (groups == worst[:, None])
        order = jnp.where(good, score, jnp.inf)
        rank = jnp.sum(order[:, None, :] < order[:, :, None], axis=-1)
        limit = jnp.maximum(jnp.sum(clean, axis=-1) // 2, 1)
        add = good & (rank < limit[:, None]) & ~jnp.any(bad, axis=-1, keepdims=True)
        return (clean & ~drop) | add, jnp.any(drop | add, axis=-1), num_steps + 1

    return lax.while_loop(
        lambda state: jnp.any(state[1]) & (state[2] < _MAX_STEPS),
        step,
        (starts, jnp.ones(starts.shape[0], bool), jnp.int32(0)),
    )


class Judged(NamedTuple):
    """Candidate regimes compared, each ``(S,)``.

    Attributes:
      rows: rows explained.
      fit: lack of fit.
      determined: bool, the regime determines the law.
      adequate: bool, determined and without lack of fit.
      merit: rows, less a share for a doubtful fit: of regimes of like size the better fitting wins.
      order: merit, with those without lack of fit before all others and repeats last.
    """

    rows: jax.Array
    fit: lack_of_fit.LackOfFit
    determined: jax.Array
    adequate: jax.Array
    merit: jax.Array
    order: jax.Array


def compare(fits: LocalFits, clean: jax.Array, floor: Floor, config: Config) -> Judged:
    """Compare regimes ``clean (S, R)``."""
    rows = evidence.total(clean.astype(fits.num_rows.dtype), fits.num_rows)
    fit = lack_of_fit.ordinary(fits, clean, floor)
    score = jnp.maximum(fit.all.score(), fit.smooth.score())
    determined = evidence.fit_law(fits, clean).rank == fits.cross.shape[-1]
    # A group by itself always fits, and so does a law for a few rows.
    several = (jnp.sum(clean, axis=-1) >= 2) & (fit.all.df_den > 0)
    large = rows >= config.least_share * jnp.sum(fits.num_rows)
    adequate = (score < -ndtri(config.alpha_fit)) & determined & several & large
    # Nothing is discounted below the 90 % point of the score.
    kept = jnp.maximum(1 - config.doubt * jnp.maximum(score - 1.28, 0), 0.1)
    merit = jnp.where(determined, rows * kept, -1.0)
    equal = jnp.all(clean[:, None] == clean, axis=-1)
    repeated = jnp.any(jnp.tril(equal, -1), axis=1)
    order = jnp.where(adequate, merit + jnp.sum(fits.num_rows), merit)
    return Judged(rows, fit, determined, adequate, merit, jnp.where(repeated, -2.0, order))


def _runner_up(
    fits: LocalFits,
    clean: jax.Array,
    judged: Judged,
    best: jax.Array,
    laws: evidence.Law,
    config: Config,
) -> jax.Array:
    """Merit of the strongest rival, another law beyond chance, over that of the best regime."""
    variance = jnp.maximum(judged.fit.variance, judged.fit.variance[best])
    covariance = (laws.inverse + laws.inverse[best]) * variance[:, None, None]
    wald, rank = normal_equations.quadratic_form(covariance, laws.step - laws.step[best])
    gap = f_ratio(wald, rank, judged.fit.all.df_den)
    differs = (gap.score() > -ndtri(config.alpha_differ)) & (rank > 0)
    common = evidence.total((clean & clean[best]).astype(fits.num_rows.dtype), fits.num_rows)
    apart = common <= _LARGEST_OVERLAP * judged.rows
    weight = jnp.where(apart, 1.0, config.ambiguity / config.ambiguity_overlap)
    share = judged.merit * weight / judged.merit[best]
    rival = differs & judged.adequate & judged.determined[best]
    return jnp.max(jnp.where(rival, share, 0.0))


def _flag(log_p_value: jax.Array, log_level: jax.Array) -> jax.Array:
    """Groups below the level, and pairs of neighbours that are both weak evidence.

    Two independent p-values below 0.01 are as rare as one below 1e-4.
    """
    weak_level = jnp.log(_PAIR_LEVEL)
    weak = log_p_value < weak_level
    beside = jnp.pad(weak[:-1], (1, 0)) | jnp.pad(weak[1:], (0, 1))
    return (log_p_value < log_level) | (weak & beside & (log_level <= weak_level))


def find_regime(fits: LocalFits, floor: Floor, config: Config) -> Regime:
    """Search from every window and keep the regime that explains most rows.

    Args:
      fits: the groups' own fits.
      floor: what is no evidence.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Regime``.
    """
    starts = jnp.asarray(windows(fits.num_rows.shape[0], config.window)) & fits.present
    threshold = -ndtri(config.alpha_search)
    clean, _, num_steps = search(fits, starts, threshold, floor, robust=False)
    first = compare(fits, clean, floor, config)
    _, finalists = lax.top_k(first.order, min(_NUM_FINALISTS, starts.shape[0]))
    clean, moving, more_steps = search(fits, clean[finalists], threshold, floor, robust=True)
    judged = compare(fits, clean, floor, config)
    best = jnp.argmax(judged.order)
    laws = evidence.fit_law(fits, clean)
    chosen = clean[best]
    fit = jax.tree.map(lambda leaf: leaf[best], judged.fit)
    misfit = evidence.local_misfit(fits, chosen, floor)
    log_f, log_hc3, log_predictive, log_smooth, log_smooth_hc3 = log_p_values(
        misfit,
        evidence.robust_misfit(fits, chosen, misfit, floor),
        evidence.predictive(fits, chosen, floor),
        fit.smooth,
        lack_of_fit.robust(fits, chosen, fit, floor),
    )
    log_p_value = evidence.unless_contradicted(log_f, log_hc3)
    log_level = jnp.log(config.alpha_cell)
    flagged = _flag(log_p_value, log_level)
    return Regime(
        clean=chosen & ~flagged,
        flagged=flagged,
        noisier=(log_predictive < log_level) & ~flagged,
        misfit=misfit,
        log_p_value=log_p_value,
        law=jax.tree.map(lambda leaf: leaf[best], laws),
        variance=fit.variance,
        runner_up=_runner_up(fits, clean, judged, best, laws, config),
        log_p_fit=evidence.unless_contradicted(log_smooth, log_smooth_hc3),
        determined=judged.determined[best],
        adequate=judged.adequate[best],
        settled=~moving[best],
        num_steps=num_steps + more_steps,
    )
