"""The default method: all stages for one data set, and the certificate from held-out rows."""

from functools import partial

import jax
import jax.numpy as jnp

from lisdd_jax.config import Config
from lisdd_jax.dataset import Dataset
from lisdd_jax.default import confinement, ordering, outcome, splits, stages
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.stages import Stages
from lisdd_jax.default.verdict import Findings, decide
from lisdd_jax.numerics import scaling
from lisdd_jax.results import Diagnosis
from lisdd_jax.statistics.splits import random_folds
from lisdd_jax.statistics.supports import supports
from lisdd_jax.status import Status, first_failure, is_failure, nan_where, status_if


def _collect(
    rows: Ordered,
    full: Stages,
    reject: jax.Array,
    agrees: jax.Array,
    log_p_elsewhere: jax.Array,
    config: Config,
) -> Findings:
    """What the verdict rests on; ``agrees`` says that split A shows the form of all rows."""
    regime = full.regime
    flagged = jnp.any(regime.flagged)
    enough = (jnp.sum(rows.used) > rows.basis.shape[1] + 2) & (full.groups.num >= 3)
    doubtful = flagged & (regime.log_p_fit < jnp.log(config.alpha_doubt)) & ~agrees
    misfit = ~regime.adequate | (regime.log_p_fit < jnp.log(config.alpha_fit)) | doubtful
    everywhere = log_p_elsewhere >= jnp.log(config.alpha_elsewhere)
    # Too few groups to search still show a law that is wrong everywhere.
    misfit_of_few = full.log_p_physics < jnp.log(config.alpha_fit)
    return Findings(
        enough=enough,
        adequate=~jnp.where(enough, misfit, misfit_of_few),
        ambiguous=(regime.runner_up > config.ambiguity) | (flagged & everywhere),
        flagged=flagged,
        usable=full.form.usable,
        certified=reject & agrees,
    )


def _withhold(full: Stages, failed: jax.Array) -> Stages:
    """Nothing is flagged and no region stands under a failure."""
    return full._replace(
        regime=full.regime._replace(flagged=full.regime.flagged & ~failed),
        spans=full.spans._replace(present=full.spans.present & ~failed),
    )


def run(key: jax.Array, data: Dataset, before: jax.Array, config: Config) -> Diagnosis:
    """Diagnose a data set.

    Args:
      key: typed key of the splits.
      data: the data set.
      before: its status.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Diagnosis``.
    """
    # The stages below are not written for strict promotion.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return _run(key, data, before, config)


def _run(key: jax.Array, data: Dataset, before: jax.Array, config: Config) -> Diagnosis:
    rows = ordering.order_rows(data, config.negligible)
    keys = jax.random.split(key, config.num_splits)
    # Labels 0 and 1 make split A, 2 and 3 split B; even and odd ones are the two folds of either.
    labels = jax.vmap(lambda key: random_folds(key, rows.used, 4, rows.block))(keys)
    masks = jnp.concatenate([rows.used[None], rows.used & (labels < 2)])
    folds = jnp.concatenate([labels[:1], labels]) % 2
    # One compiled body runs on all rows and on every split A.
    found = jax.lax.map(
        lambda part: stages.run_stages(rows, part[0], part[1], config), (masks, folds)
    )
    full, halves = (
        jax.tree.map(lambda leaf, part=part: leaf[part], found) for part in (0, slice(1, None))
    )
    tests = jax.vmap(lambda half, mask: splits.test_split(rows, half, mask))(
        halves, rows.used & (labels >= 2)
    )
    table = jnp.asarray(supports(rows.terms.shape[1], config.max_terms))
    regime = full.regime
    status = first_failure(
        before,
        status_if(~regime.determined, Status.NO_CLEAN_CELLS),
        status_if(regime.variance <= 4 * rows.floor.variance, Status.EXACT_FIT),
        status_if(~regime.settled, Status.ITERATION_LIMIT),
    )
    full = _withhold(full, is_failure(status))
    test = outcome.make_certificate(status, halves, tests, table, config)
    regions = outcome.make_regions(rows, full, halves, tests, table)
    agrees = splits.splits_agree(full, halves, tests, regions.support, table)
    elsewhere = confinement.log_p_elsewhere(rows, full)
    findings = _collect(rows, full, test.reject, agrees, elsewhere, config)
    shown = partial(nan_where, is_failure(status))
    physics = full.physics
    return Diagnosis(
        coefficients=shown(data.frame.coefficients(rows.initial + physics.step)),
        covariance=shown(data.frame.covariance(physics.covariance)),
        scale=shown(scaling.root(physics.variance)),
        cells=outcome.make_cells(rows, full),
        regions=regions,
        form=outcome.make_form(status, full, halves, regions, config),
        test=test,
        num_rows=jnp.sum(rows.used, dtype=jnp.int32),
        num_iterations=regime.num_steps,
        runner_up=shown(regime.runner_up),
        p_value_elsewhere=shown(jnp.exp(elsewhere)),
        verdict=decide(status, findings),
        status=status,
    )
