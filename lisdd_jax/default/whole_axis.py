"""Terms that act on all rows, as one region that is the whole axis (docs/method.md, section 3.8).

Where terms act everywhere no part of the rows shows the physics alone: law and terms are fitted
together, on all of them.
"""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default.findings import Findings
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.outcome import Terms
from lisdd_jax.default.physics import Physics
from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import contract, held, namespace
from lisdd_jax.statistics.f_tests import FRatio, f_ratio
from lisdd_jax.statistics.supports import term_places


class JointFit(NamedTuple):
    """Physics and terms, fitted together.

    Attributes:
      theta, covariance: ``(p,)`` and ``(p, p)`` of the physics.
      place, used, coefficients, stderr: ``(s,)`` of the terms.
      determined: bool, the rows determine the physics.
      variance: of what is left, at a relative scale of 1.
      test: F of the terms.
    """

    theta: Any
    covariance: Any
    place: Any
    used: Any
    coefficients: Any
    stderr: Any
    determined: Any
    variance: Any
    test: FRatio


def fit_jointly(
    gram: Any,
    num_rows: Any,
    support: Any,
    inflation: Any,
    floor: Any,
    layout: ColumnLayout,
    max_terms: int,
) -> JointFit:
    """Least squares of the physics and of the terms of a support, on the rows of all cells.

    Cells have a noise of their own, which is what the fit leaves in them; the covariance is as that
    of the physics (docs/method.md, equation 28), and the test is the terms' Wald form by it.

    Args:
      gram: ``(K, m, m)`` sums of products of the cells' rows, ``num_rows (K,)`` of them.
      support: int.
      inflation: rows that count as one, since they depend on each other.
      floor: variance of rounding errors.
      layout, max_terms: columns, and the largest support.
    """
    xp, tolerance = namespace(gram), tolerances.gram(gram.dtype)
    places, in_use = term_places(layout.num_terms, max_terms)
    place, used = xp.asarray(places)[support], xp.asarray(in_use)[support]
    law, size = np.arange(layout.num_directions)[layout.physics], layout.num_physics
    columns = xp.concatenate([xp.asarray(law), place + layout.num_directions])
    use = xp.concatenate([xp.ones(size, bool), used])
    block = xp.where((use[:, None] & use[None])[None], gram[:, columns][:, :, columns], 0.0)
    moment = xp.where(use[None], gram[:, columns, -1], 0.0)
    found = small_systems.solve_with_inverse(block.sum(0), moment.sum(0), tolerance)
    fitted = contract("i,kij,j->k", found.solution, block, found.solution)
    left = gram[:, -1, -1] - 2 * contract("ki,i->k", moment, found.solution) + fitted
    left = xp.maximum(left, 0.0) + floor * num_rows
    degrees = xp.maximum(num_rows.sum() - found.independent.sum().astype(gram.dtype), 1)
    # What the fit leaves of equal noise in a cell are its rows less their part of the fit.
    lost = contract("ij,kij->k", found.inverse, block)
    noise = inflation * left / xp.maximum(num_rows - lost, 1)
    meat = contract("k,kij->ij", noise, block)
    covariance = contract("ij,jk,kl->il", found.inverse, meat, found.inverse)
    terms, own = found.solution[size:], covariance[size:, size:]
    wald = small_systems.solve(own, terms, tolerance)
    square = xp.diagonal(own)
    return JointFit(
        theta=found.solution[:size],
        covariance=covariance[:size, :size],
        place=place,
        used=used,
        coefficients=terms,
        stderr=xp.where(square > 0, xp.sqrt(xp.where(square > 0, square, 1.0)), xp.nan),
        determined=xp.all(found.independent[:size]),
        variance=left.sum() / degrees,
        test=f_ratio((wald.solution * terms).sum(), wald.rank, degrees),
    )


def law_of_all_rows(joint: JointFit, law: Physics, acts: Any) -> Physics:
    """The physics of the joint fit where terms act on all rows, else ``law``."""
    xp = namespace(acts)
    return Physics(
        *(xp.where(acts, getattr(joint, name), part) for name, part in law._asdict().items())
    )


def spread_over_axis(found: Findings, joint: JointFit, log_p: Any, num_rows: Any) -> Findings:
    """What was found, with the whole axis as the one region where terms act on all rows.

    Its evidence is the F test of its terms, for as many supports as there are (Bonferroni); it has
    no ends. Else nothing changes. Evidence and held-out errors carry no derivatives.

    Args:
      found: regions and what they rest on; its law and noise are those of all rows already.
      joint: physics and terms of all rows, and ``log_p`` the log of the p-value of its test.
      num_rows: in use.
    """
    xp, acts = namespace(found.variance), found.acts
    first = np.arange(len(found.gains)) == 0
    settled, form, rows = found.settled, found.form, found.final.map_rows

    def pick(value: Any, other: Any) -> Any:
        return xp.where(acts, xp.asarray(value, other.dtype), other)

    def at_first(value: Any, other: Any, empty: Any = 0) -> Any:
        shape = (-1,) + (1,) * (other.ndim - 1)
        value, empty = (xp.asarray(part, other.dtype) for part in (value, empty))
        return pick(xp.where(first.reshape(shape), value, empty), other)

    num_supports = form.errors.shape[1]
    chosen = np.arange(num_supports)[None] == found.everywhere.support
    log_p, errors = held((log_p, found.everywhere.errors))
    log_p = xp.minimum(log_p + float(np.log(num_supports)), 0.0)
    terms = (joint.place, joint.used, joint.coefficients, joint.stderr)
    return found._replace(
        members=at_first(True, found.members, False),
        gains=at_first(-log_p, found.gains),
        form=form._replace(
            support=at_first(found.everywhere.support, form.support),
            shared=form.shared & ~acts,
            errors=at_first(errors[None], form.errors),
            equivalent=at_first(chosen, form.equivalent, False),
            usable=at_first(True, form.usable, False),
            lacking=form.lacking & ~acts,
        ),
        terms=Terms(
            *(at_first(part[None], old) for part, old in zip(terms, found.terms, strict=True))
        ),
        settled=settled._replace(
            lower=at_first(-xp.inf, settled.lower, xp.nan),
            upper=at_first(xp.inf, settled.upper, xp.nan),
            lower_interval=pick(xp.nan, settled.lower_interval),
            upper_interval=pick(xp.nan, settled.upper_interval),
            is_kink=settled.is_kink & ~acts,
            num_rows=at_first(num_rows, settled.num_rows),
        ),
        final=found.final._replace(
            map_rows=pick(xp.concatenate([rows[:, :3], rows[:, :1]], 1), rows)
        ),
    )
