"""The answer in one word, from what the stages found."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.results import Verdict, verdict_unless_failed


class Findings(NamedTuple):
    """What the verdict rests on, each a scalar bool.

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


def decide(status: jax.Array, findings: Findings) -> jax.Array:
    """The verdict of a diagnosis: the first reason to abstain, else what was found.

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
    return verdict_unless_failed(status, verdict)
