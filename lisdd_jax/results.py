"""Result types: what a diagnosis holds, as frozen pytrees.

One shape everywhere: estimates, then diagnostics, then ``status``. Batched results are the same
classes with leading axes, as ``vmap`` leaves them. Symbols for shapes: ``p`` physics columns, ``L``
candidate terms, ``R`` cells, ``K`` region slots, ``S`` supports in the order of ``supports``. ``K``
is ``(R + 1) // 2``, the most runs that the cells can hold, in the published method, and at most
``Config.max_regions`` in the default one.

"(default)" marks what the published method does not have: its numbers are NaN and its flags False
there.
"""

import enum
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax.status import Status, is_failure


class Verdict(enum.IntEnum):
    """The answer in one word; the names in lower case are those of the JSON report.

    Example:
      >>> Verdict(1).name.lower()
      'discrepancy'
    """

    CLEAN = 0
    DISCREPANCY = 1
    NOT_CERTIFIED = 2
    NO_CLEAN_REGIME = 3
    AMBIGUOUS_REGIME = 4
    NOT_IDENTIFIABLE = 5
    INSUFFICIENT_DATA = 6
    HOLDS_NEARLY = 7


_VERDICTS_OF_FAILURES = {
    Status.RANK_DEFICIENT_DESIGN: Verdict.NOT_IDENTIFIABLE,
    Status.DEGENERATE_STARTS: Verdict.NOT_IDENTIFIABLE,
    Status.NO_CLEAN_CELLS: Verdict.NO_CLEAN_REGIME,
}


