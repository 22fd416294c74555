"""Whether: the partial F-test on rows that took no part in choosing region and form.

References:
  docs/method.md, equation 12.
"""

from functools import partial

import jax
import jax.numpy as jnp

from lisdd_jax.config import PublishedConfig
from lisdd_jax.dataset import Dataset
from lisdd_jax.published.form import Terms
from lisdd_jax.published.physics import Physics
from lisdd_jax.results import Certificate
from lisdd_jax.statistics import f_tests
from lisdd_jax.statistics.splits import Halves, take_rows
from lisdd_jax.status import Status, first_failure, is_failure, is_undefined, nan_where


def _added_columns(
    data: Dataset, flagged: jax.Array, support: jax.Array, config: PublishedConfig
) -> jax.Array:
    """The terms of the support inside the flagged cells, filled up with columns of zeros."""
    used, place = jax.lax.top_k(support.astype(jnp.int32), min(config.max_terms, len(support)))
    inside = data.in_cells(flagged)
    return jnp.where(inside[:, None] & (used > 0)[None], data.features[:, place], 0.0)


def certify(
    data: Dataset, halves: Halves, physics: Physics, terms: Terms, config: PublishedConfig
) -> Certificate:
    """Test on the second half what the first half shows.

    Args:
      data: all rows.
      halves: of them.
      physics, terms: of the first half.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Certificate``.
    """
    support, flagged = terms.selection.support, physics.regime.flagged
    extra = _added_columns(data, flagged, support, config)
    columns = jnp.column_stack([data.basis, extra, data.centered])
    size = data.basis.shape[1]
    held_out = take_rows(columns, halves.rows[1], halves.used[1])
    test = f_tests.partial_f(
        held_out[:, :size], held_out[:, size:-1], held_out[:, -1], halves.used[1]
    )
    before = physics.regime.status
    nothing = ~jnp.any(flagged) & ~is_failure(before)
    # Columns of zeros are no deficiency of the test.
    complete = test.df_num == jnp.sum(support).astype(test.df_num.dtype)
    harmless = complete & (test.status == Status.RANK_DEFICIENT_TERMS.value)
    test_status = jnp.where(harmless, jnp.int32(Status.OK), test.status)
    status = first_failure(before, terms.selection.status, test_status)
    status = jnp.where(nothing, jnp.int32(Status.NOTHING_FLAGGED), status)
    defined = ~is_undefined(status)
    shown = partial(nan_where, ~defined)
    return Certificate(
        statistic=shown(test.statistic),
        df_num=shown(test.df_num),
        df_den=shown(test.df_den),
        p_value=shown(test.p_value),
        log_p_value=shown(test.log_p_value),
        p_value_robust=jnp.full_like(test.p_value, jnp.nan),
        reject=defined & (test.log_p_value < jnp.log(config.alpha)),
        support=support & defined,
        flagged=flagged,
        status=status,
    )
