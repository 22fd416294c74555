"""Held-out tests of what split A shows, and their combination over several random splits."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax import multiplicity
from lisdd_jax.calibrated import certificate, evidence
from lisdd_jax.calibrated.ordering import Ordered
from lisdd_jax.calibrated.stages import Stages


class SplitTest(NamedTuple):
    """The held-out tests of one random split.

    Attributes:
      statistic, df_num, df_den, log_p_value: joint partial F.
      log_p_robust: its HC3 form.
      each, log_p_each: ``(K,)`` partial F of every region of split A.
      adjusted: ``(K,)`` their p-values, the larger of F and HC3, adjusted for false discoveries.
    """

    statistic: jax.Array
    df_num: jax.Array
    df_den: jax.Array
    log_p_value: jax.Array
    log_p_robust: jax.Array
    each: jax.Array
    log_p_each: jax.Array
    adjusted: jax.Array


def _in_regions(found: Stages, axis: jax.Array, edges: jax.Array) -> jax.Array:
    """Rows of every region, ``(K, n)`` bool; a region up to the end of the axis has no end."""
    lower = jnp.where(found.lower <= edges[0], -jnp.inf, found.lower)
    upper = jnp.where(found.upper >= edges[-1], jnp.inf, found.upper)
    inside = (axis >= lower[:, None]) & (axis < upper[:, None])
    return inside & found.spans.present[:, None]


def test_split(rows: Ordered, found: Stages, mask: jax.Array) -> SplitTest:
    """Test what split A found on the rows in ``mask``."""
    inside = _in_regions(found, rows.axis, rows.edges) & mask
    terms = found.form.terms
    columns = rows.terms[:, terms.place]
    columns = jnp.where(inside.T[..., None] & terms.used, columns, 0.0)
    test = certificate.held_out(
        rows.basis, rows.residual, columns, mask, found.form.shared, rows.floor
    )
    joint, robust, each, each_robust = evidence.log_p_values(*test)
    both = jnp.where(found.spans.present, jnp.exp(jnp.maximum(each, each_robust)), jnp.nan)
    return SplitTest(
        statistic=test.ordinary.statistic,
        df_num=test.ordinary.df_num,
        df_den=test.ordinary.df_den,
        log_p_value=joint,
        log_p_robust=robust,
        each=test.each.statistic,
        log_p_each=jnp.where(found.spans.present, each, jnp.nan),
        adjusted=multiplicity.adjust_p_values(both, method="bh"),
    )


def median_split(log_p: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Combine p-values over splits, ``(S, ...)``: twice the median is a p-value again.

    An undefined one counts as 1. Of an even number of splits the lower middle one is the median.

    Returns:
      The combined log p-value, and the index of the split that has the median.

    References:
      Meinshausen, Meier and Bühlmann (2009), p-values for high-dimensional regression, Journal of
      the American Statistical Association 104, theorem 3.1 with gamma = 1/2.
    """
    num = log_p.shape[0]
    filled = jnp.where(jnp.isnan(log_p), 0.0, log_p)
    if num == 1:
        return filled[0], jnp.zeros(log_p.shape[1:], jnp.int32)
    order = jnp.argsort(filled, axis=0)
    middle = order[(num - 1) // 2]
    value = jnp.take_along_axis(filled, middle[None], axis=0)[0]
    return jnp.minimum(value + jnp.log(2.0).astype(value.dtype), 0.0), middle


def splits_agree(
    full: Stages, splits: Stages, tests: SplitTest, support: jax.Array, table: jax.Array
) -> jax.Array:
    """Whether the certified form is that of the full data, or is as good there.

    Half of the rows showing the same terms also makes up for a doubtful fit of the clean regime.
    """
    _, middle = median_split(tests.log_p_value)
    split = jax.tree.map(lambda leaf: leaf[middle], splits)
    shown = table[split.form.support] & split.spans.present[:, None]
    same = jnp.all(jnp.any(support, axis=0) == jnp.any(shown, axis=0))
    one_by_one = full.form.shared | jnp.all(support == shown)
    same = same & (full.form.shared == split.form.shared) & one_by_one

    def single(found: Stages) -> jax.Array:
        return found.form.shared | (jnp.sum(found.spans.present) == 1)

    as_good = full.form.equivalent[0, split.form.support[0]]
    return same | (single(full) & single(split) & as_good)