def verdict_unless_failed(status: jax.Array, verdict: jax.Array) -> jax.Array:
    """The verdict, or what a failed status leaves of it; int32."""
    failed = jnp.int32(Verdict.INSUFFICIENT_DATA)
    for cause, outcome in _VERDICTS_OF_FAILURES.items():
        failed = jnp.where(status == cause, jnp.int32(outcome), failed)
    return jnp.where(is_failure(status), failed, verdict.astype(jnp.int32))


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The map over the operating axis, one entry per cell.

    Attributes:
      lower, upper: ``(R,)`` cell edges in units of the axis; cells are half-open, the last closed.
      count: ``(R,)`` rows in use per cell.
      mean, rms: ``(R,)`` mean and root mean square of the residual of the trusted physics.
      statistic: ``(R,)`` test statistic of the evidence in use; NaN where a cell is not testable.
      p_value, log_p_value: ``(R,)`` its upper tail.
      flagged: ``(R,)`` bool, the cells called discrepant.
      noisier: ``(R,)`` bool, cells with larger noise but no wrong mean (default).
    """

    lower: jax.Array
    upper: jax.Array
    count: jax.Array
    mean: jax.Array
    rms: jax.Array
    statistic: jax.Array
    p_value: jax.Array
    log_p_value: jax.Array
    flagged: jax.Array
    noisier: jax.Array


def in_interval(
    axis: Any, lower: Any, upper: Any, open_below: Any = False, open_above: Any = False
) -> Any:
    """Whether values of the axis lie in an interval: the one rule for membership.

    An interval is half-open, ``[lower, upper)``. On a side where it reaches the end of the axis it
    is open, and goes on beyond.

    Args:
      axis, lower, upper, open_below, open_above: numbers or arrays, of NumPy or JAX, of shapes that
        broadcast.

    Returns:
      Their common shape, bool; False for a NaN, which lies nowhere.
    """
    # A NaN is not equal to itself, on the host and under a trace alike.
    known = axis == axis
    return ((axis >= lower) | open_below) & ((axis < upper) | open_above) & known


def reaches_ends(
    lower: jax.Array, upper: jax.Array, edges: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Whether intervals ``(K,)`` reach the first and the last of the edges ``(R + 1,)``."""
    return lower <= edges[0], upper >= edges[-1]


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Regions:
    """The discrepant intervals in ``K`` slots; ``present`` says which slots are in use.

    Attributes:
      lower, upper: ``(K,)`` interval ends in units of the axis, NaN where absent.
      open_below, open_above: ``(K,)`` bool, the interval reaches that end of the axis, and goes on
        beyond it.
      present: ``(K,)`` bool.
      count: ``(K,)`` rows inside.
      support: ``(K, L)`` bool, terms active in the interval.
      coefficients, stderr: ``(K, L)`` term coefficients and their standard errors, 0 and NaN off
        the support.
      equivalent: ``(K, S)`` bool, supports as good as the chosen one.
      statistic, p_value, log_p_value: ``(K,)`` evidence for the interval. Published: the residual
        energy of its cells, on the rows that flagged them, so that the p-value does not pay for
        their choice and is too small (see ``same_rows``). Default: the partial F of the overlapping
        region and form chosen on split A, on the rows held out; 0, 1 and 0 where split A shows no
        such region.
      same_rows: bool, the rows that gave this evidence also chose the intervals.
      lower_interval, upper_interval: ``(K, 2)`` 95 % confidence intervals of the ends (default).
      adjusted_p_value: ``(K,)`` the larger of that test and its heteroskedasticity-robust form, of
        several splits combined by ``combine_splits``, then adjusted over the regions for the
        false-discovery rate under any dependence (default).
      shared: bool, the regions share one mechanism; False where there is but one (default).
      softness: ``(K, 2)`` half width over which the correction grows from zero at either end; 0
        where it does at once, NaN where it jumps (default).
      lacking: ``(K,)`` bool, no support predicts nearly as well as a change of the law's own
        coefficients in the interval: the library lacks the term (default).
    """

    lower: jax.Array
    upper: jax.Array
    open_below: jax.Array
    open_above: jax.Array
    present: jax.Array
    count: jax.Array
    support: jax.Array
    coefficients: jax.Array
    stderr: jax.Array
    equivalent: jax.Array
    statistic: jax.Array
    p_value: jax.Array
    log_p_value: jax.Array
    same_rows: jax.Array
    lower_interval: jax.Array
    upper_interval: jax.Array
    adjusted_p_value: jax.Array
    shared: jax.Array
    softness: jax.Array
    lacking: jax.Array

    def contains(self, axis: jax.Array) -> jax.Array:
        """Whether rows lie in the regions, by ``in_interval``.

        Args:
          axis: ``(n,)``.

        Returns:
          ``(K, n)`` bool; False in slots out of use, and where the axis is NaN.
        """
        ends = (self.lower, self.upper, self.open_below, self.open_above)
        inside = in_interval(axis[None], *(end[:, None] for end in ends))
        found: jax.Array = inside & self.present[:, None]
        return found


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Form:
    """The missing mechanism chosen by holdout.

    Where regions have mechanisms of their own, this is the one of the region in which it gains
    most; ``Regions`` has them all.

    Attributes:
      support: ``(L,)`` bool, the chosen terms; all False where nothing was chosen.
      coefficients, stderr: ``(L,)`` fitted on all rows of the region; 0 and NaN off the support.
      error: mean squared holdout error of the chosen support.
      errors: ``(S,)`` holdout error of every support, inf where it is rank-deficient.
      equivalent: ``(S,)`` bool, supports within the tolerance of the best error.
      certified: bool, held-out rows confirm the terms in a certified place (default); published:
        that of the certificate.
      status: int32.
    """

    support: jax.Array
    coefficients: jax.Array
    stderr: jax.Array
    error: jax.Array
    errors: jax.Array
    equivalent: jax.Array
    certified: jax.Array
    status: jax.Array


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """The held-out F-test; every number is NaN where it is undefined (see ``status``).

    With several random splits the p-values are twice their median over the splits (see
    ``statistics.multiplicity``), and all else is from the split that has the median.

    Attributes:
      statistic, df_num, df_den: the ratio and its degrees of freedom.
      p_value, log_p_value: upper tail.
      p_value_robust: upper tail of the test with the HC3 covariance (default).
      reject: bool, every p-value here is below ``alpha``; False where undefined.
      support: ``(L,)`` bool, the terms tested (those chosen on split A).
      flagged: ``(R,)`` bool, the region tested (that chosen on split A).
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
      gap: nats by which taking it for the law describes the data worse; inf without a rival.
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


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis:
    """Where the model is wrong, what is missing there, and whether the evidence is real.

    Attributes:
      coefficients: ``(p,)`` the trusted physics, NaN under a failure.
      covariance: ``(p, p)`` of the coefficients, given the clean cells.
      scale: noise scale.
      cells: the map over the axis.
      regions: the discrepant intervals.
      form: the missing mechanism.
      test: the certificate from the held-out half.
      place: the certificate of the place (default).
      exactness: the test that the law holds exactly (default).
      law_scatter: how nearly the law holds where it holds: root mean square of its own misfit, in
        units of the response, noise taken off (default).
      rival: another law of the same form (default).
      everywhere: ``(L,)`` bool, terms that act on all rows rather than in a region (default).
      dependence: of the rows (default).
      outliers: ``(n,)`` bool, rows set aside as gross errors (default).
      num_rows: rows in use.
      num_iterations: iterations of the clean-regime search (published).
      verdict: int32, a ``Verdict``.
      status: int32, a ``Status``; the first failure of the stages.
    """

    coefficients: jax.Array
    covariance: jax.Array
    scale: jax.Array
    cells: Cells
    regions: Regions
    form: Form
    test: Certificate
    place: Place
    exactness: Exactness
    law_scatter: jax.Array
    rival: Rival
    everywhere: jax.Array
    dependence: Dependence
    outliers: jax.Array
    num_rows: jax.Array
    num_iterations: jax.Array
    verdict: jax.Array
    status: jax.Array
