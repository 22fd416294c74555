"""The parts of a ``Diagnosis`` from what the stages and the held-out tests found."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.config import Config
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.splits import SplitTest
from lisdd_jax.default.stages import Stages
from lisdd_jax.numerics import cell_sums, scaling
from lisdd_jax.results import Cells, Certificate, Form, Regions, reaches_ends
from lisdd_jax.statistics.multiplicity import adjust_p_values, combine_splits
from lisdd_jax.status import Status, first_failure, is_failure, status_if


def make_certificate(
    status: jax.Array, splits: Stages, tests: SplitTest, table: jax.Array, config: Config
) -> Certificate:
    """The certificate of the split that has the median p-value, with the combined p-values."""
    combined, middle = combine_splits(tests.log_p_value)
    combined_robust, _ = combine_splits(tests.log_p_robust)
    test = jax.tree.map(lambda leaf: leaf[middle], tests)
    found = jax.tree.map(lambda leaf: leaf[middle], splits)
    nothing = ~jnp.any(found.regime.flagged)
    status = first_failure(
        status,
        status_if(nothing, Status.NOTHING_FLAGGED),
        status_if(~found.form.usable | ((test.df_num == 0) & ~nothing), Status.NO_USABLE_TERMS),
        status_if((test.df_den <= 0) & ~nothing, Status.TOO_FEW_TEST_ROWS),
    )
    defined = ~jnp.isnan(test.log_p_value) & ~nothing & ~is_failure(status)

    def shown(value: jax.Array) -> jax.Array:
        return jnp.where(defined, value, jnp.nan)

    level = jnp.log(config.alpha)
    support = jnp.any(table[found.form.support] & found.spans.present[:, None], axis=0)
    return Certificate(
        statistic=shown(test.statistic),
        df_num=shown(test.df_num),
        df_den=shown(test.df_den),
        p_value=shown(jnp.exp(combined)),
        log_p_value=shown(combined),
        p_value_robust=shown(jnp.exp(combined_robust)),
        reject=defined & (combined < level) & (combined_robust < level),
        support=support & defined,
        flagged=found.regime.flagged[found.groups.of_cell],
        status=status,
    )


def make_cells(rows: Ordered, full: Stages) -> Cells:
    """The map: every cell has the evidence of its group, and residuals of the refitted physics."""
    num_cells = rows.edges.shape[0] - 1
    residual = jnp.where(rows.used, rows.residual - rows.basis @ full.physics.step, 0.0)
    columns = jnp.stack([residual, residual**2], axis=1)
    count = cell_sums.cell_counts(rows.cell, rows.used, num_cells)
    sums = cell_sums.cell_totals(columns, rows.cell, num_cells).T
    mean, square = jnp.where(count > 0, sums / jnp.maximum(count, 1), jnp.nan)
    of_cell = full.groups.of_cell
    regime = full.regime
    testable = ~jnp.isnan(regime.log_p_value)
    return Cells(
        lower=rows.edges[:-1],
        upper=rows.edges[1:],
        count=count,
        mean=mean,
        rms=scaling.root(square),
        statistic=jnp.where(testable, regime.misfit.statistic, jnp.nan)[of_cell],
        p_value=jnp.exp(regime.log_p_value)[of_cell],
        log_p_value=regime.log_p_value[of_cell],
        flagged=regime.flagged[of_cell],
        noisier=regime.noisier[of_cell],
    )


def _per_term(values: jax.Array, found: Stages, num_terms: int, fill: float) -> jax.Array:
    """Values ``(K, m)`` of the terms in use at their places in the library, ``(K, L)``."""
    terms = found.form.terms
    place = (terms.place[..., None] == jnp.arange(num_terms)) & terms.used[..., None]
    spread = jnp.sum(jnp.where(place, values[..., None], 0.0), axis=1)
    return jnp.where(jnp.any(place, axis=1) & found.spans.present[:, None], spread, fill)


class RegionTest(NamedTuple):
    """Held-out evidence for the regions of the full data, each ``(K,)``.

    ``shared`` says that the same test stands for another region too.
    """

    statistic: jax.Array
    log_p_value: jax.Array
    log_p_both: jax.Array
    shared: jax.Array


def match_regions(full: Stages, split: Stages, test: SplitTest) -> RegionTest:
    """Give every region the test of the region of split A that overlaps it most."""
    low = jnp.maximum(full.lower[:, None], split.lower)
    high = jnp.minimum(full.upper[:, None], split.upper)
    both = full.spans.present[:, None] & split.spans.present
    overlap = jnp.where(both, high - low, -jnp.inf)
    nearest = jnp.argmax(overlap, axis=1)
    seen = jnp.max(overlap, axis=1) > 0
    seen = seen & ~jnp.isnan(test.log_p_each[nearest])
    same = (nearest[:, None] == nearest) & seen[:, None] & seen
    return RegionTest(
        statistic=jnp.where(seen, test.each[nearest], 0.0),
        log_p_value=jnp.where(seen, test.log_p_each[nearest], 0.0),
        log_p_both=jnp.where(seen, test.log_p_both[nearest], 0.0),
        shared=jnp.sum(same, axis=1) > 1,
    )


def make_regions(
    rows: Ordered, full: Stages, splits: Stages, tests: SplitTest, table: jax.Array
) -> Regions:
    """The regions of the full data, with held-out evidence from the splits."""
    matched = jax.vmap(match_regions, in_axes=(None, 0, 0))(full, splits, tests)
    log_p_value, middle = combine_splits(matched.log_p_value)
    present = full.spans.present
    log_p_both, _ = combine_splits(matched.log_p_both)
    # Regions tested on the same rows depend on each other in an unknown way.
    adjusted = adjust_p_values(jnp.where(present, jnp.exp(log_p_both), jnp.nan), method="by")
    open_below, open_above = reaches_ends(full.lower, full.upper, rows.edges)
    shape = full.form
    num_terms = rows.terms.shape[1]

    def shown(values: jax.Array) -> jax.Array:
        return jnp.where(present.reshape(-1, *[1] * (values.ndim - 1)), values, jnp.nan)

    return Regions(
        lower=shown(full.lower),
        upper=shown(full.upper),
        open_below=open_below & present,
        open_above=open_above & present,
        present=present,
        count=jnp.where(present, shape.region.stop - shape.region.start, 0),
        support=table[shape.support] & present[:, None],
        coefficients=_per_term(full.coefficients, full, num_terms, 0.0) / rows.term_scale,
        stderr=_per_term(full.stderr, full, num_terms, jnp.nan) / rows.term_scale,
        equivalent=shape.equivalent,
        statistic=shown(jnp.take_along_axis(matched.statistic, middle[None], axis=0)[0]),
        p_value=shown(jnp.exp(log_p_value)),
        log_p_value=shown(log_p_value),
        same_rows=jnp.zeros((), bool),
        shared_test=jnp.any(matched.shared, axis=0) & present,
        lower_interval=shown(full.lower_interval),
        upper_interval=shown(full.upper_interval),
        adjusted_p_value=adjusted,
        shared=shape.shared,
    )


def make_form(
    status: jax.Array, full: Stages, splits: Stages, regions: Regions, config: Config
) -> Form:
    """The mechanism of the main region, and how often the splits chose each support."""
    main = full.form.main
    errors = full.form.errors[main]
    nothing = ~jnp.any(full.regime.flagged)
    status = first_failure(
        status,
        status_if(nothing, Status.NOTHING_FLAGGED),
        status_if(~full.form.usable, Status.NO_USABLE_TERMS),
        status_if(jnp.any(jnp.isinf(errors)), Status.RANK_DEFICIENT_TERMS),
    )
    chosen = jnp.take_along_axis(splits.form.support, splits.form.main[:, None], axis=1)
    hit = (chosen == jnp.arange(errors.shape[0])) & jnp.any(splits.spans.present, 1, keepdims=True)
    frequency = jnp.mean(hit.astype(errors.dtype), axis=0)
    several = config.num_splits > 1
    return Form(
        support=regions.support[main],
        coefficients=regions.coefficients[main],
        stderr=regions.stderr[main],
        error=jnp.where(nothing, jnp.nan, errors[full.form.support[main]]),
        errors=errors,
        equivalent=regions.equivalent[main],
        frequency=frequency if several else jnp.full_like(frequency, jnp.nan),
        status=status,
    )
