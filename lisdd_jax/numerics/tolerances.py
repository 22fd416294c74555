"""Rounding limits: below which share of its size a number counts as rounding, and why.

Every limit that stands for rounding is here. What a user may set is in ``config``; limits of an
iteration (how many steps, how much of a descent is enough) stand where they act.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Limit:
    """A share ``factor eps^power``, with ``eps`` the distance from 1 to the next float.

    Attributes:
      factor, power: see above.
      of: the size that it is a share of.
      reason: why so much.
    """

    factor: float
    of: str
    reason: str
    power: float = 1.0

    def __call__(self, dtype: np.dtype | type) -> float:
        """The share for a floating-point type."""
        return self.factor * float(jnp.finfo(dtype).eps) ** self.power


RANK = Limit(
    1e3,
    "the norm of a column",
    "Gram-Schmidt leaves eps times the number of columns and the growth of the row sums, some tens"
    " each",
)
PIVOT = Limit(
    1e2,
    "the diagonal of a system in a frame",
    "a sweep of a well-conditioned system leaves a few eps per step",
)
ELEMENTAL_PIVOT = Limit(
    1.0,
    "the diagonal of the Gram matrix of as many rows as columns",
    "an exact fit through rows nearer to dependence magnifies noise beyond any use as a start",
    power=0.5,
)
OFFSET = Limit(
    20.0, "the largest value of a column", "what centring leaves of a column that is an offset"
)
RESIDUAL = Limit(
    32.0, "the size of the response", "residuals are differences of some numbers of that size"
)
EXACT_FIT = Limit(
    1e2, "the norm of the response", "what a factor of all rows leaves of a response in its span"
)
RUNNING_SUM = Limit(
    1e2,
    "the running sum of rows",
    "a difference of running sums is known to the rounding of their own size; so large it is known"
    " to a per cent",
)
HOLDOUT_TIE = Limit(
    1e3,
    "the norm of the residuals scored and of the fit to them",
    "as RANK: supports that fit exactly, or alike, are equally good",
)
CANCELLATION = Limit(
    16.0, "a total sum of squares", "a difference of two residual sums carries the errors of both"
)
RESOLUTION = Limit(
    1.0, "a mean square", "a variance from sums of products is a difference of numbers of that size"
)
NOISE_FLOOR = Limit(
    64.0, "the root mean square of the response", "as RESIDUAL, after a second fit to residuals"
)
COUNT_SLACK = Limit(4.0, "a count of rows", "(1 - trim) n is rounded twice")
EQUATION = Limit(
    1.0,
    "the scale of an equation",
    "Newton's steps gain no more once the rounding of sums over rows, up to a quarter of the"
    " digits, is reached",
    power=0.75,
)
STEP = Limit(1.0, "the unit of an unknown", "such a step changes a minimum by eps", power=0.5)
SETTLED = Limit(64.0, "an unknown", "rounding of one update of a fixed point")
DESCENT = Limit(1.0, "an objective", "at a minimum arguments are known to sqrt(eps)", power=0.5)
HOST_SPAN = Limit(
    4.5e4,
    "the norm of a column on the host, in double precision",
    "columns come from tables, whose decimals are rounded before they are combined",
)


def gram(dtype: np.dtype | type) -> float:
    """Share of a column's squared norm below which what sums over rows leave of it is noise.

    The sums, not the solve, set this limit, with an error that grows with the number of rows; so it
    keeps some digits in either type and is no multiple of ``eps``.
    """
    return 1e-9 if dtype == jnp.float64 else 1e-5
