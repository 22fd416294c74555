"""The answer in one word, from what the stages found."""

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
    causes = {
        Status.RANK_DEFICIENT_DESIGN: Verdict.NOT_IDENTIFIABLE,
        Status.DEGENERATE_STARTS: Verdict.NOT_IDENTIFIABLE,
        Status.NO_CLEAN_CELLS: Verdict.NO_CLEAN_REGIME,
    }
    any_flagged = jnp.any(flagged)
    found = jnp.where(test.reject, Verdict.DISCREPANCY, Verdict.NOT_CERTIFIED)
    found = jnp.where(is_failure(form.status), Verdict.NOT_IDENTIFIABLE, found)
    verdict = jnp.where(any_flagged | test.reject, found, Verdict.CLEAN)
    # A certificate for a region that the full data do not show is no certificate of the report.
    verdict = jnp.where(test.reject & ~any_flagged, Verdict.NOT_CERTIFIED, verdict)
    failed = jnp.int32(Verdict.INSUFFICIENT_DATA)
    for cause, outcome in causes.items():
        failed = jnp.where(status == cause, outcome, failed)
    return jnp.where(is_failure(status), failed, verdict).astype(jnp.int32)
