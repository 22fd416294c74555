"""Rows set aside that may be the noise's own (docs/method.md, section 3.10).

Gross errors stand apart from the noise. A long tail grows thin: rows beyond the bound of outliers
follow many up to it, or the noise before it leans to that side, and cutting it off moves the law.
"""

import jax
import jax.numpy as jnp

_TAIL = 0.6
"""Share of the bound from which rows are in the tail of the noise: three scales, beyond which a
normal has 0.00135 of its rows on a side."""

_SHARE, _ROWS = 0.0027, 1.0
"""Share of the rows, twice a normal's, and number beyond it, that are no sign of a longer tail."""

_FARTHER = 1 / 3
"""Rows of the tail up to the bound for one beyond it, from which it goes on there: a lognormal
noise has 1.4, a normal one with gross errors of unit spread at six scales 0.19, at eight none."""


_SHOULDER = 0.4
"""Share of the bound, two scales, from which rows tell to which side the noise leans."""

_LEANS, _ERRORS = 3.0, 2.0
"""How many times the rows of the other side, and by how many standard errors more: where gross
errors move a law by a fifth of a scale, their side has 2.6 times as many."""


def continue_tail(
    residual: jax.Array, bound: jax.Array, aside: jax.Array, kept: jax.Array
) -> jax.Array:
    """Rows set aside on a side of the law on which the tail of the noise reaches out to them.

    Args:
      residual: ``(n,)`` of the law.
      bound: ``(n,)`` beyond which rows are set aside.
      aside, kept: ``(n,)`` bool, rows of the law that are, and that are not.

    Returns:
      ``(n,)`` bool, some of ``aside``.
    """

    def count(rows: jax.Array) -> jax.Array:
        return jnp.sum(rows, axis=-1).astype(residual.dtype)

    side = jnp.stack([residual > 0, residual < 0])
    tail, shoulder = (
        count(side & (kept & (jnp.abs(residual) > share * bound))[None])
        for share in (_TAIL, _SHOULDER)
    )
    goes_on = tail - _SHARE * count(kept) - _ROWS >= _FARTHER * count(side & aside[None])
    other = _LEANS * shoulder[::-1]
    leans = shoulder - other >= _ERRORS * jnp.sqrt(shoulder + _LEANS * other)
    leans = leans & (shoulder > 0)
    return aside & jnp.any(side & (goes_on | leans)[:, None], axis=0)
