"""Held-out tests of what split A shows, and their combination over several random splits."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default import certificate
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.stages import Stages
from lisdd_jax.results import in_interval, reaches_ends
from lisdd_jax.statistics.f_tests import log_p_values
from lisdd_jax.statistics.multiplicity import combine_splits


class SplitTest(NamedTuple):
    """The held-out tests of one random split.

    Attributes:
      statistic, df_num, df_den, log_p_value: joint partial F.
      log_p_robust: its HC3 form.
      each, log_p_each: ``(K,)`` partial F of every region of split A.
      log_p_both: ``(K,)`` the larger of the p-values of F and HC3.
    """

    statistic: jax.Array
    df_num: jax.Array
    df_den: jax.Array
    log_p_value: jax.Array
    log_p_robust: jax.Array
    each: jax.Array
    log_p_each: jax.Array
    log_p_both: jax.Array


def _in_regions(found: Stages, axis: jax.Array, edges: jax.Array) -> jax.Array:
    """Rows of every region, ``(K, n)`` bool; a region up to the end of the axis has no end."""
    ends = (found.lower, found.upper, *reaches_ends(found.lower, found.upper, edges))
    return in_interval(axis[None], *(end[:, None] for end in ends)) & found.spans.present[:, None]


def test_split(rows: Ordered, found: Stages, mask: jax.Array) -> SplitTest:
    """Test what split A found on the rows in ``mask``."""
    inside = _in_regions(found, rows.axis, rows.edges) & mask
    terms = found.form.terms
    columns = rows.terms[:, terms.place]
    columns = jnp.where(inside.T[..., None] & terms.used, columns, 0.0)
    test = certificate.held_out(
        rows.basis, rows.residual, columns, mask, found.form.shared, rows.floor
    )
    joint, robust, each, each_robust = log_p_values(*test)
    present = found.spans.present
    return SplitTest(
        statistic=test.ordinary.statistic,
        df_num=test.ordinary.df_num,
        df_den=test.ordinary.df_den,
        log_p_value=joint,
        log_p_robust=robust,
        each=test.each.statistic,
        log_p_each=jnp.where(present, each, jnp.nan),
        log_p_both=jnp.where(present, jnp.maximum(each, each_robust), jnp.nan),
    )


def splits_agree(
    full: Stages, splits: Stages, tests: SplitTest, support: jax.Array, table: jax.Array
) -> jax.Array:
    """Whether the certified form is that of the full data, or is as good there.

    Half of the rows showing the same terms also makes up for a doubtful fit of the clean regime.
    """
    _, middle = combine_splits(tests.log_p_value)
    split = jax.tree.map(lambda leaf: leaf[middle], splits)
    shown = table[split.form.support] & split.spans.present[:, None]
    same = jnp.all(jnp.any(support, axis=0) == jnp.any(shown, axis=0))
    one_by_one = full.form.shared | jnp.all(support == shown)
    same = same & (full.form.shared == split.form.shared) & one_by_one

    def single(found: Stages) -> jax.Array:
        return found.form.shared | (jnp.sum(found.spans.present) == 1)

    as_good = full.form.equivalent[0, split.form.support[0]]
    return same | (single(full) & single(split) & as_good)
