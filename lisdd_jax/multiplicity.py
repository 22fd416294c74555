"""Several regions at once: false-discovery control over a family of p-values."""

from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax import validation


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
    if method not in ("bh", "by"):
        raise ValueError(f'method must be "bh" or "by", got {method!r}')
    p_values = validation.float_array("p_values", p_values)
    validation.Shapes().check("p_values", p_values.shape, ("K",))
    missing = jnp.isnan(p_values)
    validation.check_between("p_values", jnp.where(missing, 0.0, p_values), 0.0, 1.0)
    size = p_values.shape[0]
    num = jnp.sum(~missing)
    ranked = jnp.argsort(jnp.where(missing, jnp.inf, p_values))
    ranks = jnp.arange(1, size + 1)
    harmonic = (
        jnp.sum(jnp.where(ranks <= num, 1 / ranks.astype(p_values.dtype), 0.0))
        if method == "by"
        else 1.0
    )
    raw = jnp.where(ranks <= num, p_values[ranked] * num / ranks * harmonic, jnp.inf)
    monotone = jax.lax.cummin(raw, reverse=True)
    adjusted = jnp.zeros_like(p_values).at[ranked].set(jnp.minimum(monotone, 1.0))
    return jnp.where(missing, jnp.nan, adjusted)
