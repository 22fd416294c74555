"""Status codes: what a traced computation found out that an exception cannot say.

A result carries one int32 ``status``; the first failure wins. Codes from ``FIRST_FAILURE`` on are
failures: the estimates they concern are NaN. Lower codes are notes on a result that stands, but for
``NOTHING_FLAGGED``: no failure, and no numbers either, since there is nothing that they could be of
(``is_undefined``).
"""

import enum
from typing import Any, NamedTuple

import jax
import numpy as np

from lisdd_jax.numerics.hosted import namespace

FIRST_FAILURE = 100


class Status(enum.IntEnum):
    """Outcome of a computation; see ``describe`` for cause and remedy.

    Example:
      >>> Status(101).name
      'TOO_FEW_ROWS'
    """

    OK = 0
    ITERATION_LIMIT = 1
    EXACT_FIT = 2
    NOTHING_FLAGGED = 3
    RANK_DEFICIENT_TERMS = 4
    ROWS_OUTSIDE_EDGES = 5

    NONFINITE_INPUT = 100
    TOO_FEW_ROWS = 101
    RANK_DEFICIENT_DESIGN = 102
    DEGENERATE_STARTS = 103
    ZERO_SCALE = 104
    NO_CLEAN_CELLS = 105
    NO_USABLE_TERMS = 106
    TOO_FEW_TEST_ROWS = 107
    NOT_CONVERGED = 108
    DIVERGED = 109
    INACCURATE = 110


class _Words(NamedTuple):
    cause: str
    remedy: str


_WORDS = {
    Status.OK: _Words("the computation succeeded", "nothing to do"),
    Status.ITERATION_LIMIT: _Words(
        "the set of flagged cells, of rows kept, or of ends and terms still changed at the last"
        " allowed iteration",
        "raise max_iterations (published), or read the map as one of several that the data allow",
    ),
    Status.EXACT_FIT: _Words(
        "the kept rows are fitted exactly, so the noise scale is zero",
        "read the coefficients as exact; no test that divides by the scale is available",
    ),
    Status.NOTHING_FLAGGED: _Words(
        "no cell was flagged, or terms act on all rows, so there is no region whose terms could be"
        " tested",
        "read the physics as adequate at this level unless the verdict says more, or use more rows"
        " or fewer cells",
    ),
    Status.RANK_DEFICIENT_TERMS: _Words(
        "some candidate terms are zero, constant multiples of others, or lie in the span of the"
        " physics inside the region",
        "drop one of each set of twins, or widen the region",
    ),
    Status.ROWS_OUTSIDE_EDGES: _Words(
        "rows in use lie outside the cell edges and were left out",
        "move the first and the last edge outwards, or exclude such rows with mask",
    ),
    Status.NONFINITE_INPUT: _Words(
        "a row in use holds a NaN or an infinite value, or a noise scale that is not positive",
        "drop such rows or exclude them with mask",
    ),
    Status.TOO_FEW_ROWS: _Words(
        "there are not more rows in use than parameters",
        "supply more rows or a smaller model",
    ),
    Status.RANK_DEFICIENT_DESIGN: _Words(
        "a physics column is a linear combination of the others on the rows in use"
        " (to the precision of the floating-point type)",
        "remove the redundant column, or widen the range of the data",
    ),
    Status.DEGENERATE_STARTS: _Words(
        "no random subset of rows determined the physics coefficients",
        "check for dummy columns with very few ones; raise num_starts",
    ),
    Status.ZERO_SCALE: _Words(
        "the robust noise scale is zero: more than half of the residuals are equal",
        "check for quantised or constant data; the noise scale cannot be estimated from them",
    ),
    Status.NO_CLEAN_CELLS: _Words(
        "too few unflagged rows are left to fit the physics",
        "use a wider axis range, other cells, or a physics model that holds somewhere",
    ),
    Status.NO_USABLE_TERMS: _Words(
        "no candidate support could be fitted and scored inside the region",
        "supply more rows in the region, or terms that vary there",
    ),
    Status.TOO_FEW_TEST_ROWS: _Words(
        "too few held-out rows remain for the F-test",
        "supply more rows or a smaller support",
    ),
    Status.NOT_CONVERGED: _Words(
        "an iteration ended before its equations held, or no start led to a fit that can be told"
        " from a local one",
        "start nearer to the solution (initial parameters, temperature), or raise num_starts or"
        " max_iterations",
    ),
    Status.DIVERGED: _Words(
        "a simulated state or a trained number left the range of floating-point numbers",
        "take smaller steps, or check the initial values and corrections that grow without bound",
    ),
    Status.INACCURATE: _Words(
        "a simulated step is less accurate than the tolerance, or its solver gave up: steps are too"
        " long for the rate, or cross a border where it jumps",
        "raise num_substeps, name the borders (switch), or give a solver for stiff systems",
    ),
}


