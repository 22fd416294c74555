"""Blocks of rows in the order of time, as long as the residuals of neighbours ask for.

In an autoregression with correlation ``rho`` of neighbours, the variance of a mean of ``n`` rows is
estimated from blocks of ``l`` consecutive rows with a relative bias of ``2 rho / ((1 - rho^2) l)``
and a relative variance of ``2 l / n``, or ``4 l / (3 n)`` where the blocks overlap. The sum of
squared bias and variance of the latter is least at

    l = (sqrt(6) rho / (1 - rho^2))^(2/3) n^(1/3),

a factor of 1.14 longer than for blocks apart.

References:
  Carlstein, The use of subseries values for estimating the variance of a general statistic from a
  stationary sequence, Annals of Statistics 14, 1986 (blocks apart); Künsch, The jackknife and the
  bootstrap for general stationary observations, Annals of Statistics 17, 1989 (overlapping).
"""

import math

import numpy as np

from lisdd_jax.default.correlations import LARGEST, SIGNIFICANT


def block_length(correlation: float, num_rows: int) -> int:
    """Rows per block; 1 where the correlation is not beyond chance.

    Args:
      correlation: of neighbours in the order of time; NaN for unknown.
      num_rows: number of rows, ``n``.

    Returns:
      A whole number from 1 to half of the rows, so that there are two blocks at least.

    Example:
      >>> block_length(0.5, 400), block_length(0.1, 400)
      (11, 1)
    """
    if not correlation > SIGNIFICANT / math.sqrt(num_rows):
        return 1
    rho = min(correlation, LARGEST)
    ratio = math.sqrt(6) * rho / (1 - rho**2)
    return min(math.ceil(ratio ** (2 / 3) * num_rows ** (1 / 3)), max(num_rows // 2, 1))


def label_blocks(num_rows: int, length: int) -> np.ndarray:
    """Labels ``(n,)`` from 0 of ``length`` consecutive rows each; the last block may be shorter.

    Example:
      >>> label_blocks(5, 2).tolist()
      [0, 0, 1, 1, 2]
    """
    return np.arange(num_rows) // length
