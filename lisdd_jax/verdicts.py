"""The answer in one word, from what the stages found."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.results import Certificate, Form, Verdict
from lisdd_jax.status import Status, is_failure


def decide(status: jax.Array, form: Form, test: Certificate, flagged: jax.Array) -> jax.Array:
    """The verdict of a diagnosis.

    Args:
      status: of the stages before the form.
      form: the missing mechanism.
      test: the certificate.
      flagged: ``(R,)`` bool, cells called discrepant on all rows.

    Returns:
      int32, a ``Verdict``.
    """
    any_flagged = jnp.any(flagged)
    found = jnp.where(test.reject, Verdict.DISCREPANCY, Verdict.NOT_CERTIFIED)
    found = jnp.where(is_failure(form.status), Verdict.NOT_IDENTIFIABLE, found)
    verdict = jnp.where(any_flagged | test.reject, found, Verdict.CLEAN)
    # A certificate for a region that the full data do not show is no certificate of the report.
    verdict = jnp.where(test.reject & ~any_flagged, Verdict.NOT_CERTIFIED, verdict)
    # Half of the rows could not even be fitted, so nothing was tried on them.
    untried = test.status == Status.TOO_FEW_ROWS
    verdict = jnp.where(untried, Verdict.INSUFFICIENT_DATA, verdict)
    return _unless_failed(status, verdict)


_CAUSES = {
    Status.RANK_DEFICIENT_DESIGN: Verdict.NOT_IDENTIFIABLE,
    Status.DEGENERATE_STARTS: Verdict.NOT_IDENTIFIABLE,
    Status.NO_CLEAN_CELLS: Verdict.NO_CLEAN_REGIME,
}


def _unless_failed(status: jax.Array, verdict: jax.Array) -> jax.Array:
    failed = jnp.int32(Verdict.INSUFFICIENT_DATA)
    for cause, outcome in _CAUSES.items():
        failed = jnp.where(status == cause, outcome, failed)
    return jnp.where(is_failure(status), failed, verdict).astype(jnp.int32)


class Findings(NamedTuple):
    """What the calibrated verdict rests on, each a scalar bool.

    Attributes:
      enough: there are groups of cells enough to tell one from the others.
      adequate: the physics does not misfit the groups that it calls clean.
      ambiguous: a rival regime explains about as many rows with another law, or the missing terms
        may act on the clean rows as well.
      flagged: some group is flagged.
      usable: every region has a support that could be fitted and scored.
      certified: the held-out test rejects.
    """

    enough: jax.Array
    adequate: jax.Array
    ambiguous: jax.Array
    flagged: jax.Array
    usable: jax.Array
    certified: jax.Array


def decide_calibrated(status: jax.Array, findings: Findings) -> jax.Array:
    """The verdict of a calibrated diagnosis: the first reason to abstain, else what was found.

    Args:
      status: of the stages before the form.
      findings: what the verdict rests on.

    Returns:
      int32, a ``Verdict``.
    """
    reasons = (
        (~findings.adequate, Verdict.NO_CLEAN_REGIME),
        (~findings.enough, Verdict.INSUFFICIENT_DATA),
        (findings.ambiguous, Verdict.AMBIGUOUS_REGIME),
        (~findings.flagged, Verdict.CLEAN),
        (~findings.usable, Verdict.NOT_IDENTIFIABLE),
        (findings.certified, Verdict.DISCREPANCY),
    )
    verdict = jnp.int32(Verdict.NOT_CERTIFIED)
    for condition, outcome in reversed(reasons):
        verdict = jnp.where(condition, outcome, verdict)
    return _unless_failed(status, verdict)
