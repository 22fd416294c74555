"""The diagnosis inside differentiable models.

``hybrid.training`` needs Optax besides, and ``hybrid.adaptive`` Diffrax.
"""

from lisdd_jax.hybrid.gates import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from lisdd_jax.hybrid.integration import Rollout, rollout
from lisdd_jax.hybrid.layer import CorrectedModel, Parameters, from_diagnosis
from lisdd_jax.hybrid.nonlinear import NonlinearDiagnosis, diagnose_nonlinear
from lisdd_jax.hybrid.projection import Projected, project
from lisdd_jax.hybrid.refitting import Refit, refit
from lisdd_jax.hybrid.smooth_diagnosis import SmoothDiagnosis, smooth_diagnose
from lisdd_jax.hybrid.smoothing import Smoothed, local_polynomial
from lisdd_jax.hybrid.soft_trimming import SmoothTrimmedFit, smooth_fit_trimmed

__all__ = [
    "HIGHEST_TEMPERATURE",
    "LOWEST_TEMPERATURE",
    "CorrectedModel",
    "NonlinearDiagnosis",
    "Parameters",
    "Projected",
    "Refit",
    "Rollout",
    "SmoothDiagnosis",
    "SmoothTrimmedFit",
    "Smoothed",
    "diagnose_nonlinear",
    "from_diagnosis",
    "local_polynomial",
    "project",
    "refit",
    "rollout",
    "smooth_diagnose",
    "smooth_fit_trimmed",
]
