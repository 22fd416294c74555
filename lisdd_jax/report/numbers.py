"""Numbers as people read them: no more digits than their error or their use allows."""

import math
from collections.abc import Sequence

_LOG_TEN = math.log(10.0)
#: Below this log probability the probability itself underflows or says nothing.
_SMALLEST_LOG = math.log(1e-300)


def short(value: float, digits: int = 4) -> str:
    """A number to so many significant digits; ``undefined`` for NaN."""
    return "undefined" if math.isnan(value) else f"{value:.{digits}g}"


def with_error(value: float, error: float) -> tuple[str, str]:
    """A value and its standard error, both to the second digit of the error.

    Example:
      >>> with_error(-1.377768, 0.005415)
      ('-1.3778', '0.0054')
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return short(value, 6), short(error, 2)
    decimals = 1 - math.floor(math.log10(error))
    if not 0 <= decimals <= 8 or abs(value) >= 1e9:
        return short(value, 6), short(error, 2)
    return f"{value:.{decimals}f}", f"{error:.{decimals}f}"


def probability(log_p: float) -> str:
    """``p = ...``, through the decimal logarithm where the number itself underflows.

    Example:
      >>> probability(math.log(0.012)), probability(-3826.0)
      ('p = 0.012', 'log10 p = -1661.6')
    """
    if math.isnan(log_p):
        return "p undefined"
    if log_p < _SMALLEST_LOG:
        return f"log10 p = {decimal_log(log_p)}"
    return f"p = {math.exp(log_p):.2g}"


def at_most(log_p: float) -> str:
    """A bound of a probability.

    Example:
      >>> at_most(math.log(0.012)), at_most(-3826.0)
      ('p <= 0.012', 'log10 p <= -1661.6')
    """
    return probability(log_p).replace("p = ", "p <= ", 1)


def decimal_log(log_p: float) -> str:
    """Decimal logarithm of a probability from its natural one, to one decimal.

    Example:
      >>> decimal_log(-3826.0), decimal_log(0.0)
      ('-1661.6', '0.0')
    """
    return "" if math.isnan(log_p) else f"{log_p / _LOG_TEN:z.1f}"


def plain(value: float, decimals: int = 1, sign: str = "") -> str:
    """A number of ordinary size for a narrow column; empty where undefined.

    Example:
      >>> plain(3.14159), plain(-0.01), plain(2.0, 2, "+"), plain(12345.6), plain(math.nan)
      ('3.1', '0.0', '+2.00', '1e+04', '')
    """
    if math.isnan(value):
        return ""
    return f"{value:{sign}z.{decimals}f}" if abs(value) < 1000 else f"{value:{sign}.0e}"


def positions(values: Sequence[float]) -> list[str]:
    """Points of an axis with the decimals that tell a thousandth of their range apart.

    Example:
      >>> positions([1.7e9, 1.7e9 + 14.0, 1.7e9 + 28.0])
      ['1700000000.00', '1700000014.00', '1700000028.00']
    """
    finite = [value for value in values if math.isfinite(value)]
    extent = max(finite) - min(finite) if finite else 0.0
    extent = extent or (abs(finite[0]) if finite else 0.0) or 1.0
    decimals = 3 - math.floor(math.log10(extent))
    if decimals > 8 or extent > 1e12:
        return [short(value, 6) for value in values]
    return [f"{value:z.{max(decimals, 0)}f}" for value in values]


def count(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