def describe(status: int | jax.Array) -> str:
    """Cause and remedy of a status code, as one line of text.

    Args:
      status: a concrete scalar code.

    Returns:
      ``NAME: cause; remedy``.

    Raises:
      ValueError: the code is unknown.

    Example:
      >>> describe(0)
      'OK: the computation succeeded; nothing to do'
    """
    try:
        code = Status(int(status))
    except ValueError:
        raise ValueError(f"status must be one of the codes of Status, got {status!r}") from None
    words = _WORDS[code]
    return f"{code.name}: {words.cause}; {words.remedy}"


class FailedError(RuntimeError):
    """A result whose status is a failure; raised by ``raise_if_failed`` on the host."""


def raise_if_failed(result: Any) -> None:
    """Turn the failures of a result into an exception on the host.

    Args:
      result: anything with a ``status`` field, batched or not.

    Raises:
      FailedError: some status is a failure; the message describes the first and counts them.

    Example:
      >>> from types import SimpleNamespace
      >>> raise_if_failed(SimpleNamespace(status=0))
      >>> raise_if_failed(SimpleNamespace(status=np.array([0, 101])))  # doctest: +ELLIPSIS
      Traceback (most recent call last):
        ...
      lisdd_jax.status.FailedError: TOO_FEW_ROWS: ...; ... (1 of 2 results failed)
    """
    codes = np.atleast_1d(np.asarray(result.status)).ravel()
    failed = codes[codes >= FIRST_FAILURE]
    if failed.size:
        share = f" ({failed.size} of {codes.size} results failed)" if codes.size > 1 else ""
        raise FailedError(describe(int(failed[0])) + share)


def first_failure(*statuses: Any) -> Any:
    """The first failure among statuses in order; without one, the first note; else ``OK``."""
    known = [np.int32(code) if isinstance(code, int) else code for code in statuses]
    combined = known[0] if known else np.int32(Status.OK)
    for status in known[1:]:
        takes_over = (combined == int(Status.OK)) | (
            (combined < FIRST_FAILURE) & (status >= FIRST_FAILURE)
        )
        combined = namespace(status, combined).where(takes_over, status, combined)
    return combined


def status_if(condition: Any, status: Status) -> Any:
    """``status`` where the condition holds, else ``OK``; int32."""
    xp = namespace(condition)
    return xp.where(condition, np.int32(status), np.int32(Status.OK))


def is_failure(status: Any) -> Any:
    """Whether a status says that the estimates it concerns could not be had."""
    return status >= FIRST_FAILURE


def is_undefined(status: Any) -> Any:
    """Whether a status says that numbers are NaN: after a failure, or where nothing was asked."""
    return is_failure(status) | (status == int(Status.NOTHING_FLAGGED))


def nan_where(undefined: Any, value: Any) -> Any:
    """NaN where ``undefined``, with derivative zero there.

    A product with NaN would hand a NaN derivative to every data set of a batch of losses.
    """
    return namespace(undefined, value).where(undefined, np.nan, value)
