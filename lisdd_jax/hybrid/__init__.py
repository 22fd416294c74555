"""The diagnosis inside differentiable models; ``hybrid.training`` needs Optax besides."""

from lisdd_jax.hybrid.gates import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from lisdd_jax.hybrid.layer import CorrectedModel, Parameters, from_diagnosis
from lisdd_jax.hybrid.nonlinear import NonlinearDiagnosis, diagnose_nonlinear
from lisdd_jax.hybrid.refitting import Refit, refit
from lisdd_jax.hybrid.smooth_diagnosis import SmoothDiagnosis, smooth_diagnose
from lisdd_jax.hybrid.soft_trimming import SmoothTrimmedFit, smooth_fit_trimmed
from lisdd_jax.hybrid.trajectories import (
    Projected,
    Rollout,
    Smoothed,
    local_polynomial,
    project,
    rollout,
)

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
