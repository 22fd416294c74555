"""What was found, as one pytree."""

from dataclasses import dataclass

import jax
from jax.tree_util import register_dataclass

from lisdd_jax.results.evidence import Certificate, Dependence, Exactness, Place, Rival
from lisdd_jax.results.places import Cells, Regions


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Form:
    """The missing mechanism chosen by holdout.

    Where regions have mechanisms of their own, this is the one of the region in which it gains
    most; ``Regions`` has them all.

    Attributes:
      support: ``(L,)`` bool, the chosen terms; all False where nothing was chosen.
      coefficients, stderr: ``(L,)`` fitted on all rows of the region; 0 and NaN off the support.
      error: mean squared holdout error of the chosen support.
      errors: ``(S,)`` holdout error of every support, inf where it is rank-deficient.
      equivalent: ``(S,)`` bool, supports within the tolerance of the best error.
      certified: bool, held-out rows confirm the terms in a certified place (default); published:
        that of the certificate.
      status: int32.
    """

    support: jax.Array
    coefficients: jax.Array
    stderr: jax.Array
    error: jax.Array
    errors: jax.Array
    equivalent: jax.Array
    certified: jax.Array
    status: jax.Array


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis:
    """Where the model is wrong, what is missing there, and whether the evidence is real.

    Attributes:
      coefficients: ``(p,)`` the trusted physics, NaN under a failure.
      covariance: ``(p, p)`` of the coefficients, given the clean cells.
      scale: noise scale.
      cells: the map over the axis.
      regions: the discrepant intervals.
      form: the missing mechanism.
      test: the certificate from the held-out half.
      place: the certificate of the place (default).
      exactness: the test that the law holds exactly (default).
      law_scatter: how nearly the law holds where it holds: root mean square of its own misfit, in
        units of the response, noise taken off (default).
      rival: another law of the same form (default).
      everywhere: ``(L,)`` bool, terms that act on all rows rather than in a region, where the
        verdict is NO_CLEAN_REGIME for them (default). The physics is then fitted together with
        them, and the first of ``regions`` is the whole axis.
      dependence: of the rows (default).
      outliers: ``(n,)`` bool, rows set aside as gross errors (default).
      row_noise: ``(n,)`` noise scales of the rows, beside those given, over that of their part of
        the axis; 1 unless the noise goes with a column (default).
      noise_exponents: ``(p + 2, 2)`` powers with which it goes with the axis, the physics columns
        and the prediction, far from the middle of each: rising from one side to the other, and to
        both sides (of the prediction, from zero); 0 where it does not (default).
      num_rows: rows in use.
      num_iterations: iterations of the clean-regime search (published).
      verdict: int32, a ``Verdict``.
      status: int32, a ``Status``; the first failure of the stages.
    """

    coefficients: jax.Array
    covariance: jax.Array
    scale: jax.Array
    cells: Cells
    regions: Regions
    form: Form
    test: Certificate
    place: Place
    exactness: Exactness
    law_scatter: jax.Array
    rival: Rival
    everywhere: jax.Array
    dependence: Dependence
    outliers: jax.Array
    row_noise: jax.Array
    noise_exponents: jax.Array
    num_rows: jax.Array
    num_iterations: jax.Array
    verdict: jax.Array
    status: jax.Array
