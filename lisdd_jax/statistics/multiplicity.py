"""Several p-values at once: a family of hypotheses, and one hypothesis over several splits."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import validation
from lisdd_jax.numerics.hosted import namespace


def check_method(method: str) -> None:
    """Refuse a name that is no adjustment."""
    if method not in ("bh", "by"):
        raise ValueError(f'method must be "bh" or "by", got {method!r}')


def adjust_p_values(p_values: Any, *, method: str) -> jax.Array:
    """Adjusted p-values; a member is declared at level ``q`` when its value is at most ``q``.

    ``"bh"`` (Benjamini and Hochberg) controls the false-discovery rate under independence or
    positive regression dependence, ``"by"`` (Benjamini and Yekutieli) under any dependence.
    NaN members are left out of the family and stay NaN, so they are never declared.

    Args:
      p_values: ``(K,)`` in [0, 1] or NaN.
      method: ``"bh"`` or ``"by"``.

    Returns:
      ``(K,)`` adjusted values.

    Raises:
      ValueError: the method is unknown, or a concrete value lies outside [0, 1].

    Example:
      >>> import jax.numpy as jnp
      >>> adjust_p_values(jnp.array([0.01, 0.02, jnp.nan, 0.9]), method="bh").round(3).tolist()
      [0.03, 0.03, nan, 0.9]

    References:
      Benjamini and Hochberg (1995), JRSS B 57. Benjamini and Yekutieli (2001), Annals of
      Statistics 29.
    """
    check_method(method)
    p_values = validation.float_array("p_values", p_values)
    validation.Shapes().check("p_values", p_values.shape, ("K",))
    if validation.is_concrete(p_values):
        validation.check_between("p_values", np.nan_to_num(p_values), 0.0, 1.0)
    return _adjust(p_values, method)


@partial(jax.jit, static_argnames="method")
def _adjust(p_values: jax.Array, method: str) -> jax.Array:
    missing = jnp.isnan(p_values)
    num = jnp.sum(~missing).astype(p_values.dtype)
    ranked = jnp.argsort(jnp.where(missing, jnp.inf, p_values))
    ranks = jnp.arange(1, p_values.shape[0] + 1, dtype=p_values.dtype)
    harmonic = jnp.sum(jnp.where(ranks <= num, 1 / ranks, 0.0)) if method == "by" else 1.0
    raw = jnp.where(ranks <= num, p_values[ranked] * num / ranks * harmonic, jnp.inf)
    monotone = jax.lax.cummin(raw, reverse=True)
    adjusted = jnp.zeros_like(p_values).at[ranked].set(jnp.minimum(monotone, 1.0))
    return jnp.where(missing, jnp.nan, adjusted)


def combine_splits(log_p_values: Any) -> tuple[Any, Any]:
    """P-values of one hypothesis from several random splits: twice their median.

    Whatever the dependence of the splits: half of ``S`` p-values lie at or below ``u`` with
    probability at most ``2 u``, since ``S u`` are expected to (Markov's inequality). So twice the
    median is a p-value of that hypothesis again. It says nothing on a family: combine each member
    first, then adjust the combined values by a rule that bears any dependence (``"by"``). A single
    split is left as it is.

    Args:
      log_p_values: ``(S, ...)``; a NaN counts as a p-value of 1. The median of an even number is
        the lower middle one.

    Returns:
      Log p-values ``(...)``, and which split has the median, ``(...)`` int32.

    References:
      Rüschendorf (1982), Random variables with maximum sums, Advances in Applied Probability 14;
      Meinshausen, Meier and Bühlmann (2009), p-values for high-dimensional regression, Journal of
      the American Statistical Association 104, theorem 3.1 with gamma = 1/2.
    """
    num, xp = log_p_values.shape[0], namespace(log_p_values)
    filled = xp.where(xp.isnan(log_p_values), 0.0, log_p_values)
    if num == 1:
        return filled[0], xp.zeros(filled.shape[1:], np.int32)
    middle = xp.argsort(filled, axis=0)[(num - 1) // 2].astype(np.int32)
    value = xp.take_along_axis(filled, middle[None], axis=0)[0]
    return xp.minimum(value + float(np.log(2.0)), 0.0), middle
