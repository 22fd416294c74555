"""Whether: what was tested, and what the rows allow to be said."""

from dataclasses import dataclass

import jax
from jax.tree_util import register_dataclass


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """The held-out F-test; every number is NaN where it is undefined (see ``status``).

    The published method tests on one random split. The default one has three splits, each half of
    which tests what the other chose: the weaker half counts, the p-values are twice their median
    over the splits (``statistics.multiplicity``), and the ratio is of the split that has it.

    Attributes:
      statistic, df_num, df_den: the ratio and its degrees of freedom.
      p_value, log_p_value: upper tail.
      p_value_robust: upper tail with rows weighted by the noise of their cells (default).
      reject: bool, every p-value here is below ``alpha``; False where undefined.
      support: ``(L,)`` bool, the terms tested, which were chosen on other rows.
      flagged: ``(R,)`` bool, the region tested: chosen on these rows (published), or on all.
      status: int32.
    """

    statistic: jax.Array
    df_num: jax.Array
    df_den: jax.Array
    p_value: jax.Array
    log_p_value: jax.Array
    p_value_robust: jax.Array
    reject: jax.Array
    support: jax.Array
    flagged: jax.Array
    status: jax.Array


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """The certificate of the place, from all rows and with the search for it paid for (default).

    Attributes:
      p_value, log_p_value: a bound: how often a law that holds everywhere to within a scatter, in
        rows that are independent, would let some place stand out as much.
      certified: bool, below ``alpha``.
      region_log_p_value: ``(K,)`` the same for every region beside the others.
    """

    p_value: jax.Array
    log_p_value: jax.Array
    certified: jax.Array
    region_log_p_value: jax.Array


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Exactness:
    """The test that the law holds exactly, over changes in single directions (default).

    Attributes:
      statistic: largest squared score of a change.
      p_value, log_p_value: paid for the search over runs and directions.
      lower, upper: where on the axis that change lies; infinite at the ends of the axis.
    """

    statistic: jax.Array
    p_value: jax.Array
    log_p_value: jax.Array
    lower: jax.Array
    upper: jax.Array


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Rival:
    """Another law of the same form that explains other rows (default).

    Attributes:
      share: of rows and axis that it explains, over those that the law explains; 0 without a rival.
      coefficients: ``(p,)`` of it; NaN without a rival.
      gap: nats by which taking it for the law describes the data worse; below zero where it
        describes them better and was passed over for a law of more rows; inf without a rival.
    """

    share: jax.Array
    coefficients: jax.Array
    gap: jax.Array


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Dependence:
    """What rows have to do with each other (default).

    Attributes:
      axis_correlation, record_correlation: of the residuals of neighbours along the axis and in the
        record, corrected for the local fits.
      rows: how many rows of one place count as one, at least 1.
      repeated: share of rows that equal another one.
      significant: bool, some of it is beyond chance.
    """

    axis_correlation: jax.Array
    record_correlation: jax.Array
    rows: jax.Array
    repeated: jax.Array
    significant: jax.Array
