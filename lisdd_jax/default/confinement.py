"""Does the missing term stay inside its regions, or may it act on the clean rows as well?

Where the clean regime is small, a term that acts everywhere can pass for a biased physics there:
the physics takes up most of it, and the clean rows show no misfit. Then the data do not tell where
the law is wrong, and the physics is not to be trusted.
"""

import jax
import jax.numpy as jnp

from lisdd_jax.default import added_terms
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.stages import Stages
from lisdd_jax.numerics import normal_equations, scaling
from lisdd_jax.statistics.f_tests import f_ratio, log_p_values


def log_p_elsewhere(rows: Ordered, full: Stages) -> jax.Array:
    """Test of the main region's terms acting on the clean rows with the same coefficients.

    Their coefficients are estimated on the clean rows with the physics free. Terms that the clean
    rows do not determine, because they vanish there or the physics spans them, say nothing.

    Args:
      rows: all rows of the data set.
      full: what they show.

    Returns:
      Log p-value: small where the clean rows contradict such terms; NaN where they say nothing, and
      where they are the majority, which the law is then taken to be that of.
    """
    main, terms = full.form.main, full.form.terms
    used = terms.used[main]
    group = jnp.append(full.groups.of_cell, full.groups.of_cell.shape[0])[rows.cell]
    clean = rows.used & jnp.append(full.regime.clean, False)[group]
    inside = jnp.any(full.form.region.inside(len(clean), full.spans.present), axis=0)
    clean = clean & ~inside
    columns = jnp.where(used & clean[:, None], rows.terms[:, terms.place[main]], 0.0)
    added = added_terms.fit_added(rows.basis, rows.residual, columns, clean, rows.floor)
    norm = scaling.column_norms(columns)
    determined = used & (jnp.diagonal(added.covariance) > 0)
    gap = jnp.where(determined, added.coefficients / norm - full.coefficients[main], 0.0)
    stderr = jnp.where(determined, full.stderr[main], 0.0)
    covariance = added.covariance / (norm[:, None] * norm) + jnp.diag(stderr**2)
    covariance = jnp.where(determined[:, None] & determined, covariance, 0.0)
    wald, rank = normal_equations.quadratic_form(covariance, gap)
    (log_p,) = log_p_values(f_ratio(wald, rank, added.ordinary.df_den))
    minority = 2 * jnp.sum(clean) < jnp.sum(rows.used)
    return jnp.where(minority, log_p, jnp.nan)
