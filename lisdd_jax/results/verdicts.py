"""The answer in one word, and what a failure leaves of it."""

import enum
from typing import Any

import numpy as np

from lisdd_jax.numerics.hosted import namespace
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


def verdict_unless_failed(status: Any, verdict: Any) -> Any:
    """The verdict, or what a failed status leaves of it; int32, of NumPy where both are."""
    xp = namespace(status, verdict)
    failed = np.int32(Verdict.INSUFFICIENT_DATA)
    for cause, outcome in _VERDICTS_OF_FAILURES.items():
        failed = xp.where(status == cause, np.int32(outcome), failed)
    return xp.where(is_failure(status), failed, verdict.astype(np.int32))
