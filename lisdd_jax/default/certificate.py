"""The held-out test of regions and forms: ordinary F and HC3, jointly and per region."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default import added_terms
from lisdd_jax.default.floor import Floor, wald_beyond_size
from lisdd_jax.numerics import normal_equations
from lisdd_jax.statistics.f_tests import FRatio, f_ratio


class HeldOut(NamedTuple):
    """Tests of added columns on the rows held out.

    Attributes:
      ordinary, robust: joint partial F ratio, and its HC3 Wald form.
      each, each_robust: ``(K,)`` the same for every region by itself, given the others.
    """

    ordinary: FRatio
    robust: FRatio
    each: FRatio
    each_robust: FRatio


def held_out(
    basis: jax.Array,
    residual: jax.Array,
    columns: jax.Array,
    mask: jax.Array,
    shared: jax.Array,
    floor: Floor,
) -> HeldOut:
    """Test the terms of ``K`` regions together and one by one.

    Args:
      basis: ``(n, p)`` physics in the frame.
      residual: ``(n,)`` response about a first fit.
      columns: ``(n, K, m)`` chosen terms inside the chosen regions, else 0.
      mask: ``(n,)`` bool, the rows held out.
      shared: bool, one mechanism for all regions: the joint test then adds their sum.
      floor: what is no evidence.

    Returns:
      A ``HeldOut``; ratios are undefined where no column is independent or no rows are left.
    """
    n, num_regions, num_terms = columns.shape
    summed = jnp.zeros_like(columns).at[:, 0].set(jnp.sum(columns, axis=1))
    both = jnp.stack([jnp.where(shared, summed, columns), columns]).reshape(2, n, -1)
    models = jax.vmap(added_terms.fit_added, in_axes=(None, None, 0, None, None))(
        basis, residual, both, mask, floor
    )
    joint, own = (jax.tree.map(lambda leaf, i=i: leaf[i], models) for i in (0, 1))
    of_region = jnp.repeat(jnp.eye(num_regions, dtype=bool), num_terms, axis=1)

    num_rows = jnp.sum(jnp.any(columns != 0, axis=2) & mask[:, None], axis=0)

    def wald(covariance: jax.Array, chosen: jax.Array, num_rows: jax.Array) -> FRatio:
        block = jnp.where(chosen[:, None] & chosen, covariance, 0.0)
        form, rank = normal_equations.quadratic_form(
            block, jnp.where(chosen, own.coefficients, 0.0)
        )
        form = wald_beyond_size(form, num_rows.astype(form.dtype), own.variance, floor)
        return f_ratio(form, rank, own.ordinary.df_den)

    tests = jax.vmap(jax.vmap(wald, in_axes=(None, 0, 0)), in_axes=(0, None, None))(
        jnp.stack([own.covariance, own.robust_covariance]), of_region, num_rows
    )
    each, each_robust = (jax.tree.map(lambda leaf, i=i: leaf[i], tests) for i in (0, 1))
    return HeldOut(joint.ordinary, joint.robust, each, each_robust)
