"""Where: the map of the cells, and runs of flagged cells as regions.

References:
  docs/method.md, equations 7 and 8.
"""

import jax.numpy as jnp

from lisdd_jax.dataset import Dataset
from lisdd_jax.published.evidence import energy_test
from lisdd_jax.published.physics import CleanRegime
from lisdd_jax.results import Cells, Form, Regions, reaches_ends
from lisdd_jax.statistics.runs import flagged_runs, run_sum


def make_cells(data: Dataset, regime: CleanRegime) -> Cells:
    """The map of the cells with the evidence of the clean-regime iteration."""
    return Cells(
        lower=data.edges[:-1],
        upper=data.edges[1:],
        count=regime.count,
        mean=regime.mean,
        rms=regime.rms,
        statistic=regime.statistic,
        p_value=jnp.exp(regime.log_p_value),
        log_p_value=regime.log_p_value,
        flagged=regime.flagged,
        noisier=jnp.zeros_like(regime.flagged),
    )


def make_regions(data: Dataset, regime: CleanRegime, form: Form) -> Regions:
    """Runs of flagged cells, sharing one form; their energy over the run is the evidence.

    It comes from the rows that flagged the cells, so its p-value is too small.
    """
    runs = flagged_runs(regime.flagged)
    statistic = run_sum(regime.statistic, runs)
    # Statistics of cells are in units of the scale already.
    test = energy_test(statistic, run_sum(regime.count, runs), jnp.ones((), statistic.dtype))
    present = runs.present[:, None]
    lower = jnp.where(runs.present, data.edges[runs.first], jnp.nan)
    upper = jnp.where(runs.present, data.edges[runs.last + 1], jnp.nan)
    open_below, open_above = reaches_ends(lower, upper, data.edges)
    unknown = jnp.full((*runs.present.shape, 2), jnp.nan, statistic.dtype)
    return Regions(
        lower=lower,
        upper=upper,
        open_below=open_below,
        open_above=open_above,
        present=runs.present,
        count=run_sum(regime.count, runs),
        support=present & form.support[None],
        coefficients=jnp.where(present, form.coefficients[None], 0.0),
        stderr=jnp.where(present, form.stderr[None], jnp.nan),
        equivalent=present & form.equivalent[None],
        statistic=test.statistic,
        p_value=jnp.exp(test.log_p_value),
        log_p_value=test.log_p_value,
        same_rows=jnp.ones((), bool),
        lower_interval=unknown,
        upper_interval=unknown,
        adjusted_p_value=jnp.full_like(test.statistic, jnp.nan),
        shared=jnp.zeros((), bool),
        softness=unknown,
        lacking=jnp.zeros_like(runs.present),
    )
